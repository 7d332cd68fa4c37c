//! A one-way path as a pure state machine: packets and times in, packets and times out.
//!
//! ```text
//! enqueue -> loss -> size -> duplication -> queue -> bottleneck -> delay + jitter -> reordering -> dequeue
//! ```
//!
//! A [`Path`] has no clock, no threads and no sockets. Times are nanoseconds since the path came
//! up, passed in by the caller: [`crate::lab`] passes real ones, tests pass virtual ones. The same
//! configuration, seed and packets at the same times give the same result, packet for packet.

mod bottleneck;
mod counters;
mod loss;
mod path;
mod random;

pub use counters::PathCounters;
pub use path::{MAX_HELD_BYTES, Path};
pub use random::derive_seed;
