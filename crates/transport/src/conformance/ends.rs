//! Checks of the end of a link, and of peers that stall or die.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::timeout,
    try_join,
};

use super::{
    bench::{Bench, NOTICE, Pair, finish, receive, send, works},
    pattern::{Pattern, Sizes},
};
use crate::{Link, LinkWriter, TransportError};

/// The time at which the receiving party shuts down its own direction.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Finish {
    First,
    Late,
}

/// Data that was written before a shutdown arrives, even if its sender drops the link before the
/// peer reads the data. The sender may drop the link without having read anything. After both
/// parties have shut down, either may drop the link first. A peer that has written nothing may shut
/// down before or after the sender drops the link.
pub(super) async fn graceful_close(bench: &Bench<'_>) -> Result<(), String> {
    /// Time in which a link fills up.
    const SETTLE_TIME: Duration = Duration::from_millis(100);
    let length = bench.options.payload;
    let mut listener = bench.listen().await?;
    let cases = [true, false].map(|accepting_side_sends| {
        [None, Some(Finish::First), Some(Finish::Late)].map(|finish| (accepting_side_sends, finish))
    });
    for (accepting_side_sends, other_finishes) in cases.into_iter().flatten() {
        let (accepted, connected) = bench.link(&mut *listener).await?;
        let (from, to) = if accepting_side_sends {
            (accepted, connected)
        } else {
            (connected, accepted)
        };
        let leave = async {
            let (reader, mut writer) = from.into_parts();
            bench.send_all(&mut writer, 3, length, 65_536).await?;
            drop((reader, writer));
            Ok::<_, String>(())
        };
        let (mut reader, mut writer) = to.into_parts();
        let stay = async {
            if other_finishes == Some(Finish::First) {
                finish(&mut writer).await?;
            }
            tokio::time::sleep(SETTLE_TIME).await;
            if other_finishes == Some(Finish::Late) {
                finish(&mut writer).await?;
            }
            bench.receive_all(&mut reader, 3, length).await
        };
        try_join!(leave, stay).map_err(|error| {
            let sender = if accepting_side_sends {
                "accepting"
            } else {
                "connecting"
            };
            let other = match other_finishes {
                None => "",
                Some(Finish::First) => ", too",
                Some(Finish::Late) => " and left, and the other finishes then",
            };
            format!("when the {sender} side has finished{other}: {error}")
        })?;
    }

    let (accepted, connected) = bench.link(&mut *listener).await?;
    let party = async |link: Link, late: Duration| {
        let (mut reader, mut writer) = link.into_parts();
        let hear = async {
            tokio::time::sleep(late).await;
            bench.receive_all(&mut reader, 5, 10_000).await
        };
        try_join!(bench.send_all(&mut writer, 5, 10_000, 1000), hear).map(drop)
    };
    try_join!(
        party(accepted, Duration::ZERO),
        party(connected, SETTLE_TIME)
    )?;
    Ok(())
}

/// Dropping one half of a link closes nothing: the peer sees no end of the stream, and the other
/// direction continues.
pub(super) async fn dropped_half(bench: &Bench<'_>) -> Result<(), String> {
    const A_WHILE: Duration = Duration::from_millis(100);
    let Pair {
        accepted,
        connected,
        listener: _listener,
    } = bench.pair().await?;
    let (mut a_reader, mut a_writer) = accepted.into_parts();
    let (mut b_reader, mut b_writer) = connected.into_parts();
    let mut sizes = Sizes::new(bench.options.seed);
    let length = 1000;
    let mut pattern = Pattern::new(1);
    let spoken = send(&mut b_writer, &mut pattern, length, 100, &mut sizes);
    let heard = async {
        receive(
            &mut a_reader,
            &mut Pattern::new(1),
            length,
            &mut Sizes::new(1),
        )
        .await
    };
    try_join!(spoken, heard)?;
    drop(b_writer);
    match timeout(A_WHILE, a_reader.read(&mut [0; 1])).await {
        Err(_) => {}
        Ok(Ok(0)) => return Err("dropping the writer ended the stream".into()),
        Ok(Ok(_)) => return Err("bytes arrived that nobody sent".into()),
        Ok(Err(error)) => return Err(format!("dropping the writer broke the link: {error}")),
    }
    drop(a_reader);
    let length = bench.options.payload;
    try_join!(
        bench.send_all(&mut a_writer, 2, length, 65_536),
        bench.receive_all(&mut b_reader, 2, length)
    )?;
    Ok(())
}

