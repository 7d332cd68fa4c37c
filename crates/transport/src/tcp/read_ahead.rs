//! A buffered reader, which reduces the number of system calls for TLS.

use std::{
    io,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

/// Size of the buffer and maximum size of one read, in bytes. It holds several TLS records of up to
/// 16 KiB each.
const CAPACITY: usize = 128 << 10;

/// A reader that fills a large buffer with one system call, and serves small reads from it. The TLS
/// library reads only 4 KiB at a time.
pub(crate) struct ReadAhead<S> {
    inner: S,
    /// The read buffer. Empty until [`start`](Self::start) is called.
    buffer: Box<[u8]>,
    /// The range of the buffer with received data that no read has returned yet.
    waiting: Range<usize>,
}

impl<S> ReadAhead<S> {
    /// Wraps a reader. Allocates no buffer, so that an unauthenticated peer uses no memory for it.
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            buffer: Box::default(),
            waiting: 0..0,
        }
    }

    /// Allocates the buffer. Later reads that are smaller than the buffer go through it.
    pub(crate) fn start(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = vec![0; CAPACITY].into();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self {
            inner,
            buffer,
            waiting,
        } = self.get_mut();
        if waiting.start == waiting.end {
            if buf.remaining() >= buffer.len() {
                return Pin::new(inner).poll_read(cx, buf);
            }
            let mut ahead = ReadBuf::new(buffer);
            ready!(Pin::new(inner).poll_read(cx, &mut ahead))?;
            *waiting = 0..ahead.filled().len();
        }
        let taken = buf.remaining().min(waiting.len());
        let end = waiting.start + taken;
        buf.put_slice(&buffer[waiting.start..end]);
        waiting.start = end;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn bytes_come_in_order_however_they_are_asked_for() {
        let sent: Vec<u8> = (0..3 * CAPACITY).map(|i| (i * 7 + i / 251) as u8).collect();
        let (left, mut right) = duplex(1 << 20);
        right.write_all(&sent).await.unwrap();
        drop(right);
        let mut reader = ReadAhead::new(left);
        let mut received = vec![0; 1000];
        reader.read_exact(&mut received).await.unwrap();
        assert_eq!(reader.waiting, 0..0, "it was not asked to read ahead");
        reader.start();
        for len in [1, 4096, 5, CAPACITY, 4096, 17, CAPACITY + 1] {
            let before = received.len();
            received.resize(before + len, 0);
            reader.read_exact(&mut received[before..]).await.unwrap();
        }
        reader.read_to_end(&mut received).await.unwrap();
        assert!(received == sent);
    }
}
