//! The messages by which the two sides control a transfer.
//!
//! A message is the length of its JSON text (4 bytes, little-endian), and then the JSON text. The
//! connecting side sends first:
//!
//! | task | connecting side | listening side |
//! | --- | --- | --- |
//! | up | `Request`, the bytes; `Done` at the end | `Done` after the last byte |
//! | down | `Request`; `Done` after the last byte | `Ready`, the bytes; `Done` at the end |
//! | ping-pong | `Request`, a byte each round; `Done` | `Ready`, the byte back; `Done` |

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute::transport::{LinkReader, LinkStats, LinkWriter};
use transpute::{TransportError, transport::LinkInfo};

use super::{measure::Clock, transfer::Arrival};
use crate::failure::{Failure, FailureKind};

/// Version of the messages.
pub(super) const VERSION: u32 = 1;

/// Maximum length of a message in bytes. Messages of this program are shorter than 2 KiB.
const MAX_MESSAGE: usize = 16 << 10;

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Task {
    /// Bytes go from the connecting to the listening side.
    Up,
    /// Bytes go from the listening to the connecting side.
    Down,
    /// One byte in each direction, many times.
    PingPong,
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Request {
    pub(super) version: u32,
    pub(super) task: Task,
    /// Number of bytes or round trips.
    pub(super) amount: u64,
    /// Seed of the pattern of the transferred bytes.
    pub(super) seed: u64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    /// The listening side rejects the request. The text is the reason.
    Refused(String),
    /// The transfer begins.
    Ready,
    /// The transfer has ended for the side that sends this message. The message contains the
    /// measurements of that side.
    Done(Box<Side>),
}

/// The measurements of a transfer by one side.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Side {
    pub(super) clock: Clock,
    /// Start of connecting. `None` on the listening side. All times are in nanoseconds since 1970.
    pub(super) started_ns: Option<u64>,
    pub(super) established_ns: u64,
    pub(super) first_byte_ns: Option<u64>,
    pub(super) last_byte_ns: Option<u64>,
    /// Time at which the other side's receipt arrived, which reports that it has the last byte.
    pub(super) receipt_ns: Option<u64>,
    /// The problem of the received data, such as a wrong byte. `None` if the data are correct.
    pub(super) problem: Option<String>,
    pub(super) cpu_seconds: Option<f64>,
    /// True if the process did other transfers at the same time. `cpu_seconds` includes them.
    pub(super) cpu_is_shared: bool,
    pub(super) cipher: Option<String>,
    pub(super) path: Path,
}

/// The path measurements of one side's transport.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Path {
    pub(super) rtt_ms: Option<f64>,
    pub(super) min_rtt_ms: Option<f64>,
    pub(super) bytes_sent: Option<u64>,
    pub(super) bytes_retransmitted: Option<u64>,
    #[serde(default)]
    pub(super) bytes_of_correction: Option<u64>,
    #[serde(default)]
    pub(super) overhead: Option<f64>,
    pub(super) bytes_received: Option<u64>,
    pub(super) packets_sent: Option<u64>,
    pub(super) packets_retransmitted: Option<u64>,
    #[serde(default)]
    pub(super) packets_lost: Option<u64>,
    #[serde(default)]
    pub(super) spurious_losses: Option<u64>,
    pub(super) congestion_window: Option<u64>,
    pub(super) congestion_control: Option<String>,
    pub(super) bottleneck: Option<String>,
    pub(super) receiver_limited_seconds: Option<f64>,
    pub(super) send_buffer_limited_seconds: Option<f64>,
    pub(super) busy_seconds: Option<f64>,
}

impl Path {
    pub(super) fn of(stats: &LinkStats) -> Self {
        let path = stats.path();
        let millis = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let times = path.send_times;
        Self {
            rtt_ms: path.rtt.map(millis),
            min_rtt_ms: path.min_rtt.map(millis),
            bytes_sent: path.wire_bytes_sent,
            bytes_retransmitted: path.wire_bytes_retransmitted,
            bytes_of_correction: path.wire_bytes_parity,
            overhead: path.overhead,
            bytes_received: path.wire_bytes_received,
            packets_sent: path.packets_sent,
            packets_retransmitted: path.retransmits,
            packets_lost: path.packets_lost,
            spurious_losses: path.spurious_losses,
            congestion_window: path.congestion_window,
            congestion_control: path.congestion_control,
            bottleneck: times.and_then(|times| Some(times.bottleneck()?.to_string())),
            receiver_limited_seconds: times.map(|times| times.by_receiver.as_secs_f64()),
            send_buffer_limited_seconds: times.map(|times| times.by_send_buffer.as_secs_f64()),
            busy_seconds: times.map(|times| times.busy.as_secs_f64()),
        }
    }
}

impl Side {
    /// Records the arrival of bytes, and the result of their check.
    pub(super) fn received(&mut self, arrival: Arrival) {
        self.first_byte_ns = Some(arrival.first_ns);
        self.last_byte_ns = Some(arrival.last_ns);
        self.problem = arrival.problem;
    }

    pub(super) fn of(info: &LinkInfo, established_ns: u64) -> Self {
        Self {
            clock: Clock::here(),
            established_ns,
            cipher: info.cipher.clone(),
            ..Self::default()
        }
    }
}

/// Writes a message, without flushing.
pub(super) async fn put(writer: &mut LinkWriter, message: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_vec(message)
        .map_err(|error| Failure::other("cannot write a message").because(error))?;
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
    let written = async {
        writer.write_all(&length).await?;
        writer.write_all(&text).await
    };
    (written.await).map_err(|error| super::on_link(TransportError::from_io(error)))
}

/// Reads a message.
pub(super) async fn get<T: DeserializeOwned>(reader: &mut LinkReader) -> Result<T, Failure> {
    let lost = |error| super::on_link(TransportError::from_io(error));
    let mut length = [0; 4];
    reader.read_exact(&mut length).await.map_err(lost)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE {
        return Err(nonsense());
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text).await.map_err(lost)?;
    serde_json::from_slice(&text).map_err(|error| nonsense().because(error))
}

pub(super) fn nonsense() -> Failure {
    Failure::new(
        FailureKind::Protocol,
        "the peer does not speak the protocol of `transpute link`",
    )
}
