//! Integration tests: two connections, joined by an emulated path under a virtual clock.

use transpute_rudp::{
    Alert, Cipher, DataSecret, EndpointSide, HandshakeKeys, PacketKey, TAG_BYTES, Tls,
};

mod admission;
mod adversary;
mod golden;
mod grid;
mod handshake;
mod link;
mod migration;
mod narrow;
mod random;
mod serving;
mod sim;
mod sleep;
mod speed;
mod survive;
#[path = "../../src/toy_tls.rs"]
mod toy_tls;
mod vanish;
