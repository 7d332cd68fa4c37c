//! Data rates, packet losses and other properties of paths. The crates of the transports, of the
//! protocol and of the selection share these types.
//!
//! A rate is a [`Bandwidth`], so that no caller has to convert between bits and bytes. A
//! [`KnownPath`] has the round-trip time, rates, losses and queues of a path from the view of one
//! party.
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
