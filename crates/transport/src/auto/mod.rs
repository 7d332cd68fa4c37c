//! A listener that offers several transports at one address, and a connector that measures the path
//! and then chooses one of them.
//!
//! An [`AutoListener`] has a TCP port and a UDP port of the same number. A connector opens all
//! connections at once ([`race()`]): one on the TCP port, and one of each protocol on the UDP port.
//! Each connection measures the path during its set-up, and each can become the link. The connector
//! sends the choice in the first bytes on a connection and continues with the link's data. So the
//! choice costs no round trip. The connector closes the other connections. A [`Policy`] makes the
//! choice.
//!
//! The transports come from a [`Registry`](crate::Registry). The module `table` lists their
//! candidates. A candidate (`candidate`) opens one kind of connection, converts it to the link, and
//! listens for connections of this kind. A transport that does not share the two ports has a
//! separate port (`own_port`). The offer contains the port number, so the connector connects to
//! this port after it has received the offer.
//!
//! docs/protocol.md, "Agreement on the transport", specifies the bytes and the times, and
//! docs/security.md lists attacks.
//!
//! ```no_run
//! # use transpute_transport::Security;
//! # async fn example(security: Security) -> Result<(), Box<dyn std::error::Error>> {
//! use transpute_transport::auto::{self, AutoOptions, Pick, Policy, RaceProgress};
//!
//! struct FastPathsOverRudp;
//!
//! impl Policy for FastPathsOverRudp {
//!     fn decide(&self, progress: &RaceProgress) -> Option<Pick> {
//!         let rate = progress.stage("rudp").up()?.path.sent_train?.rate?;
//!         (rate > 1_000_000).then(|| Pick::from("rudp"))
//!     }
//! }
//!
//! let options = AutoOptions::default();
//! let won = auto::race("203.0.113.7:7700", &security, options, &FastPathsOverRudp).await?;
//! println!("{} after {:?}", won.pick, won.progress.elapsed);
//! # Ok(())
//! # }
//! ```

pub(crate) mod candidate;
mod listener;
pub(crate) mod message;
mod offer;
mod options;
mod own_port;
mod pick;
mod policy;
mod race;
mod table;

#[doc(hidden)]
pub use self::candidate::SharedPort;
pub use self::{
    candidate::SetupReport,
    listener::AutoListener,
    offer::Offer,
    options::AutoOptions,
    pick::{Accepted, Pick},
    policy::{Attempt, Policy, RaceProgress, Stage},
    race::{Won, probe, probe_among, race, race_among},
};

/// The transport name that `auto` uses in ALPN.
pub(crate) const NAME: &str = "auto";
