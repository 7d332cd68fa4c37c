//! Constants of the curve and of Ristretto255 (RFC 9496, section 4.1), in 51-bit limbs.

use super::field::Limbs;

/// The curve parameter `d = -121665 / 121666`.
pub(super) const D: Limbs = [
    929_955_233_495_203,
    466_365_720_129_213,
    1_662_059_464_998_953,
    2_033_849_074_728_123,
    1_442_794_654_840_575,
];

/// The constant `2 d`.
pub(super) const D2: Limbs = [
    1_859_910_466_990_425,
    932_731_440_258_426,
    1_072_319_116_312_658,
    1_815_898_335_770_999,
    633_789_495_995_903,
];

/// The constant `1 - d^2`.
pub(super) const ONE_MINUS_D_SQUARED: Limbs = [
    1_136_626_929_484_150,
    1_998_550_399_581_263,
    496_427_632_559_748,
    118_527_312_129_759,
    45_110_755_273_534,
];

/// The constant `(d - 1)^2`.
pub(super) const D_MINUS_ONE_SQUARED: Limbs = [
    1_507_062_230_895_904,
    1_572_317_787_530_805,
    683_053_064_812_840,
    317_374_165_784_489,
    1_572_899_562_415_810,
];

/// The square root of `-d - 1` that RFC 9496 specifies.
pub(super) const SQRT_AD_MINUS_ONE: Limbs = [
    2_241_493_124_984_347,
    425_987_919_032_274,
    2_207_028_919_301_688,
    1_220_490_630_685_848,
    974_799_131_293_748,
];

/// The inverse square root of `-1 - d` that RFC 9496 specifies.
pub(super) const INVSQRT_A_MINUS_D: Limbs = [
    278_908_739_862_762,
    821_645_201_101_625,
    8_113_234_426_968,
    1_777_959_178_193_151,
    2_118_520_810_568_447,
];

/// The square root of -1 that RFC 9496 specifies.
pub(super) const SQRT_M1: Limbs = [
    1_718_705_420_411_056,
    234_908_883_556_509,
    2_233_514_472_574_048,
    2_117_202_627_021_982,
    765_476_049_583_133,
];
