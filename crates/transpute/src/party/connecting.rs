//! A party that connects to a listening peer.

use tokio::time::Instant;
use transpute_circuit::Bits;
use transpute_select::End;
use transpute_session::Inputs;
use transpute_transport::{Link, Security, TransportError, retry_connect};

use super::{Party, Why};
use crate::{Connection, Error, Results, choice::Chosen};

/// Connects to `address`, without retries.
async fn open(
    chosen: &Chosen,
    address: &str,
    security: &Security,
) -> Result<(Link, Why), TransportError> {
    match chosen {
        Chosen::Fixed(transport, reason) => {
            let link = transport.connect(address, security).await?;
            let why = Why {
                reason: reason.clone(),
                selection: None,
            };
            Ok((link, why))
        }
        #[cfg(feature = "auto")]
        Chosen::Automatic(auto) => {
            let (link, selection) = auto.select(address, security).await?;
            let why = Why {
                reason: selection.choice.reason.clone(),
                selection: Some(Box::new(selection)),
            };
            Ok((link, why))
        }
    }
}

/// A party with the address of its peer, made by [`Party::connect`]. Its methods connect.
pub struct Connecting {
    pub(super) party: Party,
    pub(super) address: String,
}

impl Connecting {
    /// Connects and runs the computation once. `input` contains this party's input values,
    /// concatenated.
    ///
    /// # Errors
    /// Returns [`SessionError::Input`](crate::SessionError::Input) if `input` does not have as many
    /// bits as this party's input values. This is checked before any contact with the peer. Any
    /// other [`Error`] is possible, too.
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn run(self, input: Bits) -> Result<Results, Error> {
        self.party.check_input(&input)?;
        self.run_batch(Box::new(vec![input])).await
    }

    /// Connects and runs all evaluations of [`Config::batch`](crate::Config::batch).
    ///
    /// # Errors
    /// Any [`Error`].
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn run_batch(self, inputs: Box<dyn Inputs>) -> Result<Results, Error> {
        let Self { mut party, address } = self;
        party.config.decides_scheme = true;
        let security = party.network.security()?;
        let ready = party.prepare(inputs)?;
        let (party, link, why) = reach(party, &address, &security).await?;
        party.run_over(link, why, ready).await
    }

    /// Connects and opens a connection for any number of runs.
    ///
    /// # Errors
    /// Any [`Error`].
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn open(self) -> Result<Connection, Error> {
        let Self { mut party, address } = self;
        party.config.decides_scheme = true;
        let security = party.network.security()?;
        party.split()?;
        let (party, link, why) = reach(party, &address, &security).await?;
        party.open_over(link, why).await
    }
}

/// Connects to `address`. Retries for [`Party::patience`] while the peer refuses the connection.
async fn reach(
    party: Party,
    address: &str,
    security: &Security,
) -> Result<(Party, Link, Why), Error> {
    let chosen = (party.network).to_connect(|| party.workload(End::Connector))?;
    let deadline = Instant::now() + party.network.patience;
    let attempt = || open(&chosen, address, security);
    let (link, why) = retry_connect(deadline, attempt).await?;
    Ok((party, link, why))
}
