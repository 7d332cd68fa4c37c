//! The receiving half of a link. It reads the stripes from the peer's streams in their order.
//!
//! The reader has no buffer. Data waits in the streams, whose windows limit its size.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use quinn::{ConnectionError, RecvStream};
use tokio::io::{AsyncRead, ReadBuf};

use super::{
    connection::Shared,
    explain::{self, During},
    layout::{HEADER, Layout},
};
use crate::{StreamError, TransportError};

/// The receiving half of a link.
pub(crate) struct Reader {
    /// The streams that the peer has opened so far, in order.
    streams: Vec<RecvStream>,
    accepting: Option<Accepting>,
    state: State,
    shared: Arc<Shared>,
}

type Accepting = Pin<Box<dyn Future<Output = Result<RecvStream, ConnectionError>> + Send>>;

enum State {
    Header {
        got: [u8; HEADER],
        length: usize,
    },
    Open {
        layout: Layout,
        position: u64,
    },
    /// The stream at index `ended` ended at the position of the next byte. The next `checked`
    /// streams have ended there too.
    Ending {
        layout: Layout,
        ended: usize,
        checked: usize,
    },
    Ended,
    Failed,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            streams: Vec::new(),
            accepting: None,
            state: State::Header {
                got: [0; HEADER],
                length: 0,
            },
            shared,
        }
    }

    /// Waits until the peer has opened the stream of this index.
    fn poll_stream(
        &mut self,
        cx: &mut Context<'_>,
        index: usize,
    ) -> Poll<io::Result<&mut RecvStream>> {
        while self.streams.len() <= index {
            let accepting = self.accepting.get_or_insert_with(|| {
                let connection = self.shared.connection().clone();
                Box::pin(async move { connection.accept_uni().await })
            });
            let accepted = ready!(accepting.as_mut().poll(cx));
            self.accepting = None;
            let stream =
                accepted.map_err(|error| explain::connection(&error, During::Reading).into_io())?;
            self.streams.push(stream);
        }
        Poll::Ready(Ok(&mut self.streams[index]))
    }

    /// Reads from one stream. A result of 0 bytes is the end of the stream.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        index: usize,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let stream = ready!(self.poll_stream(cx, index))?;
        stream.poll_read(cx, buffer).map_err(explain::read)
    }

    fn poll_header(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let State::Header { got, length } = self.state {
            let mut rest = [0; HEADER];
            let missing = HEADER - length;
            let read = ready!(self.poll_piece(cx, 0, &mut rest[..missing]))?;
            if read == 0 {
                return Poll::Ready(Err(TransportError::Stream(StreamError::Truncated).into_io()));
            }
            let mut got = got;
            got[length..length + read].copy_from_slice(&rest[..read]);
            let length = length + read;
            self.state = if length < HEADER {
                State::Header { got, length }
            } else {
                let layout = Layout::parse(got).map_err(TransportError::into_io)?;
                State::Open {
                    layout,
                    position: 0,
                }
            };
        }
        Poll::Ready(Ok(()))
    }

    /// Reads the available bytes of the link. A result of 0 bytes is the end of the link.
    fn poll_bytes(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_header(cx))?;
        let mut total = 0;
        while let State::Open { layout, position } = self.state
            && total < buffer.len()
        {
            let (index, room) = layout.locate(position);
            let end = buffer.len().min(total + room);
            let read = match self.poll_piece(cx, index, &mut buffer[total..end]) {
                Poll::Ready(Ok(read)) => read,
                // Return the bytes that were read. If there was an error, the next call returns it.
                Poll::Ready(Err(_)) | Poll::Pending if total > 0 => break,
                other => return other,
            };
            if read == 0 {
                self.state = State::Ending {
                    layout,
                    ended: index,
                    checked: 1,
                };
            } else {
                total += read;
                self.state = State::Open {
                    layout,
                    position: position + read as u64,
                };
            }
        }
        if total > 0 || buffer.is_empty() {
            return Poll::Ready(Ok(total));
        }
        ready!(self.poll_end(cx))?;
        Poll::Ready(Ok(0))
    }

    /// Checks that all streams end at the same position of the link. Otherwise bytes are missing.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let State::Ending {
            layout,
            ended,
            checked,
        } = self.state
        {
            if checked == layout.streams() {
                self.shared.note_all_read();
                self.state = State::Ended;
                break;
            }
            let index = (ended + checked) % layout.streams();
            if ready!(self.poll_piece(cx, index, &mut [0]))? != 0 {
                return Poll::Ready(Err(TransportError::Stream(StreamError::Truncated).into_io()));
            }
            self.state = State::Ending {
                layout,
                ended,
                checked: checked + 1,
            };
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match this.state {
            State::Ended => return Poll::Ready(Ok(())),
            State::Failed => {
                let error = this
                    .shared
                    .ended(During::Reading)
                    .unwrap_or(TransportError::Stream(StreamError::Closed));
                return Poll::Ready(Err(error.into_io()));
            }
            _ => {}
        }
        let read = ready!(this.poll_bytes(cx, buf.initialize_unfilled()));
        if read.is_err() {
            this.state = State::Failed;
        }
        buf.advance(read?);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !matches!(self.state, State::Ended) {
            self.shared.park(std::mem::take(&mut self.streams));
        }
    }
}
