//! How much a stripe sends at once, and how a link begins by it.
//!
//! Each connection starts with a window of ten packets. What its kernel is given beyond that waits there for a round trip, while
//! other stripes, which are there or will be within a moment, could send it now. So at first a stripe is given what its
//! window lets go and no more; and while further stripes are on their way, what no window takes is kept back for them,
//! though for no longer than it takes until a window opens.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep};

use super::frame::{HEADER, RECORD};
use crate::{
    PathClass,
    tcp::{SendWindow, WeakSocket},
};

/// Bytes that a frame takes beside its own: its header, and what makes a record of TLS 1.3 of it (RFC 8446, section 5.2).
const OVERHEAD: usize = HEADER + 5 + 1 + 16;

/// How long stripes are waited for, in round trips: those that `auto` begins when QUIC is late come two round trips and a
/// quarter after the first, and their handshakes take the processor some time.
const PATIENCE: f64 = 2.5;
const HANDSHAKES: Duration = Duration::from_millis(10);

/// How often windows are looked at meanwhile, in a round trip.
const LOOKS: u32 = 16;

/// Tells how much a stripe sends at once.
pub(super) struct Window(Box<dyn Fn() -> Option<SendWindow> + Send + Sync>);

impl Window {
    /// Looks at the window by other means than a socket.
    #[cfg(test)]
    pub(super) fn new(look: impl Fn() -> Option<SendWindow> + Send + Sync + 'static) -> Self {
        Self(Box::new(look))
    }

    /// Returns what is known of it now; `None` where the system does not tell.
    pub(super) fn look(&self) -> Option<SendWindow> {
        (self.0)()
    }
}

impl From<WeakSocket> for Window {
    fn from(socket: WeakSocket) -> Self {
        Self(Box::new(move || socket.send_window()))
    }
}

/// Returns how long the frame may be that fills what a window has room for; `None` if that is not worth a frame.
///
/// The last of its packets is full, unless the stream has no more: what follows it would have another packet for itself, and
/// windows count packets.
pub(super) fn frame_length(window: SendWindow, rest: usize) -> Option<usize> {
    let packet = window.packet.max(1);
    let least = packet.max(2 * OVERHEAD);
    if window.room < least {
        return None;
    }
    let whole = RECORD.min(window.room - OVERHEAD);
    let longest = match (whole + OVERHEAD) / packet * packet {
        // Packets of a loopback device are longer than that.
        0 => whole,
        full => full - OVERHEAD,
    };
    Some(longest.min(rest))
}

/// How long a link may keep bytes back that no window takes.
pub(super) struct Patience {
    until: Instant,
    pause: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Patience {
    /// Begins to be patient on a path of this length; `None` on one that is too short for it.
    pub(super) fn of(window: SendWindow) -> Option<Self> {
        // Within a LAN there is nothing to gain that timers could measure.
        let rtt = (window.rtt).filter(|rtt| PathClass::of(*rtt) > PathClass::SameLan)?;
        let now = Instant::now();
        let pause = (rtt / LOOKS).max(Duration::from_millis(1));
        Some(Self {
            until: now + (rtt.mul_f64(PATIENCE) + HANDSHAKES).min(Duration::from_secs(1)),
            pause,
            timer: Box::pin(tokio::time::sleep(pause)),
        })
    }

    /// Waits for the next look at the windows; ready when it is out of patience.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if now >= self.until {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(now + self.pause);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(packets: usize) -> SendWindow {
        SendWindow {
            room: packets * 1448,
            packet: 1448,
            rtt: None,
        }
    }

    #[test]
    fn frames_fill_packets() {
        assert_eq!(frame_length(window(0), 9), None);
        assert_eq!(frame_length(window(1), 9), Some(9));
        for packets in 1..12 {
            let length = frame_length(window(packets), 1 << 20).unwrap();
            assert_eq!(length + OVERHEAD, packets.min(11) * 1448);
        }
        // No more than a record holds.
        assert_eq!(
            frame_length(window(12), 1 << 20).unwrap() + OVERHEAD,
            11 * 1448
        );
        assert_eq!(frame_length(window(12), 15_000), Some(15_000));
        let long = SendWindow {
            room: 655_360,
            packet: 65_483,
            rtt: None,
        };
        assert_eq!(frame_length(long, 1 << 20), Some(RECORD));
        assert_eq!(frame_length(SendWindow { room: 9, ..long }, 1 << 20), None);
    }
}
