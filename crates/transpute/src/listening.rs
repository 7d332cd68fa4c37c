//! A party that listens, and whom it listens to.

use std::time::Duration;

use tokio::{io::AsyncReadExt, task::JoinSet, time::timeout};
use transpute_circuit::Bits;
use transpute_session::{Inputs, OPEN_START, is_open_start};
use transpute_transport::{Link, Listener};

use crate::{Connection, Error, Party, Results, party::Why};

/// How long a peer without a key may take to say its first words.
const FIRST_WORDS: Duration = Duration::from_secs(5);

/// How many peers without a key may be waited for at a time.
const CANDIDATES: usize = 64;

/// A party that listens.
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

    /// Returns the address listened on.
    #[must_use]
    pub fn local_address(&self) -> String {
        self.listener.local_address()
    }

    /// Waits for the peer and computes with `input`: this party's input values concatenated.
    ///
    /// # Errors
    /// Any [`Error`].
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn run(self, input: Bits) -> Result<Results, Error> {
        self.run_batch(Box::new(vec![input])).await
    }

    /// Waits for the peer and computes the whole batch set in
    /// [`Config::batch`](crate::Config::batch).
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
}

impl Listening {
    /// Waits for the peer, for any number of computations.
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

/// Waits for the first link to a peer that proved its key or, without keys, at least speaks the
/// protocol: strangers must not end the listening.
async fn first_peer(listener: &mut dyn Listener) -> Result<Link, Error> {
    let mut candidates = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if candidates.len() < CANDIDATES => {
                let link = accepted?;
                if link.info().encrypted {
                    return Ok(link);
                }
                candidates.spawn(hear_out(link));
            }
            Some(heard) = candidates.join_next() => {
                if let Ok(Some(link)) = heard {
                    return Ok(link);
                }
            }
        }
    }
}

/// Waits until the peer has said enough to be recognised.
async fn hear_out(mut link: Link) -> Option<Link> {
    let mut first = [0; OPEN_START];
    let heard = timeout(FIRST_WORDS, link.reader_mut().read_exact(&mut first)).await;
    if matches!(heard, Ok(Ok(_))) && is_open_start(&first) {
        return Some(link.unread(first.to_vec()));
    }
    tracing::warn!(
        peer = link.info().peer_address,
        "a stranger did not open a connection"
    );
    None
}
