//! A company: it gives each server a share of its figure, and puts the results together from the parts of both.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    sync::mpsc,
    time::{Instant, sleep, timeout, timeout_at},
};
use transpute::{
    Fingerprint, Identity,
    transport::{LinkReader, LinkWriter, Security, Transport},
};
use zeroize::Zeroizing;

use crate::{
    failure::Failure,
    pieces::{random, unpack},
    round::{FEWEST, MOST, RoundId},
    statistics::{FIGURE_BITS, Layout, Statistics},
    wire::{Message, Upload, UploadId, WireError, receive, send},
};

/// Pause before a server that could not be reached is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Where a server is, and who.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// `host:port`.
    pub(crate) address: String,
    /// Its key.
    pub(crate) fingerprint: Fingerprint,
}

/// The round, as companies know it.
#[derive(Clone)]
pub(crate) struct Venue {
    /// Its name.
    pub(crate) round: String,
    /// The garbler's server.
    pub(crate) garbler: Place,
    /// The evaluator's server.
    pub(crate) evaluator: Place,
    /// The transport of both.
    pub(crate) transport: Arc<dyn Transport>,
    /// How long to wait for results, the time in which servers are not up included.
    pub(crate) patience: Duration,
}

/// A company with its figure.
pub(crate) struct Company {
    identity: Arc<Identity>,
    figure: Zeroizing<u32>,
}

/// A server's part of the results.
struct Piece {
    companies: usize,
    bits: transpute::Bits,
    link: (LinkReader, LinkWriter),
}

/// Links to both servers, which have nothing more to say.
#[must_use = "servers that hear no goodbye wait for it"]
pub(crate) struct Parting([(LinkReader, LinkWriter); 2]);

impl Parting {
    /// Tells the servers that all is well. That may take a round trip, and results are there before it.
    pub(crate) async fn say_goodbye(self) {
        let say = async |(reader, mut writer): (LinkReader, LinkWriter)| {
            // Nothing depends on it here.
            let _ = timeout(GOODBYE, writer.shutdown()).await;
            drop(reader);
        };
        let [first, second] = self.0;
        tokio::join!(say(first), say(second));
    }
}

impl Company {
    /// Makes a company.
    pub(crate) fn new(identity: Identity, figure: u32) -> Self {
        Self {
            identity: Arc::new(identity),
            figure: Zeroizing::new(figure),
        }
    }

    /// Uploads the figure and waits for the results. `accepted` hears of each server that has its share.
    ///
    /// # Errors
    /// [`Failure::TooLate`] after [`Venue::patience`]; [`Failure::Refused`]; [`Failure::Disagreement`]; those of links that do
    /// not pass by being tried again.
    pub(crate) async fn take_part(
        &self,
        venue: &Venue,
        accepted: mpsc::UnboundedSender<()>,
    ) -> Result<(Statistics, Parting), Failure> {
        let (garbler, evaluator) = (&venue.garbler, &venue.evaluator);
        let round = RoundId::new(&venue.round, &garbler.fingerprint, &evaluator.fingerprint)?;
        let id = *random()?;
        let mask = Zeroizing::new(u32::from_be_bytes(*random()?));
        // Either share alone is random; together they are the figure, whatever a company makes of them: no two shares
        // stand for what is no figure.
        let rest = Zeroizing::new(*self.figure ^ *mask);
        let visit = |whom, place, share| {
            self.visit(venue, whom, place, upload(round, id, share), &accepted)
        };
        let (first, second) = tokio::try_join!(
            visit("the garbler's server", garbler, mask),
            visit("the evaluator's server", evaluator, rest),
        )?;
        let disagreement = Failure::Disagreement {
            garbler: first.companies,
            evaluator: second.companies,
        };
        if first.companies != second.companies {
            return Err(disagreement);
        }
        let bits = first.bits.iter().zip(second.bits.iter());
        let bits = bits.map(|(a, b)| a ^ b).collect();
        let statistics = Statistics::from_bits(first.companies, &bits).ok_or(disagreement)?;
        Ok((statistics, Parting([first.link, second.link])))
    }

    /// Visits a server until it has given its part. A link that is lost is made anew, with the same upload.
    async fn visit(
        &self,
        venue: &Venue,
        whom: &'static str,
        place: &Place,
        upload: Message,
        accepted: &mpsc::UnboundedSender<()>,
    ) -> Result<Piece, Failure> {
        let until = Instant::now() + venue.patience;
        let mut is_accepted = false;
        let mut told = || {
            if !std::mem::replace(&mut is_accepted, true) {
                // Who does not care does not hear it.
                let _ = accepted.send(());
            }
        };
        loop {
            let visit = self.visit_once(venue, whom, place, &upload, &mut told);
            let failure = match before(until, visit).await {
                Some(Ok(piece)) => return Ok(piece),
                Some(Err(failure)) if !failure.may_pass() => return Err(failure),
                Some(Err(failure)) => failure,
                None => {
                    return Err(Failure::TooLate {
                        what: "waiting for results",
                        limit: venue.patience,
                    });
                }
            };
            if Instant::now() + RETRY_PAUSE >= until {
                return Err(failure);
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn visit_once(
        &self,
        venue: &Venue,
        whom: &'static str,
        place: &Place,
        upload: &Message,
        told: &mut impl FnMut(),
    ) -> Result<Piece, Failure> {
        let security = Security::tls(self.identity.clone(), [place.fingerprint]);
        let link = (venue.transport.connect(&place.address, &security).await)
            .map_err(|source| Failure::Link { whom, source })?;
        let wrong = |error| Failure::of_wire(whom, error);
        let (mut reader, mut writer) = link.into_parts();
        send(&mut writer, upload).await.map_err(wrong)?;
        match receive(&mut reader, "an acknowledgement")
            .await
            .map_err(wrong)?
        {
            Message::Accepted => told(),
            Message::Refused(why) => return Err(Failure::Refused { whom, why }),
            other => return Err(wrong(other.instead_of("an acknowledgement"))),
        }
        let (companies, piece) = match receive(&mut reader, "results").await.map_err(wrong)? {
            Message::Results { companies, piece } => (usize::from(companies), piece),
            Message::Refused(why) => return Err(Failure::Refused { whom, why }),
            other => return Err(wrong(other.instead_of("results"))),
        };
        let bits = unpack(&piece, Layout::new(companies).width());
        match bits {
            Some(bits) if (FEWEST..=MOST).contains(&companies) => Ok(Piece {
                companies,
                bits,
                link: (reader, writer),
            }),
            _ => Err(wrong(WireError::Length {
                companies,
                got: piece.len(),
            })),
        }
    }
}

async fn before<T>(until: Instant, future: impl Future<Output = T>) -> Option<T> {
    timeout_at(until, future).await.ok()
}

fn upload(round: RoundId, id: UploadId, share: Zeroizing<u32>) -> Message {
    Message::Upload(Upload {
        round,
        id,
        bits: FIGURE_BITS as u8,
        share,
    })
}
