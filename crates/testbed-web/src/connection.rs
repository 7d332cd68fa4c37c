//! Serves HTTP connections, with limits on their number, request sizes and times.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::watch,
    time::{Instant, Sleep, sleep, timeout},
};

/// Maximum number of concurrent connections. Further connections wait in the kernel's backlog.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// Time limit for the head of a request, which is also the idle timeout of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a write. It ends connections whose clients do not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that a connection has to finish its request when the server shuts down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum size of the head of a request (request line and headers), in bytes.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// Serves one connection until it ends or `stopping` becomes true.
pub(super) async fn serve(stream: TcpStream, router: Router, mut stopping: watch::Receiver<bool>) {
    // Nagle's algorithm would only delay answers. It is not needed, because each answer is written
    // in one piece.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(
            TokioIo::new(TimedWrites::new(stream)),
            TowerToHyperService::new(router),
        );
    let mut connection = pin!(connection);
    tokio::select! {
        // A malformed request or a disconnected client is not the server's error.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(SHUTDOWN_TIMEOUT, connection).await;
}

/// A stream whose writes fail with a timeout if the client does not read.
struct TimedWrites {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl TimedWrites {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            stalled: None,
        }
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = (self.stalled).get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        if stalled.deadline() <= Instant::now() || stalled.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl AsyncRead for TimedWrites {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedWrites {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.watch(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.watch(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
