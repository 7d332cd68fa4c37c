//! The link to the other server on which the two agree who takes part.

use tokio::{
    io::AsyncWriteExt,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use transpute::transport::{Link, LinkWriter};

use crate::{
    failure::Failure,
    pieces::{pack_numbers, unpack_numbers},
    wire::{Message, Refusal, Terms, UploadId, receive, send},
};

/// How errors call it.
pub(super) const OTHER: &str = "the other server";

/// Messages that may wait to be looked at.
const WAITING: usize = 64;

/// The other server.
pub(super) struct Other {
    writer: LinkWriter,
    messages: mpsc::Receiver<Result<Message, Failure>>,
    reading: JoinHandle<()>,
}

/// News of this server's own uploads.
pub(super) type News = mpsc::UnboundedReceiver<(u16, UploadId)>;

impl Other {
    /// Makes sure that both servers were told the same.
    pub(super) async fn greet(link: Link, own: &Terms) -> Result<Self, Failure> {
        let wrong = |error| Failure::of_wire(OTHER, error);
        let (mut reader, mut writer) = link.into_parts();
        send(&mut writer, &Message::Terms(*own))
            .await
            .map_err(wrong)?;
        match receive(&mut reader, "terms").await.map_err(wrong)? {
            Message::Terms(theirs) => own.agree(&theirs)?,
            other => return Err(wrong(other.instead_of("terms"))),
        }
        let (sender, messages) = mpsc::channel(WAITING);
        // A task of its own, as what is read half is lost when something else comes first.
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

    async fn say(&mut self, message: &Message) -> Result<(), Failure> {
        let said = send(&mut self.writer, message).await;
        said.map_err(|error| Failure::of_wire(OTHER, error))
    }

    /// Cancel-safe.
    async fn hear(&mut self) -> Result<Message, Failure> {
        match self.messages.recv().await {
            Some(Ok(Message::GaveUp(why))) => Err(Failure::Refused { whom: OTHER, why }),
            Some(message) => message,
            None => Err(Failure::Broken),
        }
    }

    /// As the evaluator's server: waits until all companies have reached both servers, or for the deadline, and says
    /// who takes part.
    pub(super) async fn choose(
        &mut self,
        terms: &Terms,
        mut news: News,
        deadline: Instant,
    ) -> Result<Vec<u16>, Failure> {
        let companies = usize::from(terms.companies);
        let (mut here, mut there) = (vec![None; companies], vec![None; companies]);
        let taken = loop {
            let both = |number: &u16| {
                let place = usize::from(*number);
                here[place].is_some() && here[place] == there[place]
            };
            let taken: Vec<u16> = (0..terms.companies).filter(both).collect();
            if taken.len() == companies {
                break taken;
            }
            tokio::select! {
                Some((number, id)) = news.recv() => here[usize::from(number)] = Some(id),
                message = self.hear() => match message? {
                    Message::Have { company, id } if company < terms.companies => {
                        there[usize::from(company)] = Some(id);
                    }
                    other => {
                        let error = other.instead_of("news of an upload");
                        return Err(Failure::of_wire(OTHER, error));
                    }
                },
                () = sleep_until(deadline) => break taken,
            }
        };
        if taken.len() < usize::from(terms.least) {
            // It will learn so when the link ends, if not by this.
            let _ = self.say(&Message::GaveUp(Refusal::TooFew)).await;
            let _ = self.writer.shutdown().await;
            return Err(Failure::TooFew {
                got: taken.len(),
                least: usize::from(terms.least),
            });
        }
        let bits = pack_numbers(&taken, companies);
        self.say(&Message::Taken(bits)).await?;
        Ok(taken)
    }

    /// As the garbler's server: tells of each upload, and waits to be told who takes part.
    pub(super) async fn be_told(
        &mut self,
        terms: &Terms,
        mut news: News,
        until: Instant,
    ) -> Result<Option<Vec<u16>>, Failure> {
        let bits = loop {
            tokio::select! {
                Some((company, id)) = news.recv() => {
                    self.say(&Message::Have { company, id }).await?;
                }
                message = self.hear() => match message? {
                    Message::Taken(bits) => break bits,
                    other => {
                        let error = other.instead_of("the companies that take part");
                        return Err(Failure::of_wire(OTHER, error));
                    }
                },
                () = sleep_until(until) => return Ok(None),
            }
        };
        // Fewer than agreed would tell too much of each: the other server does not decide that alone.
        match unpack_numbers(&bits, usize::from(terms.companies)) {
            Some(taken) if taken.len() >= usize::from(terms.least) => Ok(Some(taken)),
            taken => Err(Failure::TooFew {
                got: taken.map_or(0, |taken| taken.len()),
                least: usize::from(terms.least),
            }),
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Terms {
    /// Checks that both servers were told the same.
    fn agree(&self, theirs: &Self) -> Result<(), Failure> {
        let differ = |ours: String, theirs: String| Err(Failure::Terms { ours, theirs });
        if self.companies != theirs.companies {
            let text = |terms: &Self| format!("{} companies", terms.companies);
            return differ(text(self), text(theirs));
        }
        if self.least != theirs.least {
            let text = |terms: &Self| format!("at least {} of them", terms.least);
            return differ(text(self), text(theirs));
        }
        if self.members != theirs.members {
            return differ("its own".into(), "another list of companies".into());
        }
        if self.round != theirs.round {
            return differ("its own".into(), "another name of the round".into());
        }
        Ok(())
    }
}
