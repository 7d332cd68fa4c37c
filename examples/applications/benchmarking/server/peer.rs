//! The connection to the other server, over which the servers agree on the companies that take
//! part.

use tokio::{
    io::AsyncWriteExt,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use transpute::transport::{Link, LinkWriter};

use crate::{
    failure::Failure,
    packing::{pack_numbers, unpack_numbers},
    wire::{Message, Refusal, RoundParameters, UploadId, receive, send},
};

/// The name of the other server in error messages.
pub(super) const PEER_SERVER: &str = "the other server";

/// Maximum number of messages that are received and not processed yet. Reading pauses at this
/// number.
const MAX_QUEUED: usize = 64;

/// The connection to the other server.
pub(super) struct PeerServer {
    writer: LinkWriter,
    messages: mpsc::Receiver<Result<Message, Failure>>,
    reading: JoinHandle<()>,
}

/// A channel with the company's number and the identifier of each upload that this server accepted.
pub(super) type UploadNotices = mpsc::UnboundedReceiver<(u16, UploadId)>;

impl PeerServer {
    /// Exchanges the parameters of the round and checks that they are equal.
    pub(super) async fn exchange_parameters(
        link: Link,
        own: &RoundParameters,
    ) -> Result<Self, Failure> {
        let wrong = |error| Failure::of_wire(PEER_SERVER, error);
        let (mut reader, mut writer) = link.into_parts();
        send(&mut writer, &Message::Parameters(*own))
            .await
            .map_err(wrong)?;
        match receive(&mut reader, "parameters").await.map_err(wrong)? {
            Message::Parameters(theirs) => own.agree(&theirs)?,
            other => return Err(wrong(other.unexpected("parameters"))),
        }
        let (sender, messages) = mpsc::channel(MAX_QUEUED);
        // A separate task, because reading is not cancel-safe: a cancelled read would lose part of
        // a message.
        let reading = tokio::spawn(async move {
            loop {
                let message = receive(&mut reader, "a message").await.map_err(wrong);
                let is_last = message.is_err();
                if sender.send(message).await.is_err() || is_last {
                    return;
                }
            }
        });
        Ok(Self {
            writer,
            messages,
            reading,
        })
    }

    async fn send(&mut self, message: &Message) -> Result<(), Failure> {
        let said = send(&mut self.writer, message).await;
        said.map_err(|error| Failure::of_wire(PEER_SERVER, error))
    }

    /// Receives the next message. Cancelling this future loses no message.
    async fn receive(&mut self) -> Result<Message, Failure> {
        match self.messages.recv().await {
            Some(Ok(Message::GaveUp(why))) => Err(Failure::Refused {
                peer: PEER_SERVER,
                why,
            }),
            Some(message) => message,
            None => Err(Failure::Broken),
        }
    }

    /// Chooses the companies that take part, and sends the choice to the garbler's server. Called
    /// at the evaluator's server. Waits until the uploads of all companies have reached both
    /// servers, or until the deadline.
    pub(super) async fn announce_companies(
        &mut self,
        parameters: &RoundParameters,
        mut notices: UploadNotices,
        deadline: Instant,
    ) -> Result<Vec<u16>, Failure> {
        let companies = usize::from(parameters.companies);
        let (mut here, mut there) = (vec![None; companies], vec![None; companies]);
        let taken = loop {
            let both = |number: &u16| {
                let place = usize::from(*number);
                here[place].is_some() && here[place] == there[place]
            };
            let taken: Vec<u16> = (0..parameters.companies).filter(both).collect();
            if taken.len() == companies {
                break taken;
            }
            tokio::select! {
                Some((number, id)) = notices.recv() => here[usize::from(number)] = Some(id),
                message = self.receive() => match message? {
                    Message::Have { company, id } if company < parameters.companies => {
                        there[usize::from(company)] = Some(id);
                    }
                    other => {
                        let error = other.unexpected("a notice of an upload");
                        return Err(Failure::of_wire(PEER_SERVER, error));
                    }
                },
                () = sleep_until(deadline) => break taken,
            }
        };
        if taken.len() < usize::from(parameters.min_companies) {
            // If this message is lost, the other server detects the closed connection instead.
            let _ = self.send(&Message::GaveUp(Refusal::TooFew)).await;
            let _ = self.writer.shutdown().await;
            return Err(Failure::TooFew {
                got: taken.len(),
                min_companies: usize::from(parameters.min_companies),
            });
        }
        let bits = pack_numbers(&taken, companies);
        self.send(&Message::Taken(bits)).await?;
        Ok(taken)
    }

    /// Reports each upload to the evaluator's server, and waits for its choice of companies. Called
    /// at the garbler's server. Returns `None` if the choice has not arrived by `until`.
    pub(super) async fn await_companies(
        &mut self,
        parameters: &RoundParameters,
        mut notices: UploadNotices,
        until: Instant,
    ) -> Result<Option<Vec<u16>>, Failure> {
        let bits = loop {
            tokio::select! {
                Some((company, id)) = notices.recv() => {
                    self.send(&Message::Have { company, id }).await?;
                }
                message = self.receive() => match message? {
                    Message::Taken(bits) => break bits,
                    other => {
                        let error = other.unexpected("the companies that take part");
                        return Err(Failure::of_wire(PEER_SERVER, error));
                    }
                },
                () = sleep_until(until) => return Ok(None),
            }
        };
        // Results of too few companies reveal too much about each figure. So this server does not
        // rely on the other server, and checks the minimum number too.
        match unpack_numbers(&bits, usize::from(parameters.companies)) {
            Some(taken) if taken.len() >= usize::from(parameters.min_companies) => Ok(Some(taken)),
            taken => Err(Failure::TooFew {
                got: taken.map_or(0, |taken| taken.len()),
                min_companies: usize::from(parameters.min_companies),
            }),
        }
    }
}

impl Drop for PeerServer {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl RoundParameters {
    /// Checks that both servers have the same parameters.
    fn agree(&self, theirs: &Self) -> Result<(), Failure> {
        let differ =
            |ours: String, theirs: String| Err(Failure::ParameterMismatch { ours, theirs });
        if self.companies != theirs.companies {
            let text = |parameters: &Self| format!("{} companies", parameters.companies);
            return differ(text(self), text(theirs));
        }
        if self.min_companies != theirs.min_companies {
            let text =
                |parameters: &Self| format!("a minimum of {} of them", parameters.min_companies);
            return differ(text(self), text(theirs));
        }
        if self.members != theirs.members {
            return differ(
                "one list of companies".into(),
                "another list of companies".into(),
            );
        }
        if self.round != theirs.round {
            return differ(
                "one name of the round".into(),
                "another name of the round".into(),
            );
        }
        Ok(())
    }
}
