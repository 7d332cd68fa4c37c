//! Garbler and evaluator together, through their public interface.

mod circuits;
mod common;
mod hostile;
mod transcripts;
mod uniformity;
