//! Garbler and evaluator together, through their public interface.

mod circuits;
mod common;
mod cuts;
mod hostile;
mod reads;
mod side_by_side;
mod transcripts;
mod uniformity;
