//! The tasks of a link: they read frames, send answers and watch the time limits.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::AsyncReadExt,
    sync::{Notify, watch},
    time::{Instant, sleep_until, timeout},
};
use tracing::warn;
use transpute_transport::{LinkReader, TransportError};

use crate::{
    address::TunnelAddress,
    error::{TunnelError, TunnelProtocolError},
    frame::{self, Decoder, Event, Kind},
    local::Local,
    pump,
    sender::LinkSender,
    stream::{Abort, Memory, Stream},
    tunnel::{TunnelConfig, TunnelSide},
    window::Pool,
};

/// Size of the buffer for one read from the link, in bytes. Transports pass reads of at least
/// 128 KiB to the system without a copy.
const READ_BUFFER: usize = 256 << 10;

/// Maximum number of bytes of answers that wait for the link. A correct peer causes at most one
/// refusal of 1 KiB for each of its open streams.
const MAX_ANSWERS: usize = 8 << 20;

/// Time for which the reader continues after a failed write. If the peer closed the connection with
/// a TLS alert, for example because it does not trust this side's key, only a read returns the
/// alert.
const REASON_TIME: Duration = Duration::from_millis(500);

/// The state that all tasks of a link share.
pub(crate) struct Shared {
    pub(crate) config: TunnelConfig,
    side: TunnelSide,
    pub(crate) sender: LinkSender,
    /// Encoded answers to the peer that are not sent yet. The reader only appends to it. If the
    /// readers of both sides waited for the link to accept answers, they could deadlock.
    answers: Mutex<Vec<u8>>,
    answers_wake: Notify,
    table: Mutex<Table>,
    pub(crate) memory: Memory,
    /// The error of a write.
    failure: Mutex<Option<io::Error>>,
    failed: Notify,
    /// Asks for the end of the tunnel.
    pub(crate) close: Notify,
    /// True when the tunnel has ended.
    pub(crate) is_closed: watch::Sender<bool>,
    started: Instant,
    /// Times of the last received and the last sent bytes, in milliseconds after `started`.
    received_ms: AtomicU64,
    sent_ms: AtomicU64,
}

#[derive(Default)]
struct Table {
    streams: HashMap<u32, Arc<Stream>>,
    /// The last identifiers that the two sides used. Zero before the first.
    last_ours: u32,
    last_theirs: u32,
    /// True if the tunnel has ended. No stream is added then.
    is_closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(sender: LinkSender, side: TunnelSide, config: TunnelConfig) -> Self {
        Self {
            side,
            sender,
            answers: Mutex::default(),
            answers_wake: Notify::new(),
            table: Mutex::default(),
            memory: Memory {
                pool: Pool::new(config.window_growth),
                spare: Arc::default(),
            },
            failure: Mutex::default(),
            failed: Notify::new(),
            close: Notify::new(),
            is_closed: watch::Sender::new(false),
            started: Instant::now(),
            received_ms: AtomicU64::new(0),
            sent_ms: AtomicU64::new(0),
            config,
        }
    }

