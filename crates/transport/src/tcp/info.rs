//! The kernel's statistics of a TCP connection (`TCP_INFO`, Linux).

use std::time::Duration;

use tokio::net::TcpStream;

use crate::{PathSample, SendTimes};

/// The fields of the kernel's `struct tcp_info` that this crate uses. Fields that the running
/// kernel does not have are `None`.
///
/// New versions of linux/tcp.h add fields only at the end of the struct. This module reads the
/// fields by offset, because the declarations of the C libraries lack fields that the kernel has.
/// The kernel returns the number of bytes that it filled.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TcpInfo {
    pub(super) unacked: Option<u32>,
    pub(super) not_sent: Option<u32>,
    pub(super) send_window: Option<u32>,
    pub(super) last_ack_received: Option<Duration>,
    pub(super) busy: Option<Duration>,
    pub(super) by_receiver: Option<Duration>,
    pub(super) by_send_buffer: Option<Duration>,
    pub(super) path: PathSample,
}

impl TcpInfo {
    /// Reads the statistics of a connection from the kernel. On systems without `TCP_INFO`, all
    /// fields are `None`.
    pub(super) fn of(stream: &TcpStream) -> Self {
        let mut buffer = [0; 512];
        Self::parse(read(stream, &mut buffer))
    }

    /// Returns whether the peer's kernel has acknowledged all data. `None` if this kernel does not
    /// report it.
    pub(super) fn is_acknowledged(&self) -> Option<bool> {
        Some(self.unacked? == 0 && self.not_sent.unwrap_or(0) == 0)
    }

    /// Returns the time for which the connection had data to send, and the part of it for which
    /// the receive window or the send buffer limited sending. `None` if the kernel does not report
    /// them. `elapsed` is the age of the link.
    pub(super) fn send_times(&self, elapsed: Duration) -> Option<SendTimes> {
        Some(SendTimes {
            elapsed,
            busy: self.busy?,
            by_receiver: self.by_receiver?,
            by_send_buffer: self.by_send_buffer?,
        })
    }

    fn parse(info: &[u8]) -> Self {
        let micros = |offset| {
            u32_at(info, offset)
                .filter(|&value| value != 0)
                .map(|value| Duration::from_micros(value.into()))
        };
        let segment = u32_at(info, 16).map(u64::from);
        let congestion_window = u32_at(info, 80).map(u64::from);
        // Before the first measurement, the kernel's min_rtt has all bits set.
        let min_rtt = u32_at(info, 148).filter(|&value| value != 0 && value != u32::MAX);
        let delivery_rate = u64_at(info, 160).filter(|&value| value != 0);
        let mut path = PathSample::default();
        path.rtt = micros(68);
        path.rtt_variation = path.rtt.and(micros(72));
        path.min_rtt = min_rtt.map(|value| Duration::from_micros(value.into()));
        path.delivery_rate = delivery_rate;
        // Byte 7 of the struct contains the flag tcpi_delivery_rate_app_limited as a bit field. C
        // compilers put it into bit 0 on little-endian machines, and bit 7 on big-endian machines.
        path.delivery_rate_app_limited = delivery_rate
            .and(info.get(7))
            .map(|bits| bits & APP_LIMITED != 0);
        path.congestion_window = segment
            .zip(congestion_window)
            .map(|(segment, window)| segment.saturating_mul(window));
        path.retransmits = u32_at(info, 100).map(u64::from);
        path.wire_bytes_received = u64_at(info, 128);
        path.wire_bytes_sent = u64_at(info, 200);
        path.wire_bytes_retransmitted = u64_at(info, 208);
        path.packets_sent = u32_at(info, 156).map(u64::from);
        Self {
            unacked: u32_at(info, 24),
            not_sent: u32_at(info, 144),
            send_window: u32_at(info, 228),
            last_ack_received: u32_at(info, 56).map(|value| Duration::from_millis(value.into())),
            busy: u64_at(info, 168).map(Duration::from_micros),
            by_receiver: u64_at(info, 176).map(Duration::from_micros),
            by_send_buffer: u64_at(info, 184).map(Duration::from_micros),
            path,
        }
    }
}

const APP_LIMITED: u8 = if cfg!(target_endian = "little") {
    0x01
} else {
    0x80
};

fn u32_at(info: &[u8], offset: usize) -> Option<u32> {
    let bytes = info.get(offset..offset + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn u64_at(info: &[u8], offset: usize) -> Option<u64> {
    let bytes = info.get(offset..offset + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// Reads the struct into `buffer` and returns the part that the kernel filled.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "no safe wrapper of getsockopt(TCP_INFO) reports the filled length"
)]
fn read<'a>(stream: &TcpStream, buffer: &'a mut [u8; 512]) -> &'a [u8] {
    use std::os::fd::AsRawFd;

    // The cast is exact: 512 fits into every socklen_t.
    let mut length = buffer.len() as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as `stream` is borrowed; `buffer` is writable for
    // `length` bytes, and the kernel writes no more than that; `length` is a valid socklen_t to
    // read and write. Any bytes are valid `u8`s.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let filled = if status == 0 { length as usize } else { 0 };
    &buffer[..filled.min(buffer.len())]
}

#[cfg(not(target_os = "linux"))]
fn read<'a>(_: &TcpStream, _: &'a mut [u8; 512]) -> &'a [u8] {
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn offsets_are_those_of_the_c_struct() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(libc::tcp_info, tcpi_snd_mss), 16);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_unacked), 24);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_last_ack_recv), 56);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rtt), 68);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rttvar), 72);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_snd_cwnd), 80);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_total_retrans), 100);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_bytes_received), 128);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_notsent_bytes), 144);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_min_rtt), 148);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_data_segs_out), 156);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_delivery_rate), 160);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_busy_time), 168);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rwnd_limited), 176);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_sndbuf_limited), 184);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_bytes_sent), 200);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_bytes_retrans), 208);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_snd_wnd), 228);
    }

    #[test]
    fn an_old_kernel_gives_fewer_figures_and_no_wrong_ones() {
        let full = [1; 256];
        let all = TcpInfo::parse(&full);
        assert!(all.path.wire_bytes_sent.is_some() && all.send_window.is_some());
        // The struct of Linux 4.9 ends before bytes_sent. The struct of Linux 2.6 ends after
        // total_retrans.
        let old = TcpInfo::parse(&full[..192]);
        assert_eq!(old.path.wire_bytes_sent, None);
        assert_eq!(old.path.min_rtt, all.path.min_rtt);
        let older = TcpInfo::parse(&full[..104]);
        assert_eq!(older.path.min_rtt, None);
        assert_eq!(older.path.rtt, all.path.rtt);
        assert_eq!(TcpInfo::parse(&[]), TcpInfo::default());
        for length in 0..full.len() {
            let _ = TcpInfo::parse(&full[..length]);
        }
    }

    #[test]
    fn unknown_is_not_zero() {
        let path = TcpInfo::parse(&[0; 256]).path;
        assert_eq!(
            (path.rtt, path.min_rtt, path.delivery_rate),
            (None, None, None)
        );
        assert_eq!(TcpInfo::parse(&[0xff; 256]).path.min_rtt, None);
    }
}
