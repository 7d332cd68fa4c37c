//! Several transports at one address, of which the connector picks one when it has seen the path.
//!
//! An [`AutoListener`] has a TCP port and a UDP port of the same number. A connector opens everything at once ([`race()`]): a
//! TCP connection, a QUIC connection and reliable UDP. Each of them tells something about the path when it comes up, and each
//! can become the link: the connector says so in the first bytes on it and goes on with what the link is for. So picking one
//! costs no round trip, and what was not picked is closed. Which one is better is decided by a [`Policy`].
//!
//! | becomes the link | round trips until it is up |
//! | --- | --- |
//! | `quic`, `rudp` | 1 |
//! | `tcp` | 2 |
//! | `tcp-striped` | 2, with further connections 2 later |
//!
//! The listener names the transports that it allows in the extension of a certificate, and in plaintext right behind the
//! preamble or in the hello of `rudp`, so that the connector has the offer when the first connection is up.
//!
//! With TLS, either side may also use one of these transports by its name. ALPN selects that name, no choice is sent, and the
//! connection is set up as that transport's own.
//!
//! docs/protocol.md, "Agreement on the transport", has the bytes, and docs/security.md what an attacker can do.
//!
//! ```no_run
//! # async fn example(security: transpute_transport::Security) -> Result<(), Box<dyn std::error::Error>> {
//! use transpute_transport::auto::{self, AutoListener, AutoOptions, Decision, Offer, Pick, Policy, Progress};
//!
//! let options = AutoOptions::default();
//! let mut listener = AutoListener::bind("0.0.0.0:7700", &security, Offer::all(), options).await?;
//! let accepted = listener.next().await?;
//! println!("the peer picked {}", accepted.pick);
//!
//! // And on the other side:
//! struct FastPathsOverRudp;
//!
//! impl Policy for FastPathsOverRudp {
//!     fn decide(&self, progress: &Progress) -> Decision {
//!         let train = progress.rudp.up().and_then(|report| report.up);
//!         match train.and_then(|train| train.rate) {
//!             Some(rate) if rate > 1_000_000 => Decision::Pick(Pick::Rudp),
//!             _ => Decision::Wait,
//!         }
//!     }
//! }
//!
//! let won = auto::race("203.0.113.7:7700", &security, options, &FastPathsOverRudp).await?;
//! println!("{} after {:?}", won.pick, won.progress.elapsed);
//! # Ok(())
//! # }
//! ```

mod handler;
mod listener;
mod message;
mod offer;
mod options;
mod pick;
mod policy;
mod race;
mod report;

pub use self::{
    listener::{Accepted, AutoListener},
    offer::Offer,
    options::{AutoOptions, Connections},
    pick::Pick,
    policy::{Decision, Policy, Progress, Stage},
    race::{Won, probe, race},
    report::{ControlReport, QuicReport, RudpReport, TrainReport},
};

/// The name of this protocol in ALPN.
const NAME: &str = "auto";
