//! Units and known properties of paths, shared by transports, the protocol and the selection.
//!
//! A rate is a [`Bandwidth`], so that no caller multiplies or divides by 8. A [`KnownPath`] has the
//! round-trip time, rates, losses and queues of a path from the view of one party. Unknown
//! properties are `None`.
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
