//! What the two-party protocol of this project sends and computes, by docs/protocol.md.
//!
//! Byte for byte, so that a [`Workload`] can be made before anything runs.

use transpute_select::{End, Machine, SelectError, Workload};

/// How the oblivious transfers of a run are done: `OtPlan` of transpute-session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transfers {
    /// The evaluator has no inputs.
    None,
    /// Public-key transfers, one for each input bit.
    Direct,
    /// 128 base transfers and an extension.
    Extension {
        /// `k` of the extension: 1, 2, 4 or 8 (`Extension::code`).
        k: u8,
        /// Bytes of its setup message (`Extension::setup_len`).
        setup_len: u32,
    },
}

/// A run of the protocol, as the parties agree on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProtocolRun {
    /// AND gates of one evaluation.
    pub(crate) and_gates: u64,
    /// XOR gates of one evaluation.
    pub(crate) xor_gates: u64,
    /// Bytes of tables of one evaluation.
    pub(crate) table_bytes: u64,
    /// Whether XOR gates have no tables and the garbler's labels need no sending.
    pub(crate) is_free_xor: bool,
    /// Input bits of the garbler, of one evaluation.
    pub(crate) garbler_bits: u64,
    /// Input bits of the evaluator, of one evaluation.
    pub(crate) evaluator_bits: u64,
    /// Output bits of one evaluation.
    pub(crate) output_bits: u64,
    /// Evaluations.
    pub(crate) batch: u64,
    /// Largest chunk of tables, in bytes.
    pub(crate) chunk_len: u64,
    /// Whether the evaluator checks its outputs.
    pub(crate) is_checked: bool,
    /// How oblivious transfer is done.
    pub(crate) transfers: Transfers,
    /// Whether the garbler learns the outputs.
    pub(crate) to_garbler: bool,
}

const FRAME: u64 = 5;
const NUMBER: u64 = 8;
const HELLO: u64 = FRAME + 220;
const FINISH: u64 = FRAME + 64;
const BASE: u64 = 128;
/// Transfers per message of an extension.
const RUN: u64 = 8064;
/// Bytes of a message of outputs.
const PIECE: u64 = 65_536;

impl ProtocolRun {
    /// Describes the run for the model. `garbler` is the end that garbles.
    ///
    /// # Errors
    /// [`SelectError::Number`] for figures that no run has.
    pub(crate) fn workload(
        &self,
        garbler: End,
        garbling: &Machine,
        evaluating: &Machine,
    ) -> Result<Workload, SelectError> {
        let batch = u128::from(self.batch);
        let transfers = batch * u128::from(self.evaluator_bits);
        let runs = transfers.div_ceil(u128::from(RUN));
        let numbered = u128::from(FRAME + NUMBER);
        let tables = batch * u128::from(self.table_bytes);
        let early = u128::from(HELLO)
            + tables
            + tables.div_ceil(u128::from(self.chunk_len.max(1))) * numbered;

        // Messages of oblivious transfer: garbler's first, its answers, the evaluator's.
        let (setup, answers, requests, flights) = match self.transfers {
            Transfers::None => (0, 0, 0, 2),
            Transfers::Direct => (
                u128::from(FRAME) + 32,
                numbered + 32 * transfers,
                u128::from(FRAME) + 64 * transfers,
                2,
            ),
            Transfers::Extension { k, setup_len } => {
                let reply = match self.is_free_xor {
                    true => 16 * answered(transfers, tables),
                    false => 32 * transfers,
                };
                let blocks = transfers.div_ceil(u128::from(BASE));
                let setup = match setup_len {
                    0 => 0,
                    bytes => u128::from(FRAME) + u128::from(bytes),
                };
                (
                    u128::from(FRAME) + 64 * u128::from(BASE),
                    runs * numbered + reply,
                    u128::from(FRAME)
                        + 32
                        + setup
                        // Each message has a check, and one block more, which is sacrificed.
                        + runs * (numbered + u128::from(FRAME) + 16)
                        + (blocks + 2 * runs) * (2048 / u128::from(k.max(1))),
                    3,
                )
            }
        };
        let labels = match self.is_free_xor {
            true => 0,
            false => batch * (numbered + 16 * u128::from(self.garbler_bits)),
        };
        let outputs = u128::from(self.output_bits);
        let pieces = |bytes: u128| match bytes {
            0 => 0,
            bytes => batch * (bytes + bytes.div_ceil(u128::from(PIECE)) * numbered),
        };
        let decode = outputs.div_ceil(8) + if self.is_checked { 16 * outputs } else { 0 };
        let late = answers + labels + pieces(decode) + u128::from(FINISH);
        let masked = match self.to_garbler {
            true => pieces(outputs.div_ceil(8) + 32),
            false => 0,
        };
        let evaluator_bytes = u128::from(HELLO) + requests + masked + u128::from(FINISH);

        let count = self.batch as f64;
        let gates = |and_s: f64, machine: &Machine| {
            count * (self.and_gates as f64 * and_s + self.xor_gates as f64 * machine.xor_s)
        };
        let (base, extended) = match self.transfers {
            Transfers::None => (0.0, 0.0),
            Transfers::Direct => (transfers as f64, 0.0),
            Transfers::Extension { .. } => (BASE as f64, transfers as f64),
        };
        let base_s = garbling.base_transfer_s.max(evaluating.base_transfer_s);
        let bytes = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        let workload = Workload {
            garbler,
            garbler_bytes: bytes(early + setup + late),
            garbler_late_bytes: bytes(late),
            evaluator_bytes: bytes(evaluator_bytes),
            flights,
            serial_s: base * base_s,
            garble_s: gates(garbling.garble_and_s, garbling) + extended * garbling.transfer_s,
            evaluate_s: gates(evaluating.evaluate_and_s, evaluating)
                + extended * evaluating.transfer_s,
        };
        workload.validate()?;
        Ok(workload)
    }
}

