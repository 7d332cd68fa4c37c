//! A company. It sends each server a share of its figure, and combines the servers' shares of the
//! results.

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
    packing::{random, unpack},
    round::{MAX_COMPANIES, MIN_COMPANIES, RoundId},
    statistics::{FIGURE_BITS, Layout, Statistics},
    wire::{Message, Upload, UploadId, WireError, receive, send},
};

/// Pause before the next attempt after a connection has failed.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Time limit for closing a connection in an orderly way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The address and the key of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerAddress {
    /// The address of the server, as `host:port`.
    pub(crate) address: String,
    /// The fingerprint of the server's key.
    pub(crate) fingerprint: Fingerprint,
}

/// The parameters of a round for companies.
#[derive(Clone)]
pub(crate) struct RoundConfig {
    /// The name of the round.
    pub(crate) round: String,
    /// The garbler's server.
    pub(crate) garbler: ServerAddress,
    /// The evaluator's server.
    pub(crate) evaluator: ServerAddress,
    /// The transport of both connections.
    pub(crate) transport: Arc<dyn Transport>,
    /// Maximum time until the results have arrived, including the time until the servers start.
    pub(crate) timeout: Duration,
}

/// A company and its figure.
pub(crate) struct Company {
    identity: Arc<Identity>,
    figure: Zeroizing<u32>,
}

/// One server's XOR share of the results.
struct ResultShare {
    companies: usize,
    bits: transpute::Bits,
    link: (LinkReader, LinkWriter),
}

/// The connections to both servers after the results were received.
#[must_use = "servers wait for the connections to be closed"]
pub(crate) struct OpenLinks([(LinkReader, LinkWriter); 2]);

impl OpenLinks {
    /// Closes the connections. This may take a round trip, so [`Company::take_part`] returns the
    /// results before.
    pub(crate) async fn close(self) {
        let say = async |(reader, mut writer): (LinkReader, LinkWriter)| {
            // An error is ignored, because the results were already received.
            let _ = timeout(CLOSE_TIMEOUT, writer.shutdown()).await;
            drop(reader);
        };
        let [first, second] = self.0;
        tokio::join!(say(first), say(second));
    }
}

impl Company {
    /// Creates a company.
    pub(crate) fn new(identity: Identity, figure: u32) -> Self {
        Self {
            identity: Arc::new(identity),
            figure: Zeroizing::new(figure),
        }
    }

    /// Uploads the figure and waits for the results. Sends to `accepted` once for each server that
    /// has accepted its share.
    ///
    /// # Errors
    /// Returns [`Failure::TooLate`] after [`RoundConfig::timeout`], [`Failure::Refused`] if a
    /// server refuses the upload, and [`Failure::Disagreement`] if the servers sent results for
    /// different numbers of companies. Returns errors of connections that a retry cannot solve.
    pub(crate) async fn take_part(
        &self,
        round_config: &RoundConfig,
        accepted: mpsc::UnboundedSender<()>,
    ) -> Result<(Statistics, OpenLinks), Failure> {
        let (garbler, evaluator) = (&round_config.garbler, &round_config.evaluator);
        let round = RoundId::new(
            &round_config.round,
            &garbler.fingerprint,
            &evaluator.fingerprint,
        )?;
        let id = *random()?;
        let mask = Zeroizing::new(u32::from_be_bytes(*random()?));
        // Each share alone is uniformly random. The XOR of any two shares is a valid 32-bit figure,
        // so the servers need no check that a company's figure is valid.
        let rest = Zeroizing::new(*self.figure ^ *mask);
        let obtain = |peer, place, share| {
            self.obtain_results(
                round_config,
                peer,
                place,
                upload(round, id, share),
                &accepted,
            )
        };
        let (first, second) = tokio::try_join!(
            obtain("the garbler's server", garbler, mask),
            obtain("the evaluator's server", evaluator, rest),
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
        Ok((statistics, OpenLinks([first.link, second.link])))
    }

    /// Uploads to a server and waits for its share of the results. Reconnects with the same upload
    /// if the connection is lost.
    async fn obtain_results(
        &self,
        round_config: &RoundConfig,
        peer: &'static str,
        place: &ServerAddress,
        upload: Message,
        accepted: &mpsc::UnboundedSender<()>,
    ) -> Result<ResultShare, Failure> {
        let until = Instant::now() + round_config.timeout;
        let mut is_accepted = false;
        let mut on_accepted = || {
            if !std::mem::replace(&mut is_accepted, true) {
                // An error means that the caller has dropped the receiver.
                let _ = accepted.send(());
            }
        };
        loop {
            let obtain =
                self.try_obtain_results(round_config, peer, place, &upload, &mut on_accepted);
            let failure = match before(until, obtain).await {
                Some(Ok(piece)) => return Ok(piece),
                Some(Err(failure)) if !failure.may_pass() => return Err(failure),
                Some(Err(failure)) => failure,
                None => {
                    return Err(Failure::TooLate {
                        what: "waiting for results",
                        limit: round_config.timeout,
                    });
                }
            };
            if Instant::now() + RETRY_PAUSE >= until {
                return Err(failure);
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn try_obtain_results(
        &self,
        round_config: &RoundConfig,
        peer: &'static str,
        place: &ServerAddress,
        upload: &Message,
        on_accepted: &mut impl FnMut(),
    ) -> Result<ResultShare, Failure> {
        let security = Security::tls(self.identity.clone(), [place.fingerprint]);
        let link = (round_config
            .transport
            .connect(&place.address, &security)
            .await)
            .map_err(|source| Failure::Link { peer, source })?;
        let wrong = |error| Failure::of_wire(peer, error);
        let (mut reader, mut writer) = link.into_parts();
        send(&mut writer, upload).await.map_err(wrong)?;
        match receive(&mut reader, "an acknowledgement")
            .await
            .map_err(wrong)?
        {
            Message::Accepted => on_accepted(),
            Message::Refused(why) => return Err(Failure::Refused { peer, why }),
            other => return Err(wrong(other.unexpected("an acknowledgement"))),
        }
        let (companies, piece) = match receive(&mut reader, "results").await.map_err(wrong)? {
            Message::Results { companies, piece } => (usize::from(companies), piece),
            Message::Refused(why) => return Err(Failure::Refused { peer, why }),
            other => return Err(wrong(other.unexpected("results"))),
        };
        let bits = unpack(&piece, Layout::new(companies).width());
        match bits {
            Some(bits) if (MIN_COMPANIES..=MAX_COMPANIES).contains(&companies) => Ok(ResultShare {
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