    /// Runs `work` until it completes or the tunnel ends. Returns `None` in the latter case.
    pub(crate) async fn until_closed<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut is_closed = self.is_closed.subscribe();
        tokio::select! {
            biased;
            _ = is_closed.wait_for(|is_closed| *is_closed) => None,
            done = work => Some(done),
        }
    }

    /// Returns the number of streams, and the number of bytes in their queues.
    pub(crate) fn load(&self) -> (usize, usize) {
        let table = lock(&self.table);
        let queued = (table.streams.values()).map(|stream| stream.state().queue.len());
        (table.streams.len(), queued.sum())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn note_sent(&self) {
        self.sent_ms.store(self.now_ms(), Relaxed);
    }

    /// Ends the tunnel because of a failed write.
    pub(crate) fn fail(&self, error: io::Error) {
        lock(&self.failure).get_or_insert(error);
        self.failed.notify_one();
    }

    /// Queues a frame without data for the task that sends answers.
    pub(crate) fn answer(&self, kind: Kind, id: u32, text: &str) {
        frame::put(&mut lock(&self.answers), kind, id, text);
        self.answers_wake.notify_one();
    }

    /// Queues credit for the peer.
    pub(crate) fn grant(&self, id: u32, bytes: u32) {
        frame::put_credit(&mut lock(&self.answers), id, bytes);
        self.answers_wake.notify_one();
    }

    /// Opens a stream. Returns `None`, with a log message, if there are too many streams or the
    /// link is lost.
    pub(crate) async fn open(
        &self,
        local: Arc<Local>,
        target: TunnelAddress,
    ) -> Option<Arc<Stream>> {
        let mut frame = Vec::new();
        // Streams get their identifiers in the order of their frames on the link.
        let mut writer = self.sender.lock().await;
        let stream = {
            let mut table = lock(&self.table);
            if table.is_closed {
                return None;
            }
            let id = match table.last_ours {
                0 => Some(self.side.first_id()),
                last => last.checked_add(2),
            };
            let is_full = table.streams.len() >= self.config.max_streams;
            match id.filter(|_| !is_full) {
                Some(id) => {
                    let text = target.to_string();
                    let stream = Stream::new(id, target, true, Some(local), &self.memory);
                    table.last_ours = id;
                    table.streams.insert(id, Arc::clone(&stream));
                    frame::put(&mut frame, Kind::Open, id, &text);
                    Some(stream)
                }
                None => {
                    warn!("reset a connection to {target}: too many streams on this link");
                    None
                }
            }
        };
        // Even without a frame, the buffer must be flushed: other tasks may have left that to this
        // one while it waited for the mutex.
        if let Err(error) = self.sender.write(&mut writer, &frame).await {
            self.fail(error);
            return None;
        }
        self.note_sent();
        stream
    }

    /// Forgets a stream that has ended.
    pub(crate) fn remove(&self, stream: &Stream) {
        lock(&self.table).streams.remove(&stream.id);
    }

    /// Returns the stream of a frame. Returns `None` if the stream has already ended on this side.
    fn find(&self, kind: Kind, id: u32) -> Result<Option<Arc<Stream>>, TunnelProtocolError> {
        let table = lock(&self.table);
        if let Some(stream) = table.streams.get(&id) {
            return Ok(Some(Arc::clone(stream)));
        }
        let last = match self.side.owns(id) {
            true => table.last_ours,
            false => table.last_theirs,
        };
        match 0 < id && id <= last {
            true => Ok(None),
            false => Err(TunnelProtocolError::UnknownStream {
                kind: kind.name(),
                id,
            }),
        }
    }

    fn handle(self: &Arc<Self>, event: Event<'_>) -> Result<(), TunnelProtocolError> {
        let find = |kind, id| self.find(kind, id);
        match event {
            Event::Open { id, target } => self.opened_by_peer(id, target)?,
            Event::Data { id, bytes } => {
                if let Some(stream) = find(Kind::Data, id)?
                    && let Some(grant) = stream.deliver(bytes)?
                {
                    self.grant(id, grant);
                }
            }
            Event::Opened { id } => find(Kind::Opened, id)?.map_or(Ok(()), |it| it.accept())?,
            Event::Refused { id, reason } => {
                if let Some(stream) = find(Kind::Refused, id)? {
                    stream.refuse()?;
                    warn!(
                        "reset a connection to {}: the far side refused it: {}",
                        stream.target,
                        reason.escape_debug()
                    );
                }
            }
            Event::Credit { id, bytes } => {
                find(Kind::Credit, id)?.map_or(Ok(()), |it| it.add_credit(bytes))?;
            }
            Event::End { id } => find(Kind::End, id)?.map_or(Ok(()), |it| it.end())?,
            Event::Reset { id } => {
                if let Some(stream) = find(Kind::Reset, id)? {
                    stream.abort(Abort::ByPeer);
                }
            }
            Event::Ping => {}
        }
        Ok(())
    }

    fn opened_by_peer(self: &Arc<Self>, id: u32, text: &str) -> Result<(), TunnelProtocolError> {
        let mut table = lock(&self.table);
        let last = table.last_theirs;
        if self.side.owns(id) || id <= last {
            return Err(TunnelProtocolError::StreamId {
                parity: self.side.peer_parity(),
                last,
                found: id,
            });
        }
        table.last_theirs = id;
        let target = (text.parse().ok()).filter(|target| self.config.allow.contains(target));
        let reason = match target {
            None => "this target is not allowed",
            Some(_) if table.streams.len() >= self.config.max_streams => {
                "too many streams on this link"
            }
            Some(target) => {
                let stream = Stream::new(id, target, false, None, &self.memory);
                table.streams.insert(id, Arc::clone(&stream));
                tokio::spawn(pump::accept(Arc::clone(self), stream));
                return Ok(());
            }
        };
        drop(table);
        warn!("refused a connection to {}: {reason}", text.escape_debug());
        self.answer(Kind::Refused, id, reason);
        Ok(())
    }

    /// Reads frames until an error.
    async fn read(self: &Arc<Self>, mut reader: LinkReader) -> TunnelError {
        let mut buffer = vec![0; READ_BUFFER];
        let mut decoder = Decoder::default();
        loop {
            let mut input: &[u8] = match reader.read(&mut buffer).await {
                Ok(0) => return TunnelError::ClosedByPeer,
                Ok(len) => &buffer[..len],
                Err(error) => return TransportError::from_io(error).into(),
            };
            self.received_ms.store(self.now_ms(), Relaxed);
            loop {
                match decoder.next(&mut input) {
                    Ok(Some(event)) => {
                        if let Err(error) = self.handle(event) {
                            return error.into();
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return error,
                }
            }
            let waiting = lock(&self.answers).len();
            if waiting > MAX_ANSWERS {
                return TunnelProtocolError::TooManyAnswers { max: MAX_ANSWERS }.into();
            }
            // On a single-threaded runtime, the task that sends answers and credit would otherwise
            // not run while the link has more bytes to read.
            if waiting > 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Sends the answers, and keep-alives on an idle link.
    async fn send_answers(&self) -> io::Error {
        let mut frames = Vec::new();
        loop {
            // The first iteration sends only the magic and the version, without a frame.
            if let Err(error) = self.sender.send(&frames).await {
                return error;
            }
            self.note_sent();
            frames.clear();
            while frames.is_empty() {
                let idle = Duration::from_millis(self.sent_ms.load(Relaxed));
                let ping_at = self.started + idle + self.config.keep_alive;
                tokio::select! {
                    () = self.answers_wake.notified() => {}
                    () = sleep_until(ping_at) => {}
                }
                std::mem::swap(&mut frames, &mut lock(&self.answers));
                let sent_at = self.sent_ms.load(Relaxed);
                let keep_alive = self.config.keep_alive.as_millis();
                if frames.is_empty() && u128::from(self.now_ms() - sent_at) >= keep_alive {
                    frame::put(&mut frames, Kind::Ping, 0, "");
                }
            }
        }
    }

    /// Waits until nothing has arrived for the idle timeout.
    async fn watch(&self) -> TunnelError {
        loop {
            let last = self.started + Duration::from_millis(self.received_ms.load(Relaxed));
            let end = last + self.config.idle_timeout;
            if Instant::now() >= end {
                return TunnelError::Silent {
                    seconds: self.config.idle_timeout.as_secs(),
                };
            }
            sleep_until(end).await;
        }
    }
}

/// Runs a tunnel to its end. Returns `Ok` if this side closed it.
pub(crate) async fn run(shared: Arc<Shared>, reader: LinkReader) -> Result<(), TunnelError> {
    let answering = {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let error = shared.until_closed(shared.send_answers()).await;
            error.into_iter().for_each(|error| shared.fail(error));
        })
    };
    let reading = {
        let shared = Arc::clone(&shared);
        async move { shared.read(reader).await }
    };
    tokio::pin!(reading);
    let result = tokio::select! {
        biased;
        () = shared.close.notified() => Ok(()),
        error = &mut reading => Err(error),
        () = shared.failed.notified() => match timeout(REASON_TIME, &mut reading).await {
            Ok(error) => Err(error),
            Err(_) => {
                let error = lock(&shared.failure).take();
                let error = error.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
                Err(TransportError::from_io(error).into())
            }
        },
        error = shared.watch() => Err(error),
    };
    // Each task drops its stream and its local connection, which resets the connection.
    shared.is_closed.send_replace(true);
    {
        let mut table = lock(&shared.table);
        table.is_closed = true;
        table.streams.clear();
    }
    shared.sender.close().await;
    answering.abort();
    result
}
