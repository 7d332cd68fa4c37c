//! An emulated path as a state machine. A [`Path`] has no clock, no threads and no sockets. Times
//! are nanoseconds since the path was created, and the caller passes them in: [`crate::lab`] passes
//! real times, tests pass virtual ones. The same configuration, seed and packets at the same times
//! give the same result for every packet.

mod bottleneck;
mod counters;
mod loss;
mod path;
mod random;

pub use counters::PathCounters;
pub use path::{MAX_HELD_BYTES, Path};
pub use random::derive_seed;
