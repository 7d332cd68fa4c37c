//! Sends and receives the measured bytes.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, timeout},
};
use transpute::{
    TransportError,
    transport::{
        LinkReader, LinkWriter, StreamError,
        conformance::{Pattern, TransferError, receive_pattern, send_pattern},
    },
};

use super::{IDLE, measure::now, on_link};
use crate::failure::{Failure, FailureKind};

/// Maximum number of bytes of one read or write.
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
    TransferError::Stalled { limit: IDLE }.into()
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Write { source, .. } | TransferError::Read { source, .. } => {
                on_link(TransportError::from_io(source))
            }
            TransferError::Closed { .. } => on_link(StreamError::Closed.into()),
            TransferError::Truncated { .. } => on_link(StreamError::Truncated.into()),
            error => Self::new(FailureKind::Protocol, error.to_string()),
        }
    }
}

/// Sends bytes of the pattern.
pub(super) async fn send(writer: &mut LinkWriter, bytes: u64, seed: u64) -> Result<(), Failure> {
    let mut pattern = Pattern::new(seed);
    Ok(send_pattern(writer, &mut pattern, bytes, IDLE, || CHUNK).await?)
}

/// Receives bytes of the pattern, and checks every one. A wrong byte does not end the transfer, so
/// that both sides can report it.
pub(super) async fn receive(
    reader: &mut LinkReader,
    bytes: u64,
    seed: u64,
) -> Result<Arrival, Failure> {
    let mut pattern = Pattern::new(seed);
    let (mut first_ns, mut last_ns, mut problem) = (None, 0, None);
    let check = |received: &[u8]| {
        // The time is read before the bytes are checked, because the check takes time.
        last_ns = now();
        first_ns.get_or_insert(last_ns);
        if problem.is_none() {
            problem = pattern.check(received).err();
        }
        Ok(())
    };
    receive_pattern(reader, bytes, IDLE, || CHUNK, check).await?;
    Ok(Arrival {
        first_ns: first_ns.unwrap_or(last_ns),
        last_ns,
        problem: problem.map(|mismatch| mismatch.to_string()),
    })
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
