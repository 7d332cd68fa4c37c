//! Tests over the public interface, one binary.

mod base;
mod common;
mod deviations;
mod extension;
mod kem;
mod mask;
mod throughput;
