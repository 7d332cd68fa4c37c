//! Reliable, encrypted delivery of a byte stream over UDP, as a state machine without sockets or
//! clocks.
//!
//! A [`RudpConnection`] is one end. Its inputs and outputs are datagrams, points in time and bytes
//! of the stream. An [`Acceptor`] creates the connections of a listener. Properties of the
//! protocol:
//!
//! - A TLS 1.3 handshake ([`Tls`]), carried in packets of this protocol, takes one round trip. It
//!   includes a train of packets in each direction that measures the path, so that data start at
//!   the rate of the path ([`estimate`]).
//! - Lost data are recovered by forward error correction where that is cheaper than a round trip
//!   ([`fec`]), and otherwise by retransmission.
//! - The default rate controller does not treat random loss as congestion ([`rate`]).
//!
//! docs/rudp.md describes the packets. The modules, from the bottom up:
//!
//! | module | contents |
//! | --- | --- |
//! | `time` | points in time, passed in by the caller |
//! | `wire`, `frame` | fields and frames of a packet |
//! | `keys`, `seal`, `replay` | key derivation; packet encryption; duplicate detection |
//! | `ranges`, `buffer` | sets of ranges of numbers; sparse buffers |
//! | `send_stream`, `recv_stream` | unacknowledged data; data out of order |
//! | `sent`, `rtt` | packets in flight and loss detection; the round-trip time |
//! | `ack` | received packet numbers and the timing of acknowledgements |
//! | `flow` | flow control |
//! | `mtu` | path MTU discovery |
//! | `pacer` | pacing of packets |
//! | `redundancy`, `protection` | blocks and their parity symbols; the number of parity symbols |
//! | `handshake` | TLS messages in packets, flights and their copies, tokens, the acceptor |
//! | `trains` | trains of packets and reports on them |
//! | `connection` | the connection, which combines all of these |
//! | [`rate`] | rate controllers |
//! | [`fec`] | forward error correction |
//! | [`estimate`] | the rate of a path, estimated from the arrivals of a train |
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

pub use config::{FecPolicy, Reliability, RudpConfig};
pub use connection::{Read, RudpConnection, Transmit};
pub use event::{ClosedReason, RudpEvent, Violation};
pub use handshake::{
    AcceptContext, AcceptLimits, AcceptResult, Acceptor, Alert, BeginTls, DataSecret,
    EXPORTER_LABEL, Entropy, HandshakeKeys, Id, PacketKey, PlaintextAgreement, PlaintextTls,
    TAG_BYTES, Tls, VERSION, is_set_up, receiver,
};
pub use keys::{Cipher, EndpointSide, KeyError, PacketKeys};
pub use seal::is_packet;
pub use stats::{SendLimit, Stats, TrainResult};
pub use time::Time;
