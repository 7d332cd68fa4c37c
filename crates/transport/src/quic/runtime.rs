//! The runtime that drives QUIC endpoints, and the closing of connections.

use std::{
    fmt,
    future::Future,
    io,
    net::UdpSocket,
    pin::Pin,
    sync::{Arc, OnceLock, mpsc},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use quinn::{AsyncTimer, AsyncUdpSocket, Connection, Runtime, TokioRuntime, VarInt};
use tokio::runtime::Handle;

use super::options::QuicDriver;

/// Returns the runtime that the QUIC library uses for endpoints with this driver, and a handle on
/// the Tokio runtime that runs the library's tasks.
pub(super) fn find(driver: QuicDriver) -> io::Result<(Arc<dyn Runtime>, Handle)> {
    match driver {
        QuicDriver::Caller => {
            let handle = Handle::try_current().map_err(io::Error::other)?;
            Ok((Arc::new(TokioRuntime), handle))
        }
        QuicDriver::OwnThread => {
            let handle = own_thread()?.runtime;
            Ok((Arc::new(ThreadRuntime(handle.clone())), handle))
        }
    }
}

/// Maximum time for which dropping a link blocks. It normally takes two thread switches. The limit
/// applies if the system does not schedule the driver's thread.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(250);

/// Interval between checks whether the CONNECTION_CLOSE frame was sent, if the driver has not sent
/// it in its next turn.
const CLOSE_POLL: Duration = Duration::from_millis(1);

/// Closes a connection, and waits until its CONNECTION_CLOSE frame was passed to the operating
/// system. The process may exit right after this call, and without the frame, the peer would wait
/// for the idle timeout. With [`QuicDriver::Caller`], this does not wait, because the caller's
/// runtime may need this thread.
pub(super) fn close(connection: &Connection, code: VarInt, driver: QuicDriver) {
    // A connection that the peer has closed, or that timed out, sends no such frame.
    let is_open = connection.close_reason().is_none();
    let sent_before = connection.stats().udp_tx.datagrams;
    connection.close(code, b"");
    let thread = match driver {
        QuicDriver::OwnThread if is_open => own_thread(),
        _ => return,
    };
    let Ok(OwnThread { runtime, id }) = thread else {
        return;
    };
    if id == thread::current().id() {
        return;
    }
    let (tell, sent) = mpsc::channel();
    let connection = connection.clone();
    runtime.spawn(async move {
        // The task that drives the connection was woken before this task, so it runs during this
        // yield and normally sends the frame.
        tokio::task::yield_now().await;
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        // A closed connection sends no other packets. quinn does not count the frame itself.
        let is_sent = || connection.stats().udp_tx.datagrams > sent_before;
        while !is_sent() && Instant::now() < deadline {
            tokio::time::sleep(CLOSE_POLL).await;
        }
        let _ = tell.send(());
    });
    if sent.recv_timeout(CLOSE_TIMEOUT).is_err() {
        tracing::debug!("the end of a QUIC connection was not sent in time");
    }
}

/// The thread that all QUIC links of this process share. It runs until the process ends.
#[derive(Clone)]
struct OwnThread {
    runtime: Handle,
    id: ThreadId,
}

fn own_thread() -> io::Result<OwnThread> {
    static THREAD: OnceLock<Result<OwnThread, io::ErrorKind>> = OnceLock::new();
    let started = THREAD.get_or_init(|| start_thread().map_err(|error| error.kind()));
    started.clone().map_err(io::Error::from)
}

fn start_thread() -> io::Result<OwnThread> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    let thread = thread::Builder::new()
        .name("transpute-quic".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(OwnThread {
        runtime: handle,
        id: thread.thread().id(),
    })
}

/// Drives endpoints on the runtime of another thread.
struct ThreadRuntime(Handle);

impl fmt::Debug for ThreadRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadRuntime")
    }
}

impl Runtime for ThreadRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        let _runtime = self.0.enter();
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let _runtime = self.0.enter();
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}
