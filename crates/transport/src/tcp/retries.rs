//! How often a silent path is tried.
//!
//! Linux doubles the time between its attempts, and makes none at the end of `TCP_USER_TIMEOUT`: with retries after 0.3,
//! 0.8, 1.9 and 4 s, a path that comes back after 5 s is given up at 8 s untried. A bound keeps them coming.

use tokio::net::TcpStream;

/// The longest time between two attempts, in milliseconds: a path that was dark for 5 s is tried before 8 s are over,
/// and no round trip takes as long.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LONGEST_MS: libc::c_int = 2_000;

/// `TCP_RTO_MAX_MS` of Linux 6.15, include/uapi/linux/tcp.h.
#[cfg(any(target_os = "linux", target_os = "android"))]
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// Bounds the time between two attempts to send what was not acknowledged. Older kernels than Linux 6.15 cannot.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(unsafe_code, reason = "setsockopt has no safe wrapper for this option")]
pub(super) fn bound(stream: &TcpStream) {
    use std::os::fd::AsRawFd;

    let milliseconds = LONGEST_MS;
    // SAFETY: the descriptor is open for as long as `stream` is borrowed, and the kernel reads one `c_int` from the
    // pointer, which is valid for that.
    let status = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const milliseconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "cannot bound the time between TCP retransmissions");
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn bound(_: &TcpStream) {}
