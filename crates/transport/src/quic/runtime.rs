//! Who runs the protocol.

use std::{
    fmt,
    future::Future,
    io,
    net::UdpSocket,
    pin::Pin,
    sync::{Arc, OnceLock},
    thread,
    time::Instant,
};

use noq::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tokio::runtime::Handle;

use super::options::QuicDriver;

/// Finds the runtime that endpoints are driven by.
pub(super) fn find(driver: QuicDriver) -> io::Result<Arc<dyn Runtime>> {
    match driver {
        QuicDriver::Caller => Ok(Arc::new(TokioRuntime)),
        QuicDriver::OwnThread => Ok(Arc::new(ThreadRuntime(own_thread()?))),
    }
}

/// Does the same, and returns a handle on the runtime that tasks run on.
#[cfg(unix)]
pub(super) fn with_handle(driver: QuicDriver) -> io::Result<(Arc<dyn Runtime>, Handle)> {
    let handle = match driver {
        QuicDriver::Caller => Handle::try_current().map_err(io::Error::other)?,
        QuicDriver::OwnThread => own_thread()?,
    };
    Ok((find(driver)?, handle))
}

/// The runtime of the thread that all QUIC links of this process share, which runs until the process ends.
fn own_thread() -> io::Result<Handle> {
    static THREAD: OnceLock<Result<Handle, io::ErrorKind>> = OnceLock::new();
    let started = THREAD.get_or_init(|| start_thread().map_err(|error| error.kind()));
    started.clone().map_err(io::Error::from)
}

fn start_thread() -> io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name("transpute-quic".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

/// Drives endpoints on another thread's runtime.
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

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        let _runtime = self.0.enter();
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}
