//! Garbling schemes as streaming state machines without I/O.
//!
//! * [`Garbler`] turns a [`Program`](transpute_circuit::Program) into garbled tables, chunk by
//!   chunk; [`Evaluator`] turns chunks and input labels into output labels. Each holds only the
//!   labels of the live wires.
//! * [`Scheme`] selects the garbling scheme, [`Params`] are the public parameters that both parties
//!   share, and [`Seed`] is the garbler's secret.
//! * [`Backend`] is the AES implementation, selected at run time; all back ends produce the same
//!   bytes.
//! * [`GarbledOutputs`], [`EvaluatedOutputs`] and [`DecodeInfo`] decode and check the outputs.
//! * [`ChunkPlan`] computes the length of every chunk in advance.
//! * [`ReadOrder`] is the order in which labels of the evaluator's inputs are transferred and read.
//!
//! [`Garbler`] has an example of both parties.
//!
//! # Security
//! An evaluator that holds one label of each input, even a malicious one, learns only the output
//! and can claim no other output. This requires oblivious transfer that is secure against a
//! malicious receiver: a receiver that learns the offset knows every input and can forge every
//! output. An evaluator is not protected from a garbler that garbles another circuit.
//!
//! Running time and memory accesses do not depend on secret values. They depend on the structure of
//! the program, which both parties know.
//!
//! Every gate of every instance has its own tweak. Tweaks are a counter that starts at 0 with a
//! fresh [`Seed`] and fresh [`Params`] and only increases; a garbler rejects more than 2^56 tweaks.
//!
//! # Input labels
//! Secret values are AES-256 blocks under the seed. Under free XOR, the active labels of the
//! garbler's inputs are AES-128 blocks under [`Params::input_seed`]. Both parties compute them, so
//! those inputs need no communication. An input block has the instance in bytes 0-7, the position
//! among the party's input bits in bytes 8-11 and a domain separator in byte 15.
//!
//! Labels of the evaluator's inputs may instead come from correlated oblivious transfer
//! ([`Garbler::adopt`]). They are transferred and read in the order of [`ReadOrder`].

#![deny(unsafe_code)]

mod backend;
#[cfg(feature = "ceiling")]
#[doc(hidden)]
pub mod ceiling;
mod chunk;
mod dispatch;
mod engine;
mod error;
mod evaluator;
mod execution;
mod expand;
mod garbler;
mod inputs;
mod kernel;
mod label;
mod output_check;
mod outputs;
mod read_order;
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
pub use read_order::ReadOrder;
pub use scheme::{Params, Scheme};
pub use seed::Seed;
