//! Reliable, encrypted delivery of a byte stream over UDP, as a state machine without sockets or
//! clocks.
//!
//! A [`Connection`] is one end. It takes datagrams, times and bytes of the stream, and gives
//! datagrams, times and bytes. An [`Acceptor`] makes the connections of a listener. Properties of
//! the protocol:
//!
//! - A TLS 1.3 handshake in its own packets ([`Tls`]) sets a connection up in one round trip. It
//!   measures the path in both directions by trains of packets, so that data start at the rate of
//!   the path ([`estimate`]).
//! - Losses are corrected by redundancy where that is cheaper than a round trip ([`fec`]), and by
//!   retransmission in any case.
//! - Loss is not mistaken for congestion ([`rate`]).
//!
//! docs/rudp.md describes the packets. The modules, from the bottom up:
//!
//! | module | idea |
//! | --- | --- |
//! | `time` | moments, passed in by the caller |
//! | `wire`, `frame` | fields and frames of a packet |
//! | `keys`, `seal`, `replay` | derivation of keys; encryption of packets; each packet counts once |
//! | `ranges`, `buffer` | sets of numbers in runs; sparse buffers |
//! | `send_stream`, `recv_stream` | what is not acknowledged yet; what is not in order yet |
//! | `sent`, `rtt` | packets under way and their loss; the round-trip time |
//! | `ack` | what has come, and when to say so |
//! | `flow` | how far the other end may send |
//! | `mtu` | which packet size passes |
//! | `pacer` | spaces packets at a rate |
//! | `redundancy`, `protection` | blocks and their correction symbols; how many |
//! | `handshake` | the set-up: TLS messages in packets, flights and their copies, tokens, the acceptor |
//! | `trains` | trains of packets and reports on them |
//! | `connection` | all of them together |
//! | [`rate`] | how fast to send |
//! | [`fec`] | parity, so that what is lost need not be asked for |
//! | [`estimate`] | the rate of a path from how a train of packets arrives |
#![deny(unsafe_code)]

mod ack;
mod buffer;
mod config;
mod connection;
pub mod estimate;
mod event;
pub mod fec;
mod flow;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod keys;
mod mtu;
mod pacer;
mod protection;
mod ranges;
pub mod rate;
mod recv_stream;
mod redundancy;
mod replay;
mod rtt;
mod seal;
mod send_stream;
mod sent;
mod stats;
mod time;
#[cfg(any(test, feature = "fuzzing"))]
mod toy_tls;
mod trains;
mod wire;

pub use config::{Config, FecPolicy, Reliability};
pub use connection::{Connection, Read, Transmit};
pub use event::{ClosedReason, Event, Violation};
pub use handshake::{
    AcceptLimits, Accepting, Acceptor, Agreed, Alert, BeginTls, DataSecret, EXPORTER_LABEL,
    Entropy, HandshakeKeys, Id, Intake, PacketKey, PlaintextTls, TAG_BYTES, Tls, VERSION,
    is_set_up, receiver,
};
pub use keys::{Cipher, KeyError, Keys, Side};
pub use seal::is_packet;
pub use stats::{Limit, Stats, TrainResult};
pub use time::Time;
