//! The cells of a matrix between two real hosts.

use std::fmt;

use super::{super::matrix::Matrix, pair::HostPair, record::HostsRecord};

/// One combination of a matrix between two real hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct HostsCell {
    /// The hosts.
    pub hosts: HostPair,
    /// The circuit.
    pub circuit: String,
    /// The garbling scheme.
    pub scheme: String,
    /// The transport.
    pub transport: String,
    /// Number of evaluations.
    pub batch: u64,
    /// True if the parties use encryption and authentication.
    pub encrypted: bool,
}

/// The name of a run in messages about progress.
impl fmt::Display for HostsCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.circuit, self.scheme, self.transport)
    }
}

/// Returns one cell for each combination of the matrix's lists. Its scenarios are ignored.
pub(super) fn cells(matrix: &Matrix, hosts: &HostPair) -> Vec<HostsCell> {
    let mut cells = Vec::new();
    for circuit in &matrix.circuits {
        for scheme in &matrix.schemes {
            for transport in &matrix.transports {
                for &batch in &matrix.batches {
                    cells.push(HostsCell {
                        hosts: hosts.clone(),
                        circuit: circuit.clone(),
                        scheme: scheme.clone(),
                        transport: transport.clone(),
                        batch,
                        encrypted: matrix.encrypted,
                    });
                }
            }
        }
    }
    cells
}

/// Returns the records that belong to a matrix between two hosts.
#[must_use]
pub fn records_of(
    matrix: &Matrix,
    hosts: &HostPair,
    mut records: Vec<HostsRecord>,
) -> Vec<HostsRecord> {
    let cells = cells(matrix, hosts);
    records.retain(|record| cells.iter().any(|cell| record.is_of(cell)));
    records
}
