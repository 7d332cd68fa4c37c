//! The state of a QUIC connection that the two halves of its link share.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use noq::{Connection, PathId, VarInt};

use super::{
    congestion::SeededController,
    explain::{self, COMPLETE, During, SAID_ALL},
    meter::Meter,
    options::QuicDriver,
    rate_cache::CachedLink,
    runtime,
};
use crate::{PathSample, TransportError};

/// The close code of a connection whose link was dropped before it had sent all data.
const DROPPED: VarInt = VarInt::from_u32(2);

/// The state that the two halves of a link share. When both are dropped, the connection closes.
pub(super) struct Shared {
    connection: Connection,
    meter: Option<Arc<Meter>>,
    /// The entry in the rate cache, in which the connection records its rate when it closes.
    cached: Option<CachedLink>,
    all_sent: AtomicBool,
    all_read: AtomicBool,
    /// Streams of a dropped half, kept until the connection closes. If they were dropped, the
    /// library would finish or stop them at the peer, but dropping one half must not affect the
    /// other direction.
    parked: Mutex<Vec<Box<dyn Any + Send>>>,
    driver: QuicDriver,
    last_sample: Arc<OnceLock<PathSample>>,
}

impl Shared {
    /// Makes the state of an authenticated connection.
    pub(super) fn new(
        connection: Connection,
        cached: Option<CachedLink>,
        driver: QuicDriver,
    ) -> Self {
        let meter = connection
            .congestion_state(PathId::ZERO)
            .and_then(SeededController::meter_of);
        if let (Some(meter), Some(cached)) = (&meter, &cached)
            && let Some(rate) = cached.rate()
        {
            tracing::debug!(rate, "the peer was here before");
            meter.start_at(rate);
        }
        Self {
            connection,
            meter,
            cached,
            all_sent: AtomicBool::new(false),
            all_read: AtomicBool::new(false),
            parked: Mutex::default(),
            driver,
            last_sample: Arc::default(),
        }
    }

    /// Returns the cell in which the last path measurements are stored when the connection closes.
    pub(super) fn last_sample(&self) -> Arc<OnceLock<PathSample>> {
        Arc::clone(&self.last_sample)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Records that the peer has acknowledged all data, including the end.
    pub(super) fn note_all_sent(&self) {
        self.all_sent.store(true, Ordering::Release);
    }

    /// Records that all data of the peer was read, to its end.
    pub(super) fn note_all_read(&self) {
        self.all_read.store(true, Ordering::Release);
    }

    /// Keeps the streams of a dropped half until the connection closes.
    pub(super) fn park(&self, streams: impl Any + Send) {
        self.parked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(streams));
    }

    /// Returns the error that ended the connection, or `None` if the connection is open. `during`
    /// is the operation that the error interrupted.
    pub(super) fn ended(&self, during: During) -> Option<TransportError> {
        let reason = self.connection.close_reason()?;
        Some(explain::connection(&reason, during))
    }

    pub(super) fn sample(&self) -> PathSample {
        let mut sample = PathSample::default();
        if let Some(path) = self.connection.path_stats(PathId::ZERO) {
            sample.rtt = Some(path.rtt);
            sample.congestion_window = Some(path.cwnd);
            sample.retransmits = Some(path.lost_packets.saturating_sub(path.lost_plpmtud_probes));
            sample.wire_bytes_retransmitted = Some(path.lost_bytes);
        }
        if let Some(meter) = &self.meter {
            sample.congestion_control = Some(meter.name().to_string());
            sample.min_rtt = meter.min_rtt();
            if let Some((rate, app_limited)) = meter.delivery_rate() {
                sample.delivery_rate = Some(rate);
                sample.delivery_rate_app_limited = Some(app_limited);
            }
        }
        let totals = self.connection.stats();
        sample.wire_bytes_sent = Some(totals.udp_tx.bytes);
        sample.wire_bytes_received = Some(totals.udp_rx.bytes);
        sample
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.last_sample.set(self.sample());
        if let Some(cached) = self.cached.take() {
            cached.end(self.meter.as_ref().and_then(|meter| meter.reached()));
        }
        let all_sent = self.all_sent.load(Ordering::Acquire);
        let all_read = self.all_read.load(Ordering::Acquire);
        let code = match (all_sent, all_read) {
            (true, true) => COMPLETE,
            (true, false) => SAID_ALL,
            (false, _) => DROPPED,
        };
        // Close before the parked streams are dropped, so that they send nothing to the peer.
        runtime::close(&self.connection, code, self.driver);
    }
}
