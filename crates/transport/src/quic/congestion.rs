//! Congestion control of QUIC connections: the model-based controller of reliable UDP, or the
//! library's CUBIC.

use std::{
    any::Any,
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use quinn::congestion::{Controller, ControllerFactory, CubicConfig};
use quinn_proto::RttEstimator;
use transpute_rudp::{
    Time,
    rate::{
        Bbr, ControllerSettings, DeliverySampler, RateController, RttView, SentState, Snapshot,
    },
};

use super::options::{QuicCongestion, QuicOptions};

/// Builds a controller for each connection.
pub(super) struct Factory(QuicOptions);

impl Factory {
    pub(super) fn new(options: &QuicOptions) -> Self {
        Self(*options)
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        match self.0.congestion {
            QuicCongestion::Bbr => Box::new(ModelBased::new(&self.0, now, current_mtu)),
            QuicCongestion::Cubic => {
                // CUBIC has no initial rate, so set its initial window instead.
                let mut config = CubicConfig::default();
                let bdp = self.0.bdp().unwrap_or(0);
                config.initial_window(bdp.max(self.0.first_flight));
                Arc::new(config).build(now, current_mtu)
            }
        }
    }
}

/// Minimum first flight in bytes: 32 packets of 1,200 bytes, as in browsers.
const MIN_FIRST_FLIGHT: u64 = 32 * 1200;

/// Share of the path's rate that UDP payload can use. The IP and UDP headers take 28 bytes per
/// packet of 1,200 bytes. The rest is a small margin.
const PAYLOAD_SHARE: f64 = 0.97;

/// Maximum number of batches of packets in flight whose state is kept. When there are more, the
/// oldest state is dropped. 16,384 batches of the library are 1.3 Gbit/s for a second.
const MAX_BATCHES: usize = 1 << 14;

/// Time that the library needs to process received packets, which delays acknowledgements. Paths
/// below a millisecond need a window that includes the bytes of this time.
const HOST_DELAY: Duration = Duration::from_millis(1);

/// [`Bbr`] with the library's interface of controllers.
///
/// The library paces a window over 0.8 of the smoothed round-trip time and limits the bytes in
/// flight to the same window. `Bbr` has a pacing rate and a larger limit of the bytes in flight. So
/// the window is the number of bytes of one round trip at the pacing rate while the bytes in flight
/// are below the limit of `Bbr`, and that limit otherwise.
pub(super) struct ModelBased {
    options: QuicOptions,
    bbr: Bbr,
    packet: u64,
    sampler: DeliverySampler,
    started: Instant,
    /// The sent batches of packets: the time of sending, and the state of the sampler.
    sent: VecDeque<(Instant, SentState)>,
    in_flight: u64,
    /// The round-trip time, zero before the first acknowledgement.
    rtt: RttView,
    /// The packets of the current acknowledgement.
    acked: Acked,
    app_limited: bool,
}

#[derive(Clone, Copy, Default)]
struct Acked {
    packets: u64,
    newest_sent: Option<Instant>,
    smoothed_rtt: Duration,
}

impl ModelBased {
    fn new(options: &QuicOptions, now: Instant, mtu: u16) -> Self {
        let packet = u64::from(mtu);
        let mut sampler = DeliverySampler::new();
        sampler.set_app_limited(0);
        Self {
            options: *options,
            bbr: bbr(packet, MIN_FIRST_FLIGHT.min(options.first_flight)),
            packet,
            sampler,
            started: now,
            sent: VecDeque::new(),
            in_flight: 0,
            rtt: RttView::default(),
            acked: Acked::default(),
            app_limited: false,
        }
    }

    /// Returns the state of the controller, and whether the application limits the rate.
    pub(super) fn snapshot_of(controller: Box<dyn Controller>) -> Option<(Snapshot, bool)> {
        let this = controller.into_any().downcast::<Self>().ok()?;
        Some((this.bbr.snapshot(), this.app_limited))
    }

    fn time(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.started)
    }

    /// Returns the state of the sampler when the packets of this time were sent.
    fn state_at(&self, sent: Instant) -> Option<SentState> {
        let after = self.sent.partition_point(|(at, _)| *at <= sent);
        let (_, state) = self.sent.get(after.saturating_sub(1))?;
        Some(*state)
    }

    /// Starts the controller when the round-trip time is known: at the known rate, or with a first
    /// flight for this round-trip time.
    fn start(&mut self, rtt: Duration) {
        let modest = QuicOptions::MODEST_RATE.bytes_in(rtt) as u64;
        let most = self.options.first_flight;
        self.bbr = bbr(self.packet, modest.clamp(MIN_FIRST_FLIGHT.min(most), most));
        if let Some(rate) = self.options.path.to_peer.rate {
            let rate = (rate * PAYLOAD_SHARE).bytes_per_second() as u64;
            self.bbr.seed(rate, rtt);
        }
    }
}

