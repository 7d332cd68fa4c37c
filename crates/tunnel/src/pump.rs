//! The task of a stream, which copies between the local connection and the link.

use std::sync::Arc;

use tokio::time::timeout;
use tracing::{debug, warn};

use crate::{
    address::TunnelAddress,
    driver::Shared,
    frame::Kind,
    local::Local,
    sender::Sent,
    stream::{Abort, Stream},
};

/// Opens a stream to `target` for a local connection, and copies until both directions have ended.
pub(crate) async fn open(shared: Arc<Shared>, local: Local, target: TunnelAddress) {
    let local = Arc::new(local);
    let opened = shared.open(Arc::clone(&local), target);
    if let Some(stream) = shared.until_closed(opened).await.flatten() {
        copy(&shared, &stream, local).await;
    }
}

/// Connects to the target of a stream that the peer has opened, and copies until both directions
/// have ended.
pub(crate) async fn accept(shared: Arc<Shared>, stream: Arc<Stream>) {
    let connecting = async {
        tokio::select! {
            connected = timeout(shared.config.connect_timeout, Local::connect(&stream.target)) => {
                Some(connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())))
            }
            () = aborted(&stream) => None,
        }
    };
    match shared.until_closed(connecting).await.flatten() {
        Some(Ok(local)) => {
            let local = Arc::new(local);
            stream.connected(Arc::clone(&local));
            shared.answer(Kind::Opened, stream.id, "");
            copy(&shared, &stream, local).await;
        }
        Some(Err(error)) => {
            let reason = format!("cannot connect: {error}");
            warn!("refused a connection to {}: {reason}", stream.target);
            shared.remove(&stream);
            shared.answer(Kind::Refused, stream.id, &reason);
        }
        None => shared.remove(&stream),
    }
}

/// Waits until a stream is aborted.
async fn aborted(stream: &Stream) {
    while !stream.is_aborted() {
        stream.send_wake.notified().await;
    }
}

/// Copies until both directions have ended, one of them has failed, or the link is lost. Unless
/// both directions ended cleanly, dropping `local` resets the local connection.
async fn copy(shared: &Shared, stream: &Stream, local: Arc<Local>) {
    let both = async {
        tokio::join!(
            send(shared, stream, &local),
            receive(shared, stream, &local)
        )
    };
    if shared.until_closed(both).await.is_none() {
        return;
    }
    let aborted = stream.state().aborted;
    match aborted {
        None => local.finish(),
        Some(Abort::ByLocal) => {
            debug!(
                "the local connection of a stream to {} failed",
                stream.target
            );
            shared.answer(Kind::Reset, stream.id, "");
        }
        Some(Abort::ByPeer) => {}
    }
    shared.remove(stream);
}

/// Sends the bytes of the local connection to the peer, until the local program ends its direction
/// or the stream is aborted.
async fn send(shared: &Shared, stream: &Stream, local: &Local) {
    loop {
        let (credit, is_aborted) = {
            let state = stream.state();
            (state.credit, state.aborted.is_some())
        };
        if is_aborted {
            return;
        }
        if credit == 0 {
            tokio::select! {
                () = stream.send_wake.notified() => continue,
                // Without credit nothing is read, so only this notices a broken connection.
                () = local.broken() => return stream.abort(Abort::ByLocal),
            }
        }
        tokio::select! {
            biased;
            readable = local.readable() => if readable.is_err() {
                return stream.abort(Abort::ByLocal);
            },
            () = stream.send_wake.notified() => continue,
        }
        match shared.sender.send_from(local, stream).await {
            Ok(Sent::Data) => shared.note_sent(),
            Ok(Sent::End) => return shared.note_sent(),
            Ok(Sent::Nothing) => {}
            Ok(Sent::LocalFailed) => return stream.abort(Abort::ByLocal),
            Err(error) => return shared.fail(error),
        }
    }
}

/// Writes the queued bytes to the local connection, until the peer ends its direction or the stream
/// is aborted.
async fn receive(shared: &Shared, stream: &Stream, local: &Local) {
    loop {
        let (is_empty, is_ended, is_aborted) = {
            let state = stream.state();
            (
                state.queue.is_empty(),
                state.is_ended,
                state.aborted.is_some(),
            )
        };
        if is_aborted {
            return;
        }
        if is_empty {
            if is_ended {
                if local.shutdown_write().is_err() {
                    stream.abort(Abort::ByLocal);
                }
                return;
            }
            stream.receive_wake.notified().await;
            continue;
        }
        tokio::select! {
            biased;
            writable = local.writable() => if writable.is_err() {
                return stream.abort(Abort::ByLocal);
            },
            () = stream.receive_wake.notified() => continue,
        }
        let mut state = stream.state();
        let written = local.try_write_vectored(&state.queue.slices());
        match written {
            Ok(count) => {
                let grant = state.consume(count);
                drop(state);
                if let Some(bytes) = grant {
                    shared.grant(stream.id, bytes);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => {
                drop(state);
                return stream.abort(Abort::ByLocal);
            }
        }
    }
}
