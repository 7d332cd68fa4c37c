//! Tests of the agreement on oblivious transfers, by the settings of both parties.

use std::time::Duration;

use transpute_ot::{BaseOt, Extension};

use transpute_units::{Bandwidth, KnownDirection};

use super::{Pair, Setup, chain, random_inputs};
use crate::{KnownPath, OtChoice, OtPlan, Role, SessionError, error::Field};

/// The OT setting of one party.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wish {
    /// This party demands nothing, and its prediction is that direct transfers are faster.
    AutoDirect,
    /// This party demands nothing, and its prediction is that an extension is faster.
    AutoExtension,
    Direct,
    Iknp,
    Soft4,
}

impl Wish {
    const ALL: [Self; 5] = [
        Self::AutoDirect,
        Self::AutoExtension,
        Self::Direct,
        Self::Iknp,
        Self::Soft4,
    ];

    fn apply(self, setup: &Setup) -> Setup {
        let mut setup = setup.clone();
        setup.config.ot = match self {
            Self::AutoDirect | Self::AutoExtension => OtChoice::Auto,
            Self::Direct => OtChoice::Direct,
            Self::Iknp => OtChoice::Extension(Extension::Iknp),
            Self::Soft4 => OtChoice::Extension(Extension::SoftSpoken4),
        };
        if self == Self::AutoExtension {
            // The direction to the peer is so slow that the keys of direct transfers would take too
            // long.
            setup.config.path = Some(KnownPath {
                rtt: Some(Duration::from_millis(1)),
                to_peer: KnownDirection::of_rate(Bandwidth::from_bytes_per_second(1e4)),
                from_peer: KnownDirection::of_rate(Bandwidth::from_bytes_per_second(1e9)),
            });
        }
        setup
    }

    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Iknp => "iknp",
            Self::Soft4 => "softspoken-4",
            Self::AutoDirect | Self::AutoExtension => "auto",
        }
    }
}

/// The expected plans, with one row for each setting of the garbler and one column for each setting
/// of the evaluator, in the order of [`Wish::ALL`]. `d` is direct. `i` is IKNP and `s` is
/// SoftSpoken, as demanded. `x` is the extension that the evaluator predicts. `-` is a refusal.
const AGREED: [&str; 5] = ["dxdis", "dxdis", "ddd--", "ii-i-", "ss--s"];

#[test]
fn both_settings_decide_the_transfers_of_a_single_run() {
    for &base_ot in BaseOt::ALL {
        // 20 evaluations with 8 input bits of the evaluator need 160 transfers.
        let circuit = chain(40);
        let mut setup = Setup::new(&circuit, random_inputs(&circuit, 20, 9));
        setup.config.base_ot = base_ot;
        let predicted = Wish::AutoExtension
            .apply(&setup)
            .config
            .plan(160)
            .unwrap()
            .0;
        assert!(matches!(predicted, OtPlan::Extension(_)), "{predicted}");
        for (ours, row) in Wish::ALL.into_iter().zip(AGREED) {
            for (theirs, agreed) in Wish::ALL.into_iter().zip(row.chars()) {
                let expected = match agreed {
                    'd' => Some(OtPlan::Direct),
                    'i' => Some(OtPlan::Extension(Extension::Iknp)),
                    's' => Some(OtPlan::Extension(Extension::SoftSpoken4)),
                    'x' => Some(predicted),
                    _ => None,
                };
                let mut plans = Vec::new();
                let pair = Pair::new(&ours.apply(&setup), &theirs.apply(&setup));
                let ends = pair.run_to(&mut |_, frame| vec![frame], &mut |side| {
                    plans.push(side.single.plan);
                });
                let which = format!("{base_ot}: garbler {ours:?}, evaluator {theirs:?}");
                match expected {
                    Some(plan) => {
                        assert!(ends.garbler.is_ok(), "{which}: {:?}", ends.garbler);
                        let outputs = ends.evaluator.unwrap_or_else(|e| panic!("{which}: {e}"));
                        for (output, input) in outputs.iter().zip(&setup.inputs) {
                            assert_eq!(output.bits, circuit.evaluate(input).unwrap(), "{which}");
                        }
                        assert_eq!(plans, [plan; 2], "{which}");
                    }
                    None => {
                        for (role, own, peer) in [
                            (Role::Garbler, ours, theirs),
                            (Role::Evaluator, theirs, ours),
                        ] {
                            let Err(SessionError::Disagreement {
                                field: Field::Ot,
                                ours,
                                theirs,
                            }) = ends.of(role)
                            else {
                                panic!("{which}: {role} ended with {:?}", ends.of(role));
                            };
                            assert_eq!([ours, theirs], [own.name(), peer.name()], "{which}");
                        }
                    }
                }
            }
        }
    }
}
