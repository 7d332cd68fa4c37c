//! Garbling schemes as streaming state machines: bytes in, bytes out, no I/O.
//!
//! * [`Garbler`] turns a [`Program`](transpute_circuit::Program) into garbled tables, chunk by
//!   chunk; [`Evaluator`] turns chunks and input labels into output labels. Neither holds more than
//!   the labels of the live wires.
//! * [`Scheme`] is the choice of gates, [`Params`] the public parameters both parties share,
//!   [`Seed`] the garbler's secret.
//! * [`Backend`] is the AES implementation, chosen at run time; all give the same bytes.
//! * [`GarbledOutputs`], [`EvaluatedOutputs`] and [`DecodeInfo`] are what happens to the outputs.
//! * [`ChunkPlan`] tells the length of every chunk before any arrives.
//!
//! # Security
//! An evaluator that holds one label of each input, even one that deviates, learns nothing but the
//! output and can claim no other output. This needs oblivious transfer that is secure against a
//! malicious receiver: one that learns the offset knows every input and can forge every output. It does not protect an evaluator from a garbler that garbles
//! another circuit. Nothing depends on secret values in time or memory access; the structure of the
//! program, which both parties know, does decide both.
//!
//! Every gate of every instance has its own tweak, a counter that starts at 0 with a fresh [`Seed`]
//! and fresh [`Params`] and never goes back; more than 2^56 tweaks are refused.
//!
//! # Input labels
//! Secret values are AES-256 blocks under the seed. Under free XOR the active labels of the
//! garbler's inputs are AES-128 blocks under [`Params::input_seed`], which both parties compute, so
//! those inputs cost nothing on the wire. Input blocks have the instance in bytes 0-7, the position
//! among the party's input bits in bytes 8-11 and a domain in byte 15. Labels of the evaluator's inputs may come from correlated
//! oblivious transfer instead ([`Garbler::adopt`]); they are read, and transferred, in the order of [`ReadOrder`].

#![deny(unsafe_code)]

mod backend;
#[cfg(feature = "ceiling")]
pub mod ceiling;
mod check;
mod chunk;
mod dispatch;
mod engine;
mod error;
mod evaluator;
mod expand;
mod frame;
mod garbler;
mod inputs;
mod kernel;
mod label;
mod outputs;
mod reads;
mod scheme;
mod seed;
mod slots;

pub use backend::Backend;
pub use chunk::{ChunkPlan, LANES, MIN_CHUNK_LIMIT, lanes, table_bytes};
pub use error::GarbleError;
pub use evaluator::Evaluator;
pub use garbler::Garbler;
pub use label::Label;
pub use outputs::{DecodeInfo, EvaluatedOutputs, GarbledOutputs, decode_len};
pub use reads::ReadOrder;
pub use scheme::{Params, Scheme};
pub use seed::Seed;
