//! What the example programs share: running both parties here, or one of them against a peer on
//! another machine.
#![forbid(unsafe_code)]

mod graph;

pub use graph::{Graph, GraphError};

use std::{error::Error, path::PathBuf};

use transpute::{Bits, Circuit, Fingerprint, Identity, OutputPolicy, Party, Results, Role};

/// Where the parties are. Without `--role` both run in this program, over an encrypted connection
/// of this machine.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Place {
    /// Run only this party: garbler or evaluator
    #[arg(long, requires = "identity", requires = "peer")]
    pub role: Option<Role>,
    /// Wait for the peer at this address
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "connect")]
    pub listen: Option<String>,
    /// Connect to the peer at this address
    #[arg(long, value_name = "HOST:PORT")]
    pub connect: Option<String>,
    /// This party's key (made with `transpute id new FILE`)
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// The peer's fingerprint
    #[arg(long, value_name = "FINGERPRINT")]
    pub peer: Option<Fingerprint>,
}

/// Computes `circuit` with the input of each role that runs here; returns what each of them
/// learned.
///
/// # Errors
/// Any of a bad combination of arguments, a bad key file, the connection or the protocol.
pub async fn compute(
    circuit: &Circuit,
    place: &Place,
    output_to: OutputPolicy,
    input: impl Fn(Role) -> Bits,
) -> Result<Vec<(Role, Results)>, Box<dyn Error>> {
    let Some(role) = place.role else {
        return both(circuit, output_to, input).await;
    };
    let (Some(identity), Some(peer)) = (&place.identity, place.peer) else {
        return Err("--role needs --identity and --peer".into());
    };
    let party = party(circuit, role, output_to)
        .identity(Identity::load(identity)?)
        .peer(peer);
    let results = match (&place.listen, &place.connect) {
        (Some(address), None) => party.listen(address).await?.run(input(role)).await?,
        (None, Some(address)) => party.connect(address).run(input(role)).await?,
        _ => return Err("--role needs either --listen or --connect".into()),
    };
    Ok(vec![(role, results)])
}

async fn both(
    circuit: &Circuit,
    output_to: OutputPolicy,
    input: impl Fn(Role) -> Bits,
) -> Result<Vec<(Role, Results)>, Box<dyn Error>> {
    let (one, other) = (Identity::generate()?, Identity::generate()?);
    let (one_is, other_is) = (one.fingerprint(), other.fingerprint());
    let listening = party(circuit, Role::Garbler, output_to)
        .identity(one)
        .peer(other_is)
        .listen("127.0.0.1:0")
        .await?;
    let connecting = party(circuit, Role::Evaluator, output_to)
        .identity(other)
        .peer(one_is)
        .connect(listening.local_address());
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
