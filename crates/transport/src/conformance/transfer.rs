//! Transfers of a [`Pattern`] over a link, for checks and for measurements of throughput.

use std::{io, time::Duration};

use thiserror::Error;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::pattern::{Mismatch, Pattern};
use crate::{LinkReader, LinkWriter};

/// The reason why a transfer failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The link moved no byte for the whole time limit.
    #[error("nothing has moved on the link for {} s", limit.as_secs())]
    Stalled {
        /// The time limit.
        limit: Duration,
    },
    /// The link reported an error while writing.
    #[error("cannot write at {position}: {source}")]
    Write {
        /// Number of bytes that were written before.
        position: u64,
        /// The error of the link.
        source: io::Error,
    },
    /// The link took 0 bytes of a write.
    #[error("the link is closed after {position} bytes were written")]
    Closed {
        /// Number of bytes that were written before.
        position: u64,
    },
    /// The link reported an error while reading.
    #[error("cannot read at {position}: {source}")]
    Read {
        /// Number of bytes that were read before.
        position: u64,
        /// The error of the link.
        source: io::Error,
    },
    /// The stream ended before all bytes arrived.
    #[error("the stream ends at byte {position} with {missing} bytes missing")]
    Truncated {
        /// Number of bytes that were read before.
        position: u64,
        /// Number of bytes that were expected after `position`.
        missing: u64,
    },
    /// A received byte is wrong.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// Sends the next `total` bytes of a pattern, and flushes. `write_size` returns the size of each
/// write. Each write may take up to `idle_limit`.
///
/// # Errors
/// Returns [`TransferError`] if the link fails or stalls.
///
/// # Cancel safety
/// A cancelled transfer cannot be resumed, because the number of sent bytes is lost.
pub async fn send_pattern(
    writer: &mut LinkWriter,
    pattern: &mut Pattern,
    total: u64,
    idle_limit: Duration,
    mut write_size: impl FnMut() -> usize,
) -> Result<(), TransferError> {
    let mut buffer = Vec::new();
    let (mut left, mut position) = (total, 0);
    while left > 0 {
        buffer.resize(capped(write_size(), left), 0);
        pattern.fill(&mut buffer);
        let mut unwritten = &buffer[..];
        while !unwritten.is_empty() {
            let written = within(idle_limit, writer.write(unwritten))
                .await?
                .map_err(|source| TransferError::Write { position, source })?;
            if written == 0 {
                return Err(TransferError::Closed { position });
            }
            unwritten = &unwritten[written..];
            position += written as u64;
        }
        left -= buffer.len() as u64;
    }
    within(idle_limit, writer.flush())
        .await?
        .map_err(|source| TransferError::Write { position, source })
}

/// Receives exactly `total` bytes, and calls `check` with the bytes of each read. `read_size`
/// returns the maximum size of each read. Each read may take up to `idle_limit`.
///
/// # Errors
/// Returns [`TransferError`] if the link fails, stalls or ends too early, or if `check` returns a
/// mismatch.
///
/// # Cancel safety
/// A cancelled transfer cannot be resumed, because the number of received bytes is lost.
pub async fn receive_pattern(
    reader: &mut LinkReader,
    total: u64,
    idle_limit: Duration,
    mut read_size: impl FnMut() -> usize,
    mut check: impl FnMut(&[u8]) -> Result<(), Mismatch>,
) -> Result<(), TransferError> {
    let mut buffer = Vec::new();
    let mut position = 0;
    while position < total {
        let missing = total - position;
        let size = capped(read_size(), missing);
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        let read = within(idle_limit, reader.read(&mut buffer[..size]))
            .await?
            .map_err(|source| TransferError::Read { position, source })?;
        if read == 0 {
            return Err(TransferError::Truncated { position, missing });
        }
        check(&buffer[..read])?;
        position += read as u64;
    }
    Ok(())
}

/// Limits the size of a read or write to the bytes that are left. The result is at least 1.
fn capped(size: usize, left: u64) -> usize {
    size.clamp(1, usize::try_from(left).unwrap_or(usize::MAX).max(1))
}

async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, TransferError> {
    timeout(limit, future)
        .await
        .map_err(|_| TransferError::Stalled { limit })
}
