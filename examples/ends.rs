//! The addresses and keys of a party and its peer.

use std::{error::Error, path::PathBuf, time::Duration};

use transpute::{
    Connecting, Connection, Fingerprint, Identity, Inputs, Listening, Party, Results,
    TransportChoice,
};

/// The connection of one party to its peer.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Ends {
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
    /// The transport, the same on both sides: auto, tcp, tcp-striped, quic or rudp
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub transport: TransportChoice,
    /// Time for which a refused connection is tried again, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub wait: u64,
}

/// A party that listens for its peer, or that connects to it.
enum Met {
    Listening(Listening),
    Connecting(Connecting),
}

impl Ends {
    /// Connects to the peer and runs a batch.
    ///
    /// # Errors
    /// Returns errors for invalid combinations of arguments, an invalid key file, and errors of the
    /// connection or the protocol.
    pub async fn run(
        &self,
        party: Party,
        inputs: Box<dyn Inputs>,
    ) -> Result<Results, Box<dyn Error>> {
        Ok(match self.meet(party).await? {
            Met::Listening(listening) => listening.run_batch(inputs).await?,
            Met::Connecting(connecting) => connecting.run_batch(inputs).await?,
        })
    }

    /// Connects to the peer for many runs.
    ///
    /// # Errors
    /// Returns errors for invalid combinations of arguments, an invalid key file, and errors of the
    /// connection.
    pub async fn open(&self, party: Party) -> Result<Connection, Box<dyn Error>> {
        Ok(match self.meet(party).await? {
            Met::Listening(listening) => listening.open().await?,
            Met::Connecting(connecting) => connecting.open().await?,
        })
    }

    async fn meet(&self, party: Party) -> Result<Met, Box<dyn Error>> {
        let (Some(identity), Some(peer)) = (&self.identity, self.peer) else {
            return Err("a party alone needs --identity and --peer".into());
        };
        let party = (party.identity(Identity::load(identity)?).peer(peer))
            .transport(self.transport.clone())
            .patience(Duration::from_secs(self.wait));
        Ok(match (&self.listen, &self.connect) {
            (Some(address), None) => {
                let listening = party.listen(address).await?;
                eprintln!("listening on {}", listening.local_address());
                Met::Listening(listening)
            }
            (None, Some(address)) => Met::Connecting(party.connect(address)),
            _ => return Err("a party alone needs either --listen or --connect".into()),
        })
    }
}

/// Prepares two parties in this process for an encrypted connection to each other: the first
/// listens on a free port, the second connects to that port.
///
/// # Errors
/// Returns errors of the operating system about randomness or sockets.
pub async fn neighbours(
    listening: Party,
    connecting: Party,
) -> Result<(Listening, Connecting), Box<dyn Error>> {
    let (one, other) = (Identity::generate()?, Identity::generate()?);
    let (one_is, other_is) = (one.fingerprint(), other.fingerprint());
    let listening = (listening.identity(one).peer(other_is))
        .listen("127.0.0.1:0")
        .await?;
    let connecting = (connecting.identity(other).peer(one_is)).connect(listening.local_address());
    Ok((listening, connecting))
}
