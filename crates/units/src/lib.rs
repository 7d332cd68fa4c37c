//! Units and what is known of a path: the types that transports, the protocol and the selection
//! share.
//!
//! A rate is a [`Bandwidth`], so that no caller multiplies or divides by 8. A [`KnownPath`] has
//! round-trip time, rates, losses and queues of a path as one party sees it; what is not known is
//! `None`.
//!
//! This crate depends on no other crate, opens no sockets and reads no clock.
#![forbid(unsafe_code)]

mod bandwidth;
mod loss;
mod path;
mod path_class;

pub use bandwidth::Bandwidth;
pub use loss::Loss;
pub use path::{KnownDirection, KnownPath};
pub use path_class::PathClass;
