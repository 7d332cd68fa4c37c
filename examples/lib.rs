//! Shared code of the example programs. It runs both parties in this process, or one party whose
//! peer is another process.
#![forbid(unsafe_code)]

mod ends;
mod graph;

pub use ends::{Ends, neighbours};
pub use graph::{Graph, GraphError};

use std::error::Error;

use transpute::{Bits, Circuit, OutputPolicy, Party, Results, Role};

/// The parties of a program. Without `--role` both run in this program, over an encrypted
/// connection.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Place {
    /// Run only this party: garbler or evaluator
    #[arg(long, requires = "identity", requires = "peer")]
    pub role: Option<Role>,
    /// The connection to the peer.
    #[command(flatten)]
    pub ends: Ends,
}

/// Runs `circuit`: both parties in this process, or only the one that `place` names. `input` gives
/// the input bits of a role. Returns the results of each party that ran here.
///
/// # Errors
/// Returns errors for invalid combinations of arguments, an invalid key file, and errors of the
/// connection or the protocol.
pub async fn compute(
    circuit: &Circuit,
    place: &Place,
    output_to: OutputPolicy,
    input: impl Fn(Role) -> Bits,
) -> Result<Vec<(Role, Results)>, Box<dyn Error>> {
    let Some(role) = place.role else {
        return both(circuit, output_to, input).await;
    };
    let party = party(circuit, role, output_to);
    let results = place.ends.run(party, Box::new(vec![input(role)])).await?;
    Ok(vec![(role, results)])
}

async fn both(
    circuit: &Circuit,
    output_to: OutputPolicy,
    input: impl Fn(Role) -> Bits,
) -> Result<Vec<(Role, Results)>, Box<dyn Error>> {
    let (listening, connecting) = neighbours(
        party(circuit, Role::Garbler, output_to),
        party(circuit, Role::Evaluator, output_to),
    )
    .await?;
    let (garbler, evaluator) = tokio::join!(
        listening.run(input(Role::Garbler)),
        connecting.run(input(Role::Evaluator)),
    );
    Ok(vec![
        (Role::Garbler, garbler?),
        (Role::Evaluator, evaluator?),
    ])
}

fn party(circuit: &Circuit, role: Role, output_to: OutputPolicy) -> Party {
    match role {
        Role::Garbler => Party::garbler(circuit),
        Role::Evaluator => Party::evaluator(circuit),
    }
    .output_to(output_to)
}
