//! Two connections, joined by an emulated path under a virtual clock.

mod grid;
mod random;
mod sim;
mod survive;
