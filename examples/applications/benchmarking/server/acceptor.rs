//! The connections of companies to a server. Each has its own task, so a slow company delays no
//! other.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::AsyncReadExt,
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use transpute::{
    Fingerprint, TransportError,
    transport::{Link, LinkReader, LinkWriter, Listener},
};

use super::Timeouts;
use crate::{
    round::{Members, RoundId},
    statistics::FIGURE_BITS,
    uploads::{Stored, Uploads},
    wire::{Message, Refusal, Upload, UploadId, WireError, receive, send},
};

/// The outcome of a round for the companies.
#[derive(Debug)]
pub(crate) enum RoundOutcome {
    /// This server's share of the results of these companies.
    Results { taken: Vec<u16>, piece: Vec<u8> },
    /// There are no results.
    Cancelled(Refusal),
}

impl RoundOutcome {
    fn message_for(&self, number: u16) -> Message {
        match self {
            Self::Results { taken, piece } if taken.contains(&number) => Message::Results {
                companies: taken.len() as u16,
                piece: piece.clone(),
            },
            Self::Results { .. } => Message::Refused(Refusal::LeftOut),
            Self::Cancelled(why) => Message::Refused(*why),
        }
    }
}

/// The state of all connections of companies: the number of open ones, the companies that have
/// received results, and the number of refused uploads.
#[derive(Debug, Default)]
struct LinkStatus {
    links: usize,
    served: BTreeSet<u16>,
    refused: u64,
}

/// Accepts uploads and sends results.
pub(super) struct Acceptor {
    round: RoundId,
    members: Members,
    other: Fingerprint,
    limits: Timeouts,
    uploads: Mutex<Uploads>,
    notices: mpsc::UnboundedSender<(u16, UploadId)>,
    verdict: watch::Sender<Option<Arc<RoundOutcome>>>,
    status: watch::Sender<LinkStatus>,
}

impl Acceptor {
    /// Creates the acceptor, and a channel that reports each company's upload once.
    pub(super) fn new(
        round: RoundId,
        members: Members,
        other: Fingerprint,
        limits: Timeouts,
    ) -> (Self, mpsc::UnboundedReceiver<(u16, UploadId)>) {
        let (notices, hearing) = mpsc::unbounded_channel();
        let acceptor = Self {
            uploads: Mutex::new(Uploads::new(members.len())),
            round,
            members,
            other,
            limits,
            notices,
            verdict: watch::Sender::default(),
            status: watch::Sender::default(),
        };
        (acceptor, hearing)
    }

    /// Accepts connections and serves those of companies until the future is dropped. Passes a
    /// connection of the other server to `other`.
    pub(super) async fn serve(
        self: Arc<Self>,
        mut listener: Box<dyn Listener>,
        other: mpsc::Sender<Link>,
    ) -> Result<Infallible, TransportError> {
        let mut tasks = JoinSet::new();
        let mut latest: HashMap<u16, AbortHandle> = HashMap::new();
        loop {
            tokio::select! {
                link = listener.accept() => {
                    let link = link?;
                    let Some(peer) = link.info().peer_fingerprint else {
                        continue;
                    };
                    if peer == self.other {
                        // The round needs only one connection of the other server. Further ones
                        // are dropped.
                        let _ = other.try_send(link);
                    } else if let Some(number) = self.members.number(&peer) {
                        let acceptor = self.clone();
                        let task = tasks.spawn(async move { acceptor.handle(number, link).await });
                        // A company has one connection. If it connects again, the old connection
                        // may be lost without this server noticing, so it is closed.
                        if let Some(before) = latest.insert(number, task) {
                            before.abort();
                        }
                    }
                }
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    /// Publishes the outcome of the round to all companies, including those that connect later.
    pub(super) fn decide(&self, verdict: RoundOutcome) {
        self.uploads().close();
        self.verdict.send_replace(Some(Arc::new(verdict)));
    }

    /// Waits until these companies have received their results and all connections are closed, for
    /// at most [`Timeouts::results`].
    pub(super) async fn wait_for_companies(&self, companies: &[u16]) {
        let mut status = self.status.subscribe();
        let all = status.wait_for(|status| {
            status.links == 0
                && companies
                    .iter()
                    .all(|number| status.served.contains(number))
        });
        let _ = timeout(self.limits.results, all).await;
    }

    /// Returns the number of refused uploads so far.
    pub(super) fn refused(&self) -> u64 {
        self.status.borrow().refused
    }

    pub(super) fn uploads(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle(&self, number: u16, link: Link) {
        let _open = OpenLink::new(&self.status);
        let (mut reader, mut writer) = link.into_parts();
        let upload = receive(&mut reader, "an upload");
        let answer = match timeout(self.limits.upload, upload).await {
            Ok(Ok(Message::Upload(upload))) => self.take(number, upload),
            Ok(Ok(_) | Err(WireError::TooLong { .. } | WireError::Malformed { .. })) => {
                Err(Refusal::Malformed)
            }
            // The company has disconnected or sends nothing.
            Ok(Err(_)) | Err(_) => return,
        };
        if let Err(why) = answer {
            self.status.send_modify(|status| status.refused += 1);
            self.send_last(reader, writer, &Message::Refused(why)).await;
            return;
        }
        let accepted = send(&mut writer, &Message::Accepted);
        if !matches!(timeout(self.limits.upload, accepted).await, Ok(Ok(()))) {
            return;
        }
        let mut verdict = self.verdict.subscribe();
        let mut more = [0];
        let verdict = tokio::select! {
            verdict = verdict.wait_for(Option::is_some) => match verdict {
                Ok(verdict) => verdict.clone(),
                Err(_) => return,
            },
            // The company has disconnected or sends more than expected. Its upload is kept, and it
            // may reconnect for the results.
            _ = reader.read(&mut more) => return,
        };
        let Some(message) = verdict.map(|verdict| verdict.message_for(number)) else {
            return;
        };
        let has_it = self.send_last(reader, writer, &message).await;
        if has_it && matches!(message, Message::Results { .. }) {
            self.status.send_modify(|status| {
                status.served.insert(number);
            });
        }
    }

    /// Checks and stores an upload.
    fn take(&self, number: u16, upload: Upload) -> Result<(), Refusal> {
        if upload.round != self.round {
            return Err(Refusal::OtherRound);
        }
        if usize::from(upload.bits) != FIGURE_BITS {
            return Err(Refusal::Width);
        }
        if self.uploads().store(number, upload.id, upload.share)? == Stored::New {
            // Sending fails only after the round is over. Then nothing needs the notice.
            let _ = self.notices.send((number, upload.id));
        }
        Ok(())
    }

    /// Sends the last message to a company. Returns whether the company then closed the connection,
    /// which shows that it has received the message.
    async fn send_last(
        &self,
        mut reader: LinkReader,
        mut writer: LinkWriter,
        message: &Message,
    ) -> bool {
        let saying = async {
            send(&mut writer, message).await?;
            tokio::io::AsyncWriteExt::shutdown(&mut writer).await?;
            let mut more = [0];
            Ok::<_, WireError>(reader.read(&mut more).await? == 0)
        };
        matches!(timeout(self.limits.results, saying).await, Ok(Ok(true)))
    }
}

/// Counts one connection as open. Dropping this value decrements the count.
struct OpenLink<'a>(&'a watch::Sender<LinkStatus>);

impl<'a> OpenLink<'a> {
    fn new(status: &'a watch::Sender<LinkStatus>) -> Self {
        status.send_modify(|status| status.links += 1);
        Self(status)
    }
}

impl Drop for OpenLink<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|status| status.links -= 1);
    }
}
