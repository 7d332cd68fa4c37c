//! Two connections, joined by an emulated path under a virtual clock.

mod adversary;
mod golden;
mod grid;
mod random;
mod sim;
mod speed;
mod survive;
