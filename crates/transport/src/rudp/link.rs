//! A connection with the state that the halves, the statistics and the serving thread share.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use transpute_rudp::{Id, RudpConnection, RudpEvent, Time, Transmit};

use super::{
    ending::{Broken, DROPPED, Ending},
    served::{Hold, NEVER, ServedSocket},
    socket::{is_too_large, largest_datagram},
};
use crate::PathSample;

/// A connection, shared by the endpoint's thread and the halves of the link.
pub(super) struct Shared {
    /// Time at which the thread must next call [`serve`](Self::serve), in nanoseconds on the clock
    /// of the socket.
    deadline: AtomicU64,
    /// Maximum time in nanoseconds for which the thread may leave received datagrams in the socket,
    /// in order to collect more.
    patience: AtomicU64,
    over: AtomicBool,
    state: Mutex<State>,
    hold: Hold,
    /// True if the endpoint routes data packets to this connection by its id.
    registered: AtomicBool,
    last_sample: Arc<OnceLock<PathSample>>,
}

/// The condition to wait for during the set-up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wait {
    /// The peer is authenticated.
    Established,
    /// The peer is authenticated, and the rates of both directions are measured or the time limit
    /// of the measurement has passed.
    Measured,
}

/// The state of a connection, protected by the lock in [`Shared`].
pub(super) struct State {
    pub(super) connection: RudpConnection,
    /// Name of the rate controller.
    control: &'static str,
    /// Buffer in which packets are built. It keeps packets that the socket has not accepted yet.
    outgoing: Vec<u8>,
    pending: Option<Transmit>,
    from: Option<IpAddr>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    opener: Option<(Waker, Wait)>,
    established: Option<Time>,
    estimated: bool,
    measured: bool,
    pub(super) delivered: bool,
    pub(super) finished: bool,
    /// Number of bytes written since packets were last built.
    pub(super) unflushed: usize,
    pub(super) end: Option<Ending>,
    /// Set when both halves are dropped: the time until which unsent data may still be delivered.
    pub(super) abandoned: Option<Time>,
    /// True if ICMP reported that the peer's port is closed, until the report is handled.
    refused: bool,
}

/// Maximum time for delivering the remaining data after both halves of a link are dropped.
const LINGER: Duration = Duration::from_secs(10);

/// Time before the next attempt to send, after the socket has accepted no more packets.
const SOCKET_PAUSE: Duration = Duration::from_micros(200);

/// Maximum number of datagrams handled in a row. After them, acknowledgements are sent and the lock
/// is released.
const MAX_DATAGRAMS_AT_ONCE: usize = 64;

/// Time limit for the path measurement, from the time at which the connection is established. A
/// second, longer limit applies while a probe train is still arriving, as on a slow path.
const ESTIMATE_TIMEOUT: Duration = Duration::from_millis(60);
const TRAIN_TIMEOUT: Duration = Duration::from_millis(400);

impl Shared {
    pub(super) fn new(
        connection: RudpConnection,
        hold: Hold,
        from: Option<IpAddr>,
        control: &'static str,
    ) -> Self {
        Self {
            deadline: AtomicU64::new(0),
            patience: AtomicU64::new(0),
            over: AtomicBool::new(false),
            state: Mutex::new(State {
                connection,
                control,
                outgoing: Vec::new(),
                pending: None,
                from,
                reader: None,
                writer: None,
                opener: None,
                established: None,
                estimated: false,
                measured: false,
                delivered: false,
                finished: false,
                unflushed: 0,
                end: None,
                abandoned: None,
                refused: false,
            }),
            hold,
            registered: AtomicBool::new(false),
            last_sample: Arc::default(),
        }
    }

    /// Returns the id that data packets of this connection carry, if it is known.
    pub(super) fn data_id(&self) -> Option<u32> {
        let id = self.lock().connection.local_id();
        self.registered.store(id.is_some(), Ordering::Relaxed);
        id
    }

    /// Returns the peer's address, and the ids that set-up packets of this connection carry.
    pub(super) fn set_up_route(&self) -> (SocketAddr, [Option<Id>; 2]) {
        let state = self.lock();
        let ids = state.connection.set_up_ids();
        (
            state.connection.remote(),
            ids.map_or([None; 2], |ids| ids.map(Some)),
        )
    }

    /// Returns whether the last call of [`data_id`](Self::data_id) has returned an id.
    pub(super) fn is_registered(&self) -> bool {
        self.registered.load(Ordering::Relaxed)
    }

    pub(super) fn deadline(&self) -> u64 {
        self.deadline.load(Ordering::SeqCst)
    }

