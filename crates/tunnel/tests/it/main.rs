//! Tests of tunnels over real sockets on loopback, and against a peer that breaks the protocol.

mod echo;
mod ends;
mod flow;
mod harness;
mod hostile;