/// A peer that does not read for a while can still send, delays no other link, and loses no data.
pub(super) async fn peer_stalled(bench: &Bench<'_>) -> Result<(), String> {
    const FULL: Duration = Duration::from_millis(200);
    let mut listener = bench.listen().await?;
    let (accepted, connected) = bench.link(&mut *listener).await?;
    let (mut a_reader, mut a_writer) = accepted.into_parts();
    let (mut b_reader, mut b_writer) = connected.into_parts();
    let length = bench.options.payload;
    let (taken, woken) = (AtomicU64::new(0), AtomicBool::new(false));
    let press = async {
        let (mut pattern, mut sizes) = (Pattern::new(1), Sizes::new(1));
        while !woken.load(Ordering::Relaxed) {
            send(&mut a_writer, &mut pattern, 65_536, 65_536, &mut sizes).await?;
            taken.store(pattern.position(), Ordering::Relaxed);
        }
        finish(&mut a_writer).await
    };
    let stall = async {
        // Write until the link is full.
        loop {
            let before = taken.load(Ordering::Relaxed);
            tokio::time::sleep(FULL).await;
            if taken.load(Ordering::Relaxed) == before || before > bench.options.max_buffered {
                break;
            }
        }
        // The data that the stalled party sends still arrives.
        let speak = bench.send_all(&mut b_writer, 2, length, 65_536);
        let hear = bench.receive_all(&mut a_reader, 2, length);
        try_join!(speak, hear)
            .map_err(|error| format!("from a peer that reads nothing: {error}"))?;
        // Other peers still get working links.
        let (c, d) = (bench.link(&mut *listener).await)
            .map_err(|error| format!("beside a stalled link: {error}"))?;
        works(c, d)
            .await
            .map_err(|error| format!("beside a stalled link: {error}"))?;
        woken.store(true, Ordering::Relaxed);
        let mut pattern = Pattern::new(1);
        let mut buffer = vec![0; 65_536];
        loop {
            match b_reader.read(&mut buffer).await {
                Ok(0) => break,
                Ok(read) => {
                    (pattern.check(&buffer[..read])).map_err(|mismatch| mismatch.to_string())?
                }
                Err(error) => return Err(format!("cannot read after a stall: {error}")),
            }
        }
        Ok(pattern.position())
    };
    let ((), arrived) = try_join!(press, stall)?;
    if arrived == taken.load(Ordering::Relaxed) {
        Ok(())
    } else {
        Err(format!(
            "{arrived} bytes arrived after a stall, expected {}",
            taken.load(Ordering::Relaxed)
        ))
    }
}

/// The death of a peer during transfers in both directions is reported by reading and by writing.
/// The data received before is correct, and is not reported as a complete stream. The listener
/// serves the next peer.
///
/// The suite has one process, so it kills the task that holds the link.
pub(super) async fn peer_killed(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    let (accepted, connected) = bench.link(&mut *listener).await?;
    let (mut reader, mut writer) = accepted.into_parts();
    // Dropping the set kills the task too.
    let mut victim = JoinSet::new();
    victim.spawn(async move {
        let (mut reader, mut writer) = connected.into_parts();
        let speak = async {
            let (mut pattern, mut sizes) = (Pattern::new(1), Sizes::new(1));
            while (send(&mut writer, &mut pattern, 65_536, 65_536, &mut sizes).await).is_ok() {}
        };
        let listen = async {
            let mut buffer = [0; 4096];
            while matches!(reader.read(&mut buffer).await, Ok(1..)) {}
        };
        tokio::join!(speak, listen);
    });
    let mut pattern = Pattern::new(1);
    let survive = async {
        // The limit exceeds the number of bytes that can be sent before the failure is detected.
        let enough = bench.options.payload.saturating_mul(64);
        let run = async {
            let mut sizes = Sizes::new(2);
            send(
                &mut writer,
                &mut Pattern::new(2),
                enough,
                65_536,
                &mut sizes,
            )
            .await
        };
        let mut sizes = Sizes::new(3);
        let first = receive(
            &mut reader,
            &mut pattern,
            bench.options.payload / 2,
            &mut sizes,
        );
        // The survivor sends until then.
        tokio::select! {
            result = first => result,
            Err(error) = run => Err(error),
        }
    };
    survive.await?;
    victim.shutdown().await;
    let mut buffer = vec![0; 65_536];
    let rest = async {
        loop {
            match reader.read(&mut buffer).await {
                Ok(0) => return Ok(None),
                Ok(read) => {
                    (pattern.check(&buffer[..read])).map_err(|mismatch| mismatch.to_string())?
                }
                Err(error) => return Ok(Some(TransportError::from_io(error))),
            }
        }
    };
    match timeout(NOTICE, rest).await {
        Err(_) => {
            return Err(format!(
                "reading does not notice within {NOTICE:?} that the peer was killed"
            ));
        }
        Ok(Err::<_, String>(altered)) => return Err(altered),
        Ok(Ok(None)) if bench.mode.is_encrypted() => {
            return Err("the words of a killed peer look complete".into());
        }
        Ok(Ok(_)) => {}
    }
    writing_fails(&mut writer).await?;
    let (accepted, connected) = (bench.link(&mut *listener).await)
        .map_err(|error| format!("after a peer was killed: {error}"))?;
    works(accepted, connected)
        .await
        .map_err(|error| format!("after a peer was killed: {error}"))
}

/// A peer that drops its link without a shutdown is reported by reading and by writing, and not as
/// a clean end.
pub(super) async fn peer_drop(bench: &Bench<'_>) -> Result<(), String> {
    let Pair {
        accepted,
        connected,
        listener: _listener,
    } = bench.pair().await?;
    let (mut reader, mut writer) = accepted.into_parts();
    drop(connected);
    match timeout(NOTICE, reader.read(&mut [0; 1])).await {
        Err(_) => {
            return Err(format!(
                "reading does not notice within {NOTICE:?} that the peer is gone"
            ));
        }
        Ok(Ok(0)) if bench.mode.is_encrypted() => {
            return Err("a cut stream looks like one that its sender completed".into());
        }
        Ok(Ok(1..)) => return Err("bytes arrived that nobody sent".into()),
        Ok(_) => {}
    }
    writing_fails(&mut writer).await
}

/// Writes until the writer reports that the peer is gone.
async fn writing_fails(writer: &mut LinkWriter) -> Result<(), String> {
    let press_on = async {
        let bytes = [0; 16 * 1024];
        while writer.write_all(&bytes).await.is_ok() && writer.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(NOTICE, press_on)
        .await
        .map_err(|_| format!("writing does not notice within {NOTICE:?} that the peer is gone"))
}