fn bbr(packet: u64, first_flight: u64) -> Bbr {
    let mut settings = ControllerSettings::default();
    settings.packet_bytes = packet;
    settings.initial_packets = first_flight / packet;
    Bbr::new(&settings)
}

impl Controller for ModelBased {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        let time = self.time(now);
        let state = self.sampler.on_sent(time, bytes, self.in_flight);
        self.in_flight += bytes;
        self.bbr
            .on_sent(time, bytes, self.in_flight, self.app_limited);
        if self.sent.back().is_none_or(|(at, _)| *at < now) {
            self.sent.push_back((now, state));
            if self.sent.len() > MAX_BATCHES {
                self.sent.pop_front();
            }
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        if let Some(state) = self.state_at(sent) {
            self.sampler.on_acked(self.time(now), bytes, &state);
        }
        self.acked.packets += 1;
        self.acked.newest_sent = self.acked.newest_sent.max(Some(sent));
        self.acked.smoothed_rtt = rtt.get();
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        let time = self.time(now);
        self.in_flight = in_flight;
        self.app_limited = app_limited;
        if app_limited {
            self.sampler.set_app_limited(in_flight);
        }
        let acked = std::mem::take(&mut self.acked);
        let Some(newest) = acked.newest_sent else {
            return;
        };
        let sample = now.saturating_duration_since(newest);
        let rtt = &mut self.rtt;
        if rtt.smoothed.is_zero() {
            *rtt = RttView {
                latest: Some(sample),
                smoothed: sample,
                min: sample,
            };
            self.start(sample);
        } else {
            // The library's estimate does not include this acknowledgement yet.
            rtt.smoothed = acked.smoothed_rtt;
            rtt.min = rtt.min.min(sample);
            // The peer may have delayed the acknowledgement of a single packet.
            rtt.latest = (acked.packets > 1 || sample <= rtt.smoothed).then_some(sample);
        }
        let feedback = self.sampler.take_feedback(time, self.rtt, in_flight);
        // The handshake and other short messages do not show the rate of the path.
        let is_short = feedback.delivery.is_some_and(|sample| sample.app_limited);
        if !is_short || self.bbr.snapshot().bandwidth > 0 {
            self.bbr.on_feedback(&feedback);
        }
        let oldest = newest.checked_sub(2 * self.rtt.smoothed);
        while (self.sent.front()).is_some_and(|(at, _)| Some(*at) < oldest) {
            self.sent.pop_front();
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        if is_persistent_congestion {
            self.bbr.on_timeout(self.time(now));
        }
        // The library reports losses after the acknowledgement that shows them. They become part of
        // the next feedback.
        let packets = lost_bytes.div_ceil(self.packet);
        self.sampler.on_lost(lost_bytes, packets);
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.packet = new_mtu.into();
    }

    fn window(&self) -> u64 {
        let most = self.bbr.window();
        if self.rtt.smoothed.is_zero() || self.in_flight + self.packet > most {
            return most;
        }
        let time = self.rtt.smoothed + HOST_DELAY;
        let paced = (self.bbr.pacing_rate() as f64 * time.as_secs_f64()) as u64;
        paced.max(4 * self.packet)
    }

    /// Copies the controller without the packets in flight. The library uses copies for statistics,
    /// and for new paths.
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            options: self.options,
            bbr: self.bbr.clone(),
            packet: self.packet,
            sampler: self.sampler.clone(),
            started: self.started,
            sent: VecDeque::new(),
            in_flight: 0,
            rtt: self.rtt,
            acked: self.acked,
            app_limited: self.app_limited,
        })
    }

    fn initial_window(&self) -> u64 {
        MIN_FIRST_FLIGHT.min(self.options.first_flight)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
