//! A listening party.

use std::time::Duration;

use tokio::{io::AsyncReadExt, task::JoinSet, time::timeout};
use transpute_circuit::Bits;
use transpute_session::{Inputs, OPEN_START, is_open_start};
use transpute_transport::{Link, Listener};

use crate::{Connection, Error, Party, Results, party::Why};

/// Time within which an unauthenticated peer must open the protocol.
const OPENING_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of unauthenticated peers whose opening the listener awaits at the same time.
const MAX_UNAUTHENTICATED: usize = 64;

/// A listening party, made by [`Party::listen`].
pub struct Listening {
    party: Party,
    listener: Box<dyn Listener>,
    reason: String,
}

impl Listening {
    pub(crate) fn new(party: Party, listener: Box<dyn Listener>, reason: String) -> Self {
        Self {
            party,
            listener,
            reason,
        }
    }

    pub(crate) fn party(&self) -> &Party {
        &self.party
    }

    pub(crate) fn into_parts(self) -> (Party, Box<dyn Listener>) {
        (self.party, self.listener)
    }

    /// Returns the address at which this party listens.
    #[must_use]
    pub fn local_address(&self) -> String {
        self.listener.local_address()
    }

    /// Waits for the peer and runs the computation once. `input` contains this party's input
    /// values, concatenated.
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

    /// Waits for the peer and runs all evaluations of [`Config::batch`](crate::Config::batch).
    ///
    /// # Errors
    /// Any [`Error`].
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn run_batch(self, inputs: Box<dyn Inputs>) -> Result<Results, Error> {
        let Self {
            party,
            mut listener,
            reason,
        } = self;
        let ready = party.prepare(inputs)?;
        let link = first_peer(&mut *listener).await?;
        drop(listener);
        let why = Why {
            reason,
            selection: None,
        };
        party.run_over(link, why, ready).await
    }

    /// Waits for the peer and opens a connection for any number of runs.
    ///
    /// # Errors
    /// Any [`Error`].
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn open(self) -> Result<Connection, Error> {
        let Self {
            party,
            mut listener,
            reason,
        } = self;
        let link = first_peer(&mut *listener).await?;
        let why = Why {
            reason,
            selection: None,
        };
        party.open_over(link, why).await
    }
}

/// Waits for the first link to an authenticated peer or, in plaintext, to a peer that opens the
/// protocol. Other connections, such as port scans, are dropped, and the party keeps listening.
async fn first_peer(listener: &mut dyn Listener) -> Result<Link, Error> {
    let mut candidates = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if candidates.len() < MAX_UNAUTHENTICATED => {
                let link = accepted?;
                if link.info().encrypted {
                    return Ok(link);
                }
                candidates.spawn(check_opening(link));
            }
            Some(checked) = candidates.join_next() => {
                if let Ok(Some(link)) = checked {
                    return Ok(link);
                }
            }
        }
    }
}

/// Reads the first bytes of a link. Returns the link if they open the protocol.
async fn check_opening(mut link: Link) -> Option<Link> {
    let mut first = [0; OPEN_START];
    let read = timeout(OPENING_TIMEOUT, link.reader_mut().read_exact(&mut first)).await;
    if matches!(read, Ok(Ok(_))) && is_open_start(&first) {
        return Some(link.unread(first.to_vec()));
    }
    tracing::warn!(
        peer = link.info().peer_address,
        "rejected: the peer did not open the protocol"
    );
    None
}
