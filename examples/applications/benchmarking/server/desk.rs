//! What companies see of a server: one task for each link, none of which can hold up another.

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

use super::Limits;
use crate::{
    ledger::{Entered, Ledger},
    round::{Members, RoundId},
    statistics::FIGURE_BITS,
    wire::{Message, Refusal, Upload, UploadId, WireError, receive, send},
};

/// What comes of a round, for the companies.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// This server's part of the results of these companies.
    Results { taken: Vec<u16>, piece: Vec<u8> },
    /// There are none.
    Cancelled(Refusal),
}

impl Verdict {
    fn told_to(&self, number: u16) -> Message {
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

/// Who is here, who has taken results, and how many uploads were refused.
#[derive(Debug, Default)]
struct Presence {
    links: usize,
    served: BTreeSet<u16>,
    refused: u64,
}

/// Takes uploads and hands out results.
pub(super) struct Desk {
    round: RoundId,
    members: Members,
    other: Fingerprint,
    limits: Limits,
    ledger: Mutex<Ledger>,
    news: mpsc::UnboundedSender<(u16, UploadId)>,
    verdict: watch::Sender<Option<Arc<Verdict>>>,
    presence: watch::Sender<Presence>,
}

impl Desk {
    /// Makes the desk, and what hears of each upload: at most one for each company.
    pub(super) fn new(
        round: RoundId,
        members: Members,
        other: Fingerprint,
        limits: Limits,
    ) -> (Self, mpsc::UnboundedReceiver<(u16, UploadId)>) {
        let (news, hearing) = mpsc::unbounded_channel();
        let desk = Self {
            ledger: Mutex::new(Ledger::new(members.len())),
            round,
            members,
            other,
            limits,
            news,
            verdict: watch::Sender::default(),
            presence: watch::Sender::default(),
        };
        (desk, hearing)
    }

    /// Serves whoever comes, until it is dropped. Links of the other server go to `other`.
    pub(super) async fn serve(
        self: Arc<Self>,
        mut listener: Box<dyn Listener>,
        other: mpsc::Sender<Link>,
    ) -> Result<Infallible, TransportError> {
        let mut guests = JoinSet::new();
        let mut latest: HashMap<u16, AbortHandle> = HashMap::new();
        loop {
            tokio::select! {
                link = listener.accept() => {
                    let link = link?;
                    let Some(peer) = link.info().peer_fingerprint else {
                        continue;
                    };
                    if peer == self.other {
                        // There is one such link; what comes when nobody waits for one is dropped.
                        let _ = other.try_send(link);
                    } else if let Some(number) = self.members.number(&peer) {
                        let desk = self.clone();
                        let guest = guests.spawn(async move { desk.attend(number, link).await });
                        // A company has one link: it comes again when it has lost one, which may not be known here yet.
                        if let Some(before) = latest.insert(number, guest) {
                            before.abort();
                        }
                    }
                }
                Some(_) = guests.join_next() => {}
            }
        }
    }

    /// Tells all companies, those that come later too, what came of the round.
    pub(super) fn decide(&self, verdict: Verdict) {
        self.ledger().close();
        self.verdict.send_replace(Some(Arc::new(verdict)));
    }

    /// Waits until these companies have their results and nobody is left, but no longer than
    /// [`Limits::linger`].
    pub(super) async fn see_off(&self, companies: &[u16]) {
        let mut presence = self.presence.subscribe();
        let all = presence.wait_for(|presence| {
            presence.links == 0
                && companies
                    .iter()
                    .all(|number| presence.served.contains(number))
        });
        let _ = timeout(self.limits.linger, all).await;
    }

    /// Returns how many uploads were refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.presence.borrow().refused
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn attend(&self, number: u16, link: Link) {
        let _here = Here::new(&self.presence);
        let (mut reader, mut writer) = link.into_parts();
        let upload = receive(&mut reader, "an upload");
        let answer = match timeout(self.limits.first_words, upload).await {
            Ok(Ok(Message::Upload(upload))) => self.take(number, upload),
            Ok(Ok(_) | Err(WireError::TooLong { .. } | WireError::Malformed { .. })) => {
                Err(Refusal::Malformed)
            }
            // It is gone, or says nothing.
            Ok(Err(_)) | Err(_) => return,
        };
        if let Err(why) = answer {
            self.presence.send_modify(|presence| presence.refused += 1);
            self.say_last(reader, writer, &Message::Refused(why)).await;
            return;
        }
        let accepted = send(&mut writer, &Message::Accepted);
        if !matches!(timeout(self.limits.first_words, accepted).await, Ok(Ok(()))) {
            return;
        }
        let mut verdict = self.verdict.subscribe();
        let mut more = [0];
        let verdict = tokio::select! {
            verdict = verdict.wait_for(Option::is_some) => match verdict {
                Ok(verdict) => verdict.clone(),
                Err(_) => return,
            },
            // It is gone, or says more than there is to say. Its upload stays, and it may come again for the results.
            _ = reader.read(&mut more) => return,
        };
        let Some(message) = verdict.map(|verdict| verdict.told_to(number)) else {
            return;
        };
        let has_it = self.say_last(reader, writer, &message).await;
        if has_it && matches!(message, Message::Results { .. }) {
            self.presence.send_modify(|presence| {
                presence.served.insert(number);
            });
        }
    }

    /// Takes an upload.
    fn take(&self, number: u16, upload: Upload) -> Result<(), Refusal> {
        if upload.round != self.round {
            return Err(Refusal::OtherRound);
        }
        if usize::from(upload.bits) != FIGURE_BITS {
            return Err(Refusal::Width);
        }
        if self.ledger().enter(number, upload.id, upload.share)? == Entered::New {
            // Whoever heard is gone when the round is over.
            let _ = self.news.send((number, upload.id));
        }
        Ok(())
    }

    /// Says the last thing, and returns whether the company has closed the link in good order afterwards.
    async fn say_last(
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
        matches!(timeout(self.limits.linger, saying).await, Ok(Ok(true)))
    }
}

/// Somebody is here.
struct Here<'a>(&'a watch::Sender<Presence>);

impl<'a> Here<'a> {
    fn new(presence: &'a watch::Sender<Presence>) -> Self {
        presence.send_modify(|presence| presence.links += 1);
        Self(presence)
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|presence| presence.links -= 1);
    }
}
