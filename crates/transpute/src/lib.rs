//! Two parties compute a function of their private inputs.
//!
//! One party is the *garbler*, the other the *evaluator*. Each holds some input values of a Boolean
//! circuit. One or both learn the outputs of the circuit, and nothing else about the other's
//! inputs. Either of them may be the one that listens.
//!
//! # Examples
//! ```
//! use transpute::{Bits, Builder, Identity, Party, UInt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Who is richer? Input value 0 is the garbler's, input value 1 the evaluator's.
//! let circuit = Builder::build(|b| {
//!     let garbler = b.input::<UInt<32>>();
//!     let evaluator = b.input::<UInt<32>>();
//!     b.output(garbler.gt(&evaluator));
//! })?;
//! let (alice, bob) = (Identity::generate()?, Identity::generate()?);
//! let (alice_is, bob_is) = (alice.fingerprint(), bob.fingerprint());
//!
//! // In practice, the two parties are two programs on two machines.
//! let listening = Party::garbler(&circuit)
//!     .identity(alice)
//!     .peer(bob_is)
//!     .listen("127.0.0.1:0")
//!     .await?;
//! let address = listening.local_address();
//! let garbler = listening.run(Bits::from_u128(1_000_000, 32));
//! let evaluator = async {
//!     Party::evaluator(&circuit)
//!         .identity(bob)
//!         .peer(alice_is)
//!         .connect(address)
//!         .run(Bits::from_u128(999_999, 32))
//!         .await
//! };
//! let (garbler, evaluator) = tokio::join!(garbler, evaluator);
//! assert_eq!(evaluator?.bits().to_string(), "1");
//! garbler?;
//! # Ok(())
//! # }
//! ```
//!
//! # Settings
//! Structs of settings, such as [`Config`], may get more fields in later versions. Programs start
//! from `default` or `new`, and assign the fields that differ:
//!
//! ```
//! let mut config = transpute::Config::default();
//! config.batch = 8;
//! ```
//!
//! # Security
//! The garbler's inputs and the authenticity of the output are protected against a **malicious**
//! evaluator. The evaluator's inputs are protected only against a **semi-honest** garbler, which
//! follows the protocol and tries to learn from what it sees. The protocols are published. This
//! implementation has not been audited. See `docs/security.md`.
#![forbid(unsafe_code)]

#[cfg(feature = "auto")]
pub mod auto;
mod choice;
mod connection;
mod error;
mod known;
mod listening;
mod party;
mod path_watch;
mod result;
mod scheme;
mod selection;
pub mod serve;
pub mod workload;

pub use choice::{TransportChoice, registry};
pub use connection::{Connection, Outcome, Prepared};
pub use error::Error;
pub use listening::Listening;
pub use party::{Connecting, Party};
pub use path_watch::PathReport;
pub use result::{Evaluation, Report, Results};
pub use selection::Selection;

pub use transpute_circuit::{Bits, Builder, Circuit, CircuitError, InputSplit, Program, UInt};
pub use transpute_garble::Scheme;
pub use transpute_session::{
    Config, InputError, Inputs, Milestone, OutputPolicy, Progress, Role, SchemeSet, SessionError,
};
pub use transpute_transport::{
    Fingerprint, Identity, IdentityError, Registry, Transport, TransportError,
};

/// Circuits: a builder, generators, and circuit files.
pub use transpute_circuit as circuit;
/// The driver, which runs the two-party protocol over a link with Tokio.
pub use transpute_driver as driver;
/// Garbling schemes, for applications with their own protocol.
pub use transpute_garble as garble;
/// Oblivious transfer, for applications with their own protocol.
pub use transpute_ot as ot;
/// The choice of a transport by its predicted time.
pub use transpute_select as select;
/// The two-party protocol as a state machine.
pub use transpute_session as session;
/// Transports, and the traits for adding one.
pub use transpute_transport as transport;

/// Compiles and runs the programs in the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
