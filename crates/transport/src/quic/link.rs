//! A QUIC connection as a link, shared by its halves and its statistics.
//!
//! The halves own the connection. The statistics hold a weak reference, so that dropping the link closes it, whoever
//! still looks at its figures.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use noq::{Connection, PathId, VarInt};

use super::{
    congestion::Steered,
    explain::{self, During},
    memory::Visit,
    meter::Meter,
    options::QuicDriver,
    reader::Reader,
    runtime,
    writer::Writer,
};
use crate::{LinkInfo, PathProbe, PathSample, TransportError, link::Bare};

/// The code with which a connection closes whose sides have both sent and read everything.
pub(super) const COMPLETE: VarInt = VarInt::from_u32(1);

/// The code with which a connection closes that was dropped before.
const DROPPED: VarInt = VarInt::from_u32(2);

/// The code with which a connection closes whose side has sent everything, and wants nothing more of the peer.
pub(super) const SAID_ALL: VarInt = VarInt::from_u32(3);

/// What the two halves have in common. The connection closes when both are gone.
pub(super) struct Shared {
    connection: Connection,
    meter: Option<Arc<Meter>>,
    /// Where to note how fast it was.
    visit: Option<Visit>,
    all_sent: AtomicBool,
    all_read: AtomicBool,
    /// Streams of a half that was dropped: the library tells the peer that a dropped stream is complete or unwanted,
    /// and neither is what dropping a half means.
    parked: Mutex<Vec<Box<dyn Any + Send>>>,
    driver: QuicDriver,
    last_sample: Arc<OnceLock<PathSample>>,
}

/// Makes what is to be a link of an authenticated connection, with `streams` streams for what this side sends. It starts at the
/// rate that is remembered of the peer.
pub(super) fn bare(
    connection: Connection,
    (streams, driver): (u16, QuicDriver),
    info: LinkInfo,
    visit: Option<Visit>,
) -> Result<Bare<Reader, Writer>, TransportError> {
    let meter = connection
        .congestion_state(PathId::ZERO)
        .and_then(Steered::meter_of);
    if let (Some(meter), Some(visit)) = (&meter, &visit)
        && let Some(rate) = visit.rate()
    {
        tracing::debug!(rate, "the peer was here before");
        meter.start_at(rate);
    }
    let shared = Arc::new(Shared {
        connection,
        meter,
        visit,
        all_sent: AtomicBool::new(false),
        all_read: AtomicBool::new(false),
        parked: Mutex::default(),
        driver,
        last_sample: Arc::default(),
    });
    let probe = Arc::new(QuicProbe {
        shared: Arc::downgrade(&shared),
        last_sample: Arc::clone(&shared.last_sample),
    });
    let writer = Writer::new(Arc::clone(&shared), streams)?;
    let reader = Reader::new(shared);
    Ok(Bare {
        reader,
        writer,
        info,
        probe,
    })
}

impl Shared {
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Everything was sent and the peer has acknowledged it.
    pub(super) fn note_all_sent(&self) {
        self.all_sent.store(true, Ordering::Release);
    }

    /// The peer's stream was read to its end.
    pub(super) fn note_all_read(&self) {
        self.all_read.store(true, Ordering::Release);
    }

    /// Keeps streams until the connection is closed.
    pub(super) fn park(&self, streams: impl Any + Send) {
        self.parked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(streams));
    }

    /// Says why the connection ended, if it did.
    pub(super) fn ended(&self, during: During) -> Option<TransportError> {
        let reason = self.connection.close_reason()?;
        Some(explain::connection(&reason, during))
    }

    fn sample(&self) -> PathSample {
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
        if let Some(visit) = self.visit.take() {
            visit.end(self.meter.as_ref().and_then(|meter| meter.reached()));
        }
        let all_sent = self.all_sent.load(Ordering::Acquire);
        let all_read = self.all_read.load(Ordering::Acquire);
        let code = match (all_sent, all_read) {
            (true, true) => COMPLETE,
            (true, false) => SAID_ALL,
            (false, _) => DROPPED,
        };
        // Before the parked streams are dropped, which then have nothing more to say.
        runtime::close(&self.connection, code, self.driver);
    }
}

struct QuicProbe {
    shared: Weak<Shared>,
    last_sample: Arc<OnceLock<PathSample>>,
}

impl PathProbe for QuicProbe {
    fn sample(&self) -> PathSample {
        match self.shared.upgrade() {
            Some(shared) => shared.sample(),
            None => self.last_sample.get().cloned().unwrap_or_default(),
        }
    }
}