    /// Returns the maximum time for which the thread may leave received datagrams in the socket.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_nanos(self.patience.load(Ordering::Relaxed))
    }

    /// Returns the time on the clock of the socket.
    pub(super) fn now(&self) -> Time {
        self.hold.served.now()
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles received datagrams. Sends acknowledgements before it wakes the reader, because a
    /// program may exit as soon as it has read its last byte.
    pub(super) fn take<'a>(
        &self,
        datagrams: impl Iterator<Item = (Time, SocketAddr, &'a mut [u8])>,
    ) {
        let mut state = self.lock();
        for (index, (at, from, datagram)) in datagrams.enumerate() {
            if index > 0 && index % MAX_DATAGRAMS_AT_ONCE == 0 {
                self.settle(state);
                state = self.lock();
            }
            state.connection.handle_datagram(at, from, datagram);
        }
        self.settle(state);
    }

    /// Handles due timers, sends the packets that congestion and flow control allow, and wakes
    /// waiting tasks.
    pub(super) fn serve(&self) {
        self.settle(self.lock());
    }

    /// Like [`serve`](Self::serve), for a caller that holds the lock. Releases the lock before it
    /// wakes tasks.
    pub(super) fn settle(&self, mut state: MutexGuard<'_, State>) {
        let wakes = self.turn(&mut state);
        drop(state);
        wakes.wake();
    }

    /// Like [`serve`](Self::serve), for a caller that keeps the lock. Returns the tasks, which the
    /// caller wakes after it has released the lock.
    pub(super) fn turn(&self, state: &mut State) -> Wakes {
        let now = self.hold.served.now();
        if (state.connection.next_timeout()).is_some_and(|at| at <= now) {
            state.connection.handle_timeout(now);
        }
        state.transmit(&self.hold.served);
        if std::mem::take(&mut state.refused) {
            state.on_refused(now);
            state.transmit(&self.hold.served);
        }
        let wakes = state.take_events(now);
        if state.is_to_close(now) {
            state.connection.close(now, DROPPED);
            state.transmit(&self.hold.served);
        }
        let mut deadline = state
            .connection
            .next_timeout()
            .map_or(NEVER, Time::as_nanos);
        if state.pending.is_some() {
            deadline = deadline.min((now + SOCKET_PAUSE).as_nanos());
        }
        // A closed connection sends no data. Its only timers repeat its close packet.
        if !state.connection.is_closed() {
            if let Some(abandoned) = state.abandoned {
                deadline = deadline.min(abandoned.as_nanos());
            }
            if let (Some(until), Some((_, Wait::Measured))) = (state.estimate_due(), &state.opener)
            {
                deadline = deadline.min(until.as_nanos());
            }
        }
        if state.connection.is_drained() {
            deadline = NEVER;
            if !self.over.swap(true, Ordering::SeqCst) {
                // Make the thread run at once, so that it removes the link.
                deadline = 0;
            }
        }
        let delay = state.connection.receive_delay().as_nanos();
        (self.patience).store(u64::try_from(delay).unwrap_or(0), Ordering::Relaxed);
        self.deadline.store(deadline, Ordering::SeqCst);
        self.hold.served.look_by(deadline);
        wakes
    }

    /// Handles an ICMP report that the peer's port is closed.
    pub(super) fn refused(&self) {
        let mut state = self.lock();
        state.refused = true;
        self.settle(state);
    }

    /// Waits for the condition `wait`. Fails if the connection ends first.
    pub(super) fn poll_open(&self, cx: &Context<'_>, wait: Wait) -> Poll<Result<(), Broken>> {
        let mut state = self.lock();
        if let Some(broken) = state.broken() {
            return Poll::Ready(Err(broken));
        }
        let now = self.hold.served.now();
        if state.is_open(wait, now) {
            return Poll::Ready(Ok(()));
        }
        state.opener = Some((cx.waker().clone(), wait));
        self.settle(state);
        Poll::Pending
    }

    /// Ends any wait for the path measurement, because no measurement will arrive.
    pub(super) fn expect_no_estimate(&self) {
        let mut state = self.lock();
        (state.estimated, state.measured) = (true, true);
    }

    /// Closes a connection that did not become a link.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        let now = self.hold.served.now();
        state.abandoned = Some(if state.finished { now + LINGER } else { now });
        self.settle(state);
    }

    /// Returns the cell in which the last path measurements are stored when the connection ends.
    pub(super) fn last_sample(&self) -> Arc<OnceLock<PathSample>> {
        Arc::clone(&self.last_sample)
    }

    /// Returns the current path measurements.
    pub(super) fn current_sample(&self) -> PathSample {
        self.lock().sample()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = self.last_sample.set(state.sample());
    }
}

