//! Sends and receives the measured bytes.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, timeout},
};
use transpute::transport::{LinkReader, LinkWriter, conformance::Pattern};
use transpute::{TransportError, transport::StreamError};

use super::{IDLE, measure::now, on_link};
use crate::failure::{Failure, FailureKind};

const CHUNK: usize = 256 << 10;

/// The times at which bytes arrived, and the result of their check.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) problem: Option<String>,
}

/// Waits for one read or write, at most for [`super::IDLE`].
pub(super) async fn step<T>(future: impl Future<Output = io::Result<T>>) -> Result<T, Failure> {
    match timeout(IDLE, future).await {
        Ok(result) => result.map_err(|error| on_link(TransportError::from_io(error))),
        Err(_) => Err(stalled()),
    }
}

/// Waits for a future that returns a [`Failure`], at most for [`super::IDLE`].
pub(super) async fn patiently<T>(
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(IDLE, future)
        .await
        .unwrap_or_else(|_| Err(stalled()))
}

fn stalled() -> Failure {
    let message = format!("nothing has moved on the link for {} s", IDLE.as_secs());
    Failure::new(FailureKind::Protocol, message)
}

/// Sends bytes of the pattern.
pub(super) async fn send(writer: &mut LinkWriter, bytes: u64, seed: u64) -> Result<(), Failure> {
    let mut pattern = Pattern::new(seed);
    let mut left = bytes;
    let mut buffer = vec![0; CHUNK.min(usize::try_from(bytes).unwrap_or(CHUNK))];
    while left > 0 {
        let length = buffer.len().min(usize::try_from(left).unwrap_or(CHUNK));
        pattern.fill(&mut buffer[..length]);
        let mut sent = 0;
        while sent < length {
            let written = step(writer.write(&buffer[sent..length])).await?;
            if written == 0 {
                return Err(on_link(TransportError::Stream(StreamError::Closed)));
            }
            sent += written;
        }
        left -= length as u64;
    }
    step(writer.flush()).await
}

/// Receives bytes of the pattern, and checks every one.
pub(super) async fn receive(
    reader: &mut LinkReader,
    bytes: u64,
    seed: u64,
) -> Result<Arrival, Failure> {
    let mut pattern = Pattern::new(seed);
    let mut buffer = vec![0; CHUNK];
    let mut left = bytes;
    let mut first_ns = None;
    let mut problem = None;
    while left > 0 {
        let room = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
        let read = step(reader.read(&mut buffer[..room])).await?;
        if read == 0 {
            return Err(on_link(TransportError::Stream(StreamError::Truncated)));
        }
        first_ns.get_or_insert_with(now);
        left -= read as u64;
        // The time is taken before the bytes are checked, so it is the arrival of the last byte.
        let last_ns = (left == 0).then(now);
        if problem.is_none()
            && let Err(mismatch) = pattern.check(&buffer[..read])
        {
            problem = Some(format!(
                "byte {} is not the one that was sent",
                mismatch.position
            ));
        }
        if let Some(last_ns) = last_ns {
            return Ok(Arrival {
                first_ns: first_ns.unwrap_or(last_ns),
                last_ns,
                problem,
            });
        }
    }
    Err(Failure::other("there is nothing to receive"))
}

/// Sends a byte and waits until it comes back, many times.
pub(super) async fn ping(
    reader: &mut LinkReader,
    writer: &mut LinkWriter,
    rounds: u64,
) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    let mut byte = [0];
    for round in 0..rounds {
        let sent = [round as u8];
        let started = Instant::now();
        let there_and_back = async {
            writer.write_all(&sent).await?;
            writer.flush().await?;
            reader.read_exact(&mut byte).await
        };
        step(there_and_back).await?;
        times.push(started.elapsed());
        if byte != sent {
            let message = format!("round trip {round} brought back another byte");
            return Err(Failure::new(FailureKind::Protocol, message));
        }
    }
    Ok(times)
}

/// Sends every byte back.
pub(super) async fn pong(
    reader: &mut LinkReader,
    writer: &mut LinkWriter,
    rounds: u64,
) -> Result<(), Failure> {
    let mut byte = [0];
    for _ in 0..rounds {
        let back = async {
            reader.read_exact(&mut byte).await?;
            writer.write_all(&byte).await?;
            writer.flush().await
        };
        step(back).await?;
    }
    Ok(())
}
