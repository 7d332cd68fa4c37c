//! In front of a link: the listener's answer to the choice.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

use super::message::Answer;
use crate::TransportError;

/// A reader that checks the answer in front of the first byte it hands out: the connector goes on without waiting for it.
pub(super) struct Answered<R> {
    inner: R,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Waiting,
    Taken,
    Failed,
}

impl<R> Answered<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            state: State::Waiting,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Answered<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match this.state {
            State::Taken => {}
            State::Failed => return Poll::Ready(Err(TransportError::Closed.into_io())),
            State::Waiting => {
                let mut byte = [0];
                let mut answer = ReadBuf::new(&mut byte);
                let read = ready!(Pin::new(&mut this.inner).poll_read(cx, &mut answer));
                let checked = match (read, answer.filled()) {
                    (Err(error), _) => Err(error),
                    (Ok(()), []) => Err(TransportError::ClosedDuringHandshake.into_io()),
                    (Ok(()), [answer, ..]) => {
                        Answer::check(*answer).map_err(TransportError::into_io)
                    }
                };
                if let Err(error) = checked {
                    this.state = State::Failed;
                    return Poll::Ready(Err(error));
                }
                this.state = State::Taken;
            }
        }
        Pin::new(&mut this.inner).poll_read(cx, buf)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn the_answer_is_checked_and_not_handed_out() {
        let mut got = String::new();
        let mut reader = Answered::new(&b"\0payload"[..]);
        reader.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "payload");
        for (stream, refused) in [
            (&b"\x01payload"[..], true),
            (b"\x02", true),
            (b"?", false),
            (b"", false),
        ] {
            let mut reader = Answered::new(stream);
            let error = TransportError::from_io(reader.read(&mut [0; 8]).await.unwrap_err());
            assert_eq!(
                matches!(error, TransportError::ChoiceRefused { .. }),
                refused,
                "{error}"
            );
            let again = reader.read(&mut [0; 8]).await.unwrap_err();
            assert!(matches!(
                TransportError::from_io(again),
                TransportError::Closed
            ));
        }
    }
}
