//! Integration tests of garbler and evaluator.

mod adversarial;
mod chunks;
mod circuits;
mod common;
mod read_order;
mod side_by_side;
mod transcripts;
mod uniformity;
