//! Shorter retransmission timers of the kernel, for lost segments and for paths with outages.
//!
//! If no later segment reveals the loss of a segment, Linux retransmits it after a round-trip time
//! plus 200 ms, because receivers may delay their acknowledgements by up to 200 ms. The segments of
//! a handshake have no later segments. If both parties acknowledge sooner, they can also retransmit
//! sooner, as in QUIC (RFC 9002, section 6.2.1, with a delay of 25 ms).
//!
//! Linux doubles the interval after each retransmission, and closes the connection at the end of
//! `TCP_USER_TIMEOUT` (8 s here). With retransmissions after 0.3, 0.8, 1.9 and 4 s, it closes the
//! connection at 8 s even if the path works again after 5 s. A maximum interval prevents this.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use socket2::SockRef;

    /// The socket options: name, number in include/uapi/linux/tcp.h of Linux 6.15, and value.
    pub(super) const OPTIONS: [(&str, libc::c_int, libc::c_int); 3] = [
        // Maximum interval between retransmissions, in milliseconds. With this value, a connection
        // survives 5 s without a path, because Linux retransmits again before the 8 s of
        // `TCP_USER_TIMEOUT` end. The value exceeds every expected round-trip time.
        ("TCP_RTO_MAX_MS", 44, 2_000),
        // Minimum time added to a round trip before a retransmission, in microseconds. It exceeds
        // the 40 ms by which older kernels delay acknowledgements. TCP timestamps detect and undo a
        // spurious retransmission.
        ("TCP_RTO_MIN_US", 45, 50_000),
        // Maximum delay of an acknowledgement, in microseconds (25 ms as in QUIC).
        ("TCP_DELACK_MAX_US", 46, 25_000),
    ];

    #[expect(
        unsafe_code,
        reason = "setsockopt has no safe wrapper for these options"
    )]
    pub(super) fn set(
        socket: &SockRef<'_>,
        option: libc::c_int,
        value: libc::c_int,
    ) -> std::io::Result<()> {
        use std::os::fd::AsRawFd;

        // SAFETY: the descriptor is open for as long as `socket` is borrowed, and the kernel reads
        // one `c_int` from the pointer, which is valid for that.
        let status = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if status == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    }
}

/// Sets the options on a socket before it connects or listens. So the maximum interval also applies
/// during the TCP handshake, and accepted sockets inherit the options from the listening socket.
/// Kernels older than Linux 6.15 lack some or all of the options, which then have no effect.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn prepare(socket: &socket2::SockRef<'_>) {
    for (name, option, value) in linux::OPTIONS {
        if let Err(error) = linux::set(socket, option, value) {
            tracing::debug!(%error, name, "TCP retransmits as the system has it");
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn prepare(_: &socket2::SockRef<'_>) {}

#[cfg(all(test, target_os = "linux"))]
#[expect(
    unsafe_code,
    reason = "getsockopt has no safe wrapper for these options"
)]
mod tests {
    use std::{net::SocketAddr, os::fd::AsRawFd};

    use super::{super::congestion::new_socket, *};

    fn read(socket: &impl AsRawFd, option: libc::c_int) -> Option<libc::c_int> {
        let mut value: libc::c_int = 0;
        let mut length = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the descriptor is open for as long as `socket` is borrowed; both pointers are
        // valid, and the kernel writes no more than `length` bytes.
        let status = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                option,
                (&raw mut value).cast(),
                &raw mut length,
            )
        };
        (status == 0).then_some(value)
    }

    #[tokio::test]
    async fn both_ends_of_a_connection_are_prepared() {
        let home = SocketAddr::from(([127, 0, 0, 1], 0));
        let [listening, connecting] = [new_socket(home).unwrap(), new_socket(home).unwrap()];
        for socket in [&listening, &connecting] {
            prepare(&socket.into());
        }
        listening.bind(home).unwrap();
        let listener = listening.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, connected) = tokio::join!(listener.accept(), connecting.connect(address));
        let ends = [accepted.unwrap().0, connected.unwrap()];
        let untouched = new_socket(home).unwrap();
        for (name, option, value) in linux::OPTIONS {
            let Some(default) = read(&untouched, option) else {
                eprintln!("SKIPPED: this kernel has no {name}");
                continue;
            };
            for end in &ends {
                let set = read(end, option).unwrap();
                // Kernels round up to multiples of a tick of at most 10 ms.
                let ticks = if name.ends_with("_US") { 10_000 } else { 10 };
                assert!((value..value + ticks).contains(&set), "{name}: {set}");
                assert_ne!(set, default, "{name}");
            }
        }
    }
}
