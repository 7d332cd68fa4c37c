//! Integration tests, in one binary.

mod base;
mod common;
mod deviations;
mod extension;
mod kem;
mod mask;
mod throughput;
