//! Garbling schemes and their public parameters.

use std::{fmt, str::FromStr};

use rand::CryptoRng;

use crate::GarbleError;

/// A garbling scheme. It determines the bytes per gate, and the assumption about AES on which
/// security depends.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Scheme {
    /// Half gates (Zahur, Rosulek, Evans 2015) with a re-keyed hash; XOR is free, AND is 32 bytes.
    /// Models AES as an ideal cipher. This is the default.
    HalfGates,
    /// Half gates with one public AES key for all sessions. It is the fastest on the CPU, but its
    /// security decreases with the total number of gates ever garbled. Models AES as an ideal
    /// permutation.
    FixedKey,
    /// Gueron, Lindell, Nof, Pinkas 2015; XOR is 16 bytes, AND is 32 bytes and 4 bits. Assumes only
    /// that AES is a pseudorandom function.
    Prf,
    /// Three halves (Rosulek, Roy 2021); XOR is free, AND is 24 bytes and 5 bits. Models AES as an
    /// ideal cipher.
    ThreeHalves,
}

impl Scheme {
    /// All schemes, ordered by their codes.
    pub const ALL: [Self; 4] = [
        Self::HalfGates,
        Self::FixedKey,
        Self::Prf,
        Self::ThreeHalves,
    ];

    /// Returns the number that identifies the scheme in protocol messages.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::HalfGates => 0,
            Self::FixedKey => 1,
            Self::Prf => 2,
            Self::ThreeHalves => 3,
        }
    }

    /// Returns the scheme with this [code](Self::code), or `None` if there is none.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.code() == code)
    }

    /// Returns whether XOR gates are free, so that the two labels of every wire differ by one
    /// offset.
    #[must_use]
    pub const fn is_free_xor(self) -> bool {
        !matches!(self, Self::Prf)
    }

    /// Returns whether the garbler sends labels for its own inputs. If not, both parties derive
    /// them from [`Params::input_seed`].
    #[must_use]
    pub const fn sends_garbler_labels(self) -> bool {
        !self.is_free_xor()
    }

    /// Returns the number of ciphertext bytes of an AND gate.
    #[must_use]
    pub const fn and_bytes(self) -> usize {
        match self {
            Self::HalfGates | Self::FixedKey | Self::Prf => 32,
            Self::ThreeHalves => 24,
        }
    }

    /// Returns the number of bits of an AND gate in the trailer of its chunk.
    #[must_use]
    pub const fn and_bits(self) -> usize {
        match self {
            Self::HalfGates | Self::FixedKey => 0,
            Self::Prf => 4,
            Self::ThreeHalves => 5,
        }
    }

    /// Returns the number of ciphertext bytes of an XOR gate.
    #[must_use]
    pub const fn xor_bytes(self) -> usize {
        if self.is_free_xor() { 0 } else { 16 }
    }

    /// Returns the number of table bytes for the given numbers of gates, without the rounding of
    /// each chunk's trailer. The result saturates at `u64::MAX`.
    #[must_use]
    pub const fn table_bytes(self, and_gates: u64, xor_gates: u64) -> u64 {
        let rows = and_gates
            .saturating_mul(self.and_bytes() as u64)
            .saturating_add(xor_gates.saturating_mul(self.xor_bytes() as u64));
        rows.saturating_add(and_gates.saturating_mul(self.and_bits() as u64).div_ceil(8))
    }

    /// Returns the number of tweaks per gate.
    pub(crate) const fn tweaks_per_gate(self) -> u64 {
        match self {
            Self::HalfGates | Self::FixedKey => 2,
            Self::Prf => 1,
            Self::ThreeHalves => 3,
        }
    }

    /// Returns the number of labels that the garbler keeps per slot.
    pub(crate) const fn labels_per_slot(self) -> usize {
        if self.is_free_xor() { 1 } else { 2 }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::HalfGates => "half-gates",
            Self::FixedKey => "fixed-key",
            Self::Prf => "prf",
            Self::ThreeHalves => "three-halves",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = GarbleError;

    fn from_str(text: &str) -> Result<Self, GarbleError> {
        Self::ALL
            .into_iter()
            .find(|scheme| scheme.name() == text)
            .ok_or_else(|| GarbleError::UnknownScheme {
                found: text.to_owned(),
            })
    }
}

/// The public parameters of a garbling. The garbler chooses them and sends them in its hello; both
/// parties use the same.
///
/// The random parts must be fresh for every [`Seed`](crate::Seed). Two garblings with the same
/// start value are less secure than one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Params {
    /// The scheme.
    pub scheme: Scheme,
    /// Number of gate tweaks that share one AES key under [`Scheme::HalfGates`]: a power of two
    /// from 1 to 2^20. The default, 1, uses a fresh key for every half gate. A period of `P` costs
    /// `log2(P)` bits of security and saves key schedules. It is 1 under all other schemes.
    pub rekey_period: u32,
    /// The random start value `S` of the gate keys; unused by [`Scheme::FixedKey`] and
    /// [`Scheme::Prf`].
    pub start: [u8; 16],
    /// The random nonce that separates sessions in PRF inputs; used only by [`Scheme::Prf`].
    pub nonce: u64,
    /// The random seed from which the active labels of the garbler's inputs are expanded under
    /// free-XOR schemes; unused by [`Scheme::Prf`].
    pub input_seed: [u8; 16],
}

impl Params {
    /// The largest re-key period.
    pub const MAX_REKEY_PERIOD: u32 = 1 << 20;

    /// Returns parameters with fresh random parts.
    pub fn random(scheme: Scheme, rekey_period: u32, rng: &mut impl CryptoRng) -> Self {
        let mut params = Self {
            scheme,
            rekey_period,
            start: [0; 16],
            nonce: rng.next_u64(),
            input_seed: [0; 16],
        };
        rng.fill_bytes(&mut params.start);
        rng.fill_bytes(&mut params.input_seed);
        params
    }

    /// Checks that the scheme allows the re-key period, which a peer may have chosen.
    ///
    /// # Errors
    /// Returns [`GarbleError::RekeyPeriod`] if the period does not fit the scheme.
    pub fn validate(&self) -> Result<(), GarbleError> {
        let longest = match self.scheme {
            Scheme::HalfGates => Self::MAX_REKEY_PERIOD,
            _ => 1,
        };
        if self.rekey_period.is_power_of_two() && self.rekey_period <= longest {
            Ok(())
        } else {
            Err(GarbleError::RekeyPeriod {
                scheme: self.scheme,
                found: self.rekey_period,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for scheme in Scheme::ALL {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
            assert_eq!(Scheme::from_code(scheme.code()), Some(scheme));
        }
        assert_eq!(Scheme::from_code(4), None);
        assert!("halfgates".parse::<Scheme>().is_err());
    }

    #[test]
    fn re_key_periods_are_checked() {
        let params = |scheme, period| Params::random(scheme, period, &mut rand::rng()).validate();
        for period in [1, 2, 1024, 1 << 20] {
            assert_eq!(params(Scheme::HalfGates, period), Ok(()));
        }
        for period in [0, 3, 1 << 21, u32::MAX] {
            assert!(params(Scheme::HalfGates, period).is_err());
        }
        for scheme in [Scheme::FixedKey, Scheme::Prf, Scheme::ThreeHalves] {
            assert_eq!(params(scheme, 1), Ok(()));
            let error = params(scheme, 2).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("a re-key period of 2 does not fit {scheme}: expected 1")
            );
        }
    }
}
