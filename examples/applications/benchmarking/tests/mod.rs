//! Tests of the example: the circuit, the protocol with honest and misbehaving companies, and the
//! program.

mod adversarial;
mod function;
mod processes;
mod rounds;
mod setup;
