//! The state of a QUIC connection that the two halves of its link share.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use quinn::{Connection, VarInt};

use super::{
    congestion::ModelBased,
    explain::{self, COMPLETE, During, SAID_ALL},
    options::QuicOptions,
    runtime,
};
use crate::{PathSample, TransportError};

/// The close code of a connection whose link was dropped before it had sent all data.
const DROPPED: VarInt = VarInt::from_u32(2);

/// The state that the two halves of a link share. When both are dropped, the connection closes.
pub(super) struct Shared {
    connection: Connection,
    options: QuicOptions,
    all_sent: AtomicBool,
    all_read: AtomicBool,
    /// Streams of a dropped half, kept until the connection closes. If they were dropped, the
    /// library would finish or stop them at the peer, but dropping one half must not affect the
    /// other direction.
    parked: Mutex<Vec<Box<dyn Any + Send>>>,
    last_sample: Arc<OnceLock<PathSample>>,
}

impl Shared {
    /// Makes the state of an authenticated connection.
    pub(super) fn new(connection: Connection, options: &QuicOptions) -> Self {
        Self {
            connection,
            options: *options,
            all_sent: AtomicBool::new(false),
            all_read: AtomicBool::new(false),
            parked: Mutex::default(),
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
        let totals = self.connection.stats();
        let path = totals.path;
        let mut sample = PathSample {
            rtt: Some(path.rtt),
            min_rtt: Some(path.min_rtt),
            congestion_window: Some(path.cwnd),
            congestion_control: Some(self.options.congestion.to_string()),
            retransmits: Some(path.lost_packets),
            wire_bytes_retransmitted: Some(path.lost_bytes),
            wire_bytes_sent: Some(totals.udp_tx.bytes),
            wire_bytes_received: Some(totals.udp_rx.bytes),
            ..PathSample::default()
        };
        let model = ModelBased::snapshot_of(self.connection.congestion_state());
        if let Some((snapshot, app_limited)) = model.filter(|(model, _)| model.bandwidth > 0) {
            sample.delivery_rate = Some(snapshot.bandwidth);
            sample.delivery_rate_app_limited = Some(app_limited);
        }
        sample
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.last_sample.set(self.sample());
        let all_sent = self.all_sent.load(Ordering::Acquire);
        let all_read = self.all_read.load(Ordering::Acquire);
        let code = match (all_sent, all_read) {
            (true, true) => COMPLETE,
            (true, false) => SAID_ALL,
            (false, _) => DROPPED,
        };
        // Close before the parked streams are dropped, so that they send nothing to the peer.
        runtime::close(&self.connection, code, self.options.driver);
    }
}
