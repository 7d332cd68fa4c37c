//! Several transports at one address, of which the connector picks one when it has seen the path.
//!
//! An [`AutoListener`] has a TCP port and a UDP port of the same number. A connector opens everything at once
//! ([`Candidates`]): a *control connection* over TCP, a QUIC connection, and reliable UDP, whose keys come from the control
//! connection. Each of them tells something about the path when it comes up, and each can become the link: the connector
//! says so in the first bytes on it and goes on with what the link is for. So picking one costs no round trip, and what was
//! not picked is closed. Which one is better is not decided here.
//!
//! | becomes the link | round trips until it is there |
//! | --- | --- |
//! | `quic` | 1 |
//! | `tcp` | 2 |
//! | `tcp-striped` | 2, with further connections 3 later |
//! | `rudp` | 3 |
//!
//! The listener says which transports it allows in the extension of a certificate, and in plaintext right behind the
//! preamble, so that the connector has it when the control connection or that of QUIC is there.
//!
//! With TLS, either side may also use one of these transports by its name. ALPN selects that name, nothing is said about a
//! choice, and the connection is set up as that transport's own.
//!
//! docs/protocol.md, "Agreement on the transport", has the bytes, and docs/security.md what an attacker can do.
//!
//! ```no_run
//! # async fn example(security: transpute_transport::Security) -> Result<(), Box<dyn std::error::Error>> {
//! use transpute_transport::auto::{AutoListener, AutoOptions, Candidates, Offer, Pick};
//!
//! let options = AutoOptions::default();
//! let mut listener = AutoListener::bind("0.0.0.0:7700", &security, Offer::all(), options).await?;
//! let accepted = listener.next().await?;
//! println!("the peer picked {}", accepted.pick);
//!
//! // And on the other side:
//! let candidates = Candidates::connect("203.0.113.7:7700", &security, options)?;
//! let control = candidates.control().await?;
//! let pick: Pick = match candidates.rudp().await {
//!     Ok(rudp) if rudp.up.is_some_and(|train| train.rate > Some(1_000_000)) => Pick::Rudp,
//!     _ => "tcp:cc=bbr".parse()?,
//! };
//! println!("a round trip takes {:?}: {pick}", control.rtt());
//! let link = candidates.pick(&pick, Vec::new()).await?;
//! # Ok(())
//! # }
//! ```

mod answered;
mod candidates;
mod control;
mod listener;
mod offer;
mod options;
mod pick;
mod policy;
mod report;
mod slot;
mod words;

pub use self::{
    candidates::{Candidates, Unpicked},
    listener::{Accepted, AutoListener},
    offer::Offer,
    options::AutoOptions,
    pick::Pick,
    policy::{Decision, Policy, Progress, Stage},
    report::{ControlReport, QuicReport, RudpReport, TrainReport},
};
use crate::TransportError;

/// The name of this protocol in ALPN.
const NAME: &str = "auto";

/// How long a message of the layer above may be, in bytes.
const MAX_BLOB: usize = 1024;

fn checked(blob: Vec<u8>) -> Result<Vec<u8>, TransportError> {
    if blob.len() > MAX_BLOB {
        return Err(TransportError::TooLong {
            got: blob.len(),
            limit: MAX_BLOB,
        });
    }
    Ok(blob)
}