impl State {
    /// Converts the statistics of the connection to path measurements.
    fn sample(&self) -> PathSample {
        let stats = self.connection.stats();
        let known = |duration: Duration| (!duration.is_zero()).then_some(duration);
        let rate = stats.controller.bandwidth;
        let delivery_rate = (rate > 0).then_some(rate);
        PathSample {
            rtt: known(stats.rtt),
            min_rtt: known(stats.min_rtt),
            delivery_rate,
            delivery_rate_app_limited: delivery_rate
                .map(|_| stats.limited_by == transpute_rudp::SendLimit::Application),
            congestion_window: Some(stats.controller.window),
            retransmits: Some(stats.retransmitted_packets),
            wire_bytes_sent: Some(stats.sent_bytes),
            wire_bytes_received: Some(stats.received_bytes),
            wire_bytes_retransmitted: Some(stats.retransmitted_bytes),
            wire_bytes_parity: Some(stats.parity_bytes),
            overhead: Some(stats.overhead()),
            packets_lost: Some(stats.lost_packets),
            spurious_losses: Some(stats.spurious_losses),
            largest_datagram: Some(stats.datagram_size),
            packets_sent: Some(stats.sent_packets),
            congestion_control: Some(self.control.into()),
            sent_train: self.connection.outgoing_train(),
            received_train: self.connection.incoming_train(),
            ..PathSample::default()
        }
    }

    /// Sends all packets that congestion and flow control allow now.
    fn transmit(&mut self, served: &ServedSocket) {
        self.unflushed = 0;
        loop {
            let transmit = match self.pending.take() {
                Some(transmit) => transmit,
                None => {
                    self.outgoing.clear();
                    let size = usize::from(self.connection.datagram_size());
                    let segments = served.socket.segments(size);
                    let now = served.now();
                    match (self.connection).poll_transmit(now, &mut self.outgoing, segments) {
                        Some(transmit) => transmit,
                        None => return,
                    }
                }
            };
            let sent = served.socket.send(&transmit, &self.outgoing, self.from);
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.pending = Some(transmit);
                    return;
                }
                Err(error) if is_too_large(&error) => {
                    let most = largest_datagram(transmit.destination, self.from);
                    self.connection.on_refused(transmit.segment_size, most);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.refused = true;
                }
                Err(error) => tracing::trace!(%error, "a packet could not be sent"),
                Ok(()) => {}
            }
        }
    }

    /// Handles an ICMP report that the port is closed. Anyone on the path can forge it, so it only
    /// ends a connection during its set-up. An established connection sends a keep-alive request
    /// instead.
    fn on_refused(&mut self, now: Time) {
        if self.established.is_some() {
            self.connection.probe();
        } else if !self.connection.is_closed() {
            self.end = self.end.or(Some(Ending::Refused));
            self.connection.close(now, DROPPED);
        }
    }

    fn take_events(&mut self, now: Time) -> Wakes {
        let mut wakes = Wakes::default();
        while let Some(event) = self.connection.poll_event() {
            match event {
                RudpEvent::Established => self.established = Some(now),
                RudpEvent::PathEstimated { .. } => self.estimated = true,
                RudpEvent::PathMeasured => self.measured = true,
                RudpEvent::Readable => wakes.add(&mut self.reader),
                RudpEvent::Writable => wakes.add(&mut self.writer),
                RudpEvent::Delivered => {
                    self.delivered = true;
                    wakes.add(&mut self.writer);
                }
                RudpEvent::Closed(reason) => {
                    self.end = self.end.or(reason.map(Ending::Core));
                    wakes.add_all(self);
                }
                _ => {}
            }
        }
        if let Some((_, wait)) = self.opener
            && self.is_open(wait, now)
        {
            wakes.add_opener(self);
        }
        wakes
    }

    /// Returns whether the connection is established, and the results that `wait` requires have
    /// arrived or timed out.
    fn is_open(&self, wait: Wait, now: Time) -> bool {
        let is_known = wait == Wait::Established || (self.estimated && self.measured);
        self.estimate_due()
            .is_some_and(|due| is_known || now >= due)
    }

    /// Returns the deadline of the path measurement. `None` until the connection is established.
    fn estimate_due(&self) -> Option<Time> {
        let patience = match self.connection.is_train_arriving() {
            true => TRAIN_TIMEOUT,
            false => ESTIMATE_TIMEOUT,
        };
        Some(self.established? + patience)
    }

    /// Returns whether to close the connection: both halves are dropped, and no data remains to be
    /// delivered or the time limit has passed.
    fn is_to_close(&self, now: Time) -> bool {
        let Some(until) = self.abandoned else {
            return false;
        };
        let done = self.delivered || !self.finished || now >= until;
        done && !self.connection.is_closed()
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        let closed = self.connection.is_closed();
        closed.then_some(Broken(self.end))
    }
}

/// The tasks to wake after the lock is released.
#[derive(Default)]
pub(super) struct Wakes(Vec<Waker>);

impl Wakes {
    fn add(&mut self, waker: &mut Option<Waker>) {
        self.0.extend(waker.take());
    }

    fn add_all(&mut self, state: &mut State) {
        self.add(&mut state.reader);
        self.add(&mut state.writer);
        self.add_opener(state);
    }

    fn add_opener(&mut self, state: &mut State) {
        self.0.extend(state.opener.take().map(|(waker, _)| waker));
    }

    pub(super) fn wake(self) {
        for waker in self.0 {
            waker.wake();
        }
    }
}
