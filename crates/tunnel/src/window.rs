//! Flow control of a stream: the window of its receiver, and the pool from which windows grow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Window of a new stream in each direction, in bytes. Both sides know it, so data can follow
/// `Open` at once.
pub(crate) const INITIAL_WINDOW: u64 = 256 << 10;

/// Maximum window of a stream, in bytes: the bandwidth-delay product of 2.6 Gbit/s and 200 ms.
pub(crate) const MAX_WINDOW: u64 = 64 << 20;

/// Maximum sum of the growth of all windows of a link above their initial size, in bytes.
pub(crate) const POOL: u64 = 256 << 20;

/// Time within which half a window must be consumed for the window to grow. A window grows until it
/// holds about the bytes of half a second. Slow streams do not grow, so they take nothing from the
/// pool.
const GROWTH_TIME: Duration = Duration::from_secs(1);

/// The bytes by which the windows of one link may still grow.
#[derive(Debug)]
pub(crate) struct Pool(AtomicU64);

impl Pool {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(bytes)))
    }

    fn take(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Relaxed, Relaxed, take).is_ok()
    }

    /// Returns the number of bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The receiver's window of one direction of a stream.
///
/// `window` = the sender's remaining credit + the queued bytes + the consumed bytes for which no
/// new credit was sent yet. The queue therefore never holds more bytes than the window.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    window: u64,
    /// Bytes that the sender may still send.
    credit: u64,
    /// Number of consumed bytes for which no new credit was sent yet.
    ungranted: u64,
    /// Bytes consumed since `measured_from`.
    consumed: u64,
    measured_from: Instant,
    pool: Arc<Pool>,
}

impl ReceiveWindow {
    pub(crate) fn new(pool: Arc<Pool>, now: Instant) -> Self {
        Self {
            window: INITIAL_WINDOW,
            credit: INITIAL_WINDOW,
            ungranted: 0,
            consumed: 0,
            measured_from: now,
            pool,
        }
    }

    /// Counts bytes that arrived. If they exceed the sender's credit, returns this credit as the
    /// error.
    pub(crate) fn receive(&mut self, bytes: u64) -> Result<(), u64> {
        self.credit = self.credit.checked_sub(bytes).ok_or(self.credit)?;
        Ok(())
    }

    /// Counts bytes that the local program took. Returns the credit to grant to the sender, if it
    /// is large enough for a frame.
    ///
    /// `is_drained` is true if no byte is queued. The local program is then faster than the path,
    /// so a larger window can help.
    pub(crate) fn consume(
        &mut self,
        bytes: u64,
        is_drained: bool,
        now: impl FnOnce() -> Instant,
    ) -> Option<u32> {
        self.ungranted += bytes;
        self.consumed += bytes;
        // The remaining three quarters keep the sender busy until the credit arrives, if the window
        // is at least 4/3 of the bandwidth-delay product.
        if self.ungranted < self.window / 4 {
            return None;
        }
        let mut grant = std::mem::take(&mut self.ungranted);
        if self.consumed >= self.window / 2 {
            let now = now();
            let is_fast = now.duration_since(self.measured_from) <= GROWTH_TIME;
            if is_fast && is_drained && self.window < MAX_WINDOW && self.pool.take(self.window) {
                grant += self.window;
                self.window *= 2;
            }
            self.consumed = 0;
            self.measured_from = now;
        }
        self.credit += grant;
        u32::try_from(grant).ok()
    }
}

impl Drop for ReceiveWindow {
    fn drop(&mut self) {
        self.pool.0.fetch_add(self.window - INITIAL_WINDOW, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(pool: u64) -> (ReceiveWindow, Arc<Pool>, Instant) {
        let (pool, now) = (Pool::new(pool), Instant::now());
        (ReceiveWindow::new(Arc::clone(&pool), now), pool, now)
    }

    #[test]
    fn a_sender_has_no_more_than_its_credit() {
        let (mut window, _, now) = window(0);
        assert_eq!(window.receive(INITIAL_WINDOW - 5), Ok(()));
        assert_eq!(window.receive(6), Err(5));
        assert_eq!(window.receive(5), Ok(()));
        assert_eq!(window.consume(INITIAL_WINDOW / 4 - 1, true, || now), None);
        let granted = window.consume(1, true, || now).unwrap();
        assert_eq!(u64::from(granted), INITIAL_WINDOW / 4);
        assert_eq!(
            window.receive(INITIAL_WINDOW / 4 + 1),
            Err(INITIAL_WINDOW / 4)
        );
    }

    #[test]
    fn a_fast_drained_stream_grows_until_the_pool_is_empty() {
        let (mut fast, pool, now) = window(3 * INITIAL_WINDOW);
        let mut credit = INITIAL_WINDOW;
        for _ in 0..100 {
            let bytes = credit.min(INITIAL_WINDOW / 4);
            fast.receive(bytes).unwrap();
            credit -= bytes;
            credit += u64::from(fast.consume(bytes, true, || now).unwrap_or(0));
        }
        assert_eq!(fast.window, 4 * INITIAL_WINDOW);
        assert_eq!(pool.left(), 0);
        assert_eq!(fast.credit, credit);
        assert_eq!(fast.credit + fast.ungranted, fast.window);
        drop(fast);
        assert_eq!(pool.left(), 3 * INITIAL_WINDOW);
    }

    #[test]
    fn windows_have_a_maximum() {
        let (mut window, pool, now) = window(u64::MAX / 2);
        for _ in 0..10_000 {
            let bytes = window.credit;
            window.receive(bytes).unwrap();
            window.consume(bytes, true, || now);
        }
        assert_eq!(window.window, MAX_WINDOW);
        assert_eq!(pool.left(), u64::MAX / 2 - (MAX_WINDOW - INITIAL_WINDOW));
    }

    #[test]
    fn slow_and_blocked_streams_do_not_grow() {
        let (mut slow, pool, start) = window(POOL);
        let mut now = start;
        for _ in 0..100 {
            now += GROWTH_TIME;
            slow.receive(INITIAL_WINDOW / 4).unwrap();
            slow.consume(INITIAL_WINDOW / 4, true, || now);
        }
        let (mut blocked, ..) = window(POOL);
        for _ in 0..100 {
            blocked.receive(INITIAL_WINDOW / 4).unwrap();
            blocked.consume(INITIAL_WINDOW / 4, false, || start);
        }
        assert_eq!(
            (slow.window, blocked.window),
            (INITIAL_WINDOW, INITIAL_WINDOW)
        );
        assert_eq!(pool.left(), POOL);
    }
}
