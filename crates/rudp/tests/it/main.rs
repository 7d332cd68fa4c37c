//! Two connections, joined by an emulated path under a virtual clock.

mod adversary;
mod golden;
mod grid;
mod narrow;
mod random;
mod sim;
mod sleep;
mod speed;
mod survive;
mod vanish;
