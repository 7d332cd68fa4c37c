//! A [`Path`] has no clock, no threads and no sockets. Times are nanoseconds since the path was
//! created, passed in by the caller: [`crate::lab`] passes real times, tests pass virtual ones. The
//! same configuration, seed and packets at the same times give the same result, packet for packet.

mod bottleneck;
mod counters;
mod loss;
mod path;
mod random;

pub use counters::PathCounters;
pub use path::{MAX_HELD_BYTES, Path};
pub use random::derive_seed;