/// Bytes of tables that the garbler has made when the first transfers are asked for: what the buffers on its side hold. It was
/// 130 KB over `tcp`, and up to 15 MB over `rudp` on a path that is known to be fast.
const TABLES_AHEAD: u128 = 1 << 20;

/// Returns how many transfers are answered by 16 bytes because their labels are in tables that were made before.
fn answered(transfers: u128, tables: u128) -> u128 {
    match tables <= TABLES_AHEAD {
        true => transfers,
        false => transfers * TABLES_AHEAD / tables,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> ProtocolRun {
        ProtocolRun {
            and_gates: 6400,
            xor_gates: 28_176,
            table_bytes: 204_800,
            is_free_xor: true,
            garbler_bits: 128,
            evaluator_bits: 128,
            output_bits: 128,
            batch: 1,
            chunk_len: 65_536,
            is_checked: true,
            transfers: Transfers::Direct,
            to_garbler: false,
        }
    }

    fn bytes(run: &ProtocolRun) -> (u64, u64) {
        let workload = run
            .workload(End::Listener, &Machine::HALF_GATES, &Machine::HALF_GATES)
            .unwrap();
        (workload.bytes_down(), workload.bytes_up())
    }

    #[test]
    fn bytes_are_those_that_were_measured() {
        // payload_up_bytes and payload_down_bytes of rows in docs/results: AES-128, and MinCut with a million gates.
        assert_eq!(bytes(&run()), (211_369, 8491));
        let mincut = ProtocolRun {
            and_gates: 999_960,
            table_bytes: 31_998_720,
            garbler_bits: 250_000,
            evaluator_bits: 250_000,
            output_bits: 20,
            transfers: Transfers::Extension {
                k: 4,
                setup_len: 5120,
            },
            ..run()
        };
        assert_eq!(bytes(&mincut), (32_145_392, 1_039_760));
        let measured = 32_014_307.0;
        assert!((bytes(&mincut).0 as f64 / measured - 1.0).abs() < 0.005);
    }

    #[test]
    fn flights_follow_the_transfers_and_figures_are_checked() {
        let workload = |run: ProtocolRun| {
            run.workload(End::Connector, &Machine::HALF_GATES, &Machine::HALF_GATES)
        };
        assert_eq!(workload(run()).unwrap().flights, 2);
        let extended = ProtocolRun {
            transfers: Transfers::Extension { k: 1, setup_len: 0 },
            ..run()
        };
        assert_eq!(workload(extended).unwrap().flights, 3);
        for wrong in [
            ProtocolRun {
                batch: u64::MAX,
                ..run()
            },
            ProtocolRun {
                table_bytes: u64::MAX,
                ..run()
            },
        ] {
            assert!(workload(wrong).is_err());
        }
    }
}
