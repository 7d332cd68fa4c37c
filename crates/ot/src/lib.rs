//! Oblivious transfer as message-driven state machines, secure against malicious parties.
//!
//! There is no I/O: every step takes and returns bytes. 128-bit strings are `u128`, which are 16
//! little-endian bytes on the wire.
//!
//! * [`BaseReceiver`] and [`BaseSender`] are public-key OT in one round. They suffice for a few
//!   hundred OTs; [`mask_pair`] and [`unmask_pair`] transfer chosen messages.
//! * With the feature `ml-kem`, `KemReceiver` and `KemSender` are base OT over ML-KEM-768, which is
//!   secure against quantum computers. Messages are larger, and the sender must wait for the
//!   receiver's message.
//! * [`AnyReceiver`] and [`AnySender`] use one of these two kinds, selected by a [`BaseOt`].
//! * [`CotSender`] and [`CotReceiver`] are OT extension. They derive any number of *correlated* OTs
//!   `t = q ^ x * delta` from 128 base OTs, in segments of at most [`SEGMENT_OTS`]. [`Extension`]
//!   selects the trade-off between communication and computation. A consistency check detects a
//!   malicious receiver before its segment is used.
//! * [`MaskHash`] is chosen-message OT from correlated OT.
//!
//! The roles of base OT and extension are reversed: the *sender* of the extension is the receiver
//! of the base OTs, with the bits of its offset `delta` as choices (see [`delta_choices`]).
//!
//! # Examples
//! ```
//! use rand::rngs::{SysRng, StdRng};
//! use rand::SeedableRng;
//! use sha2::{Digest, Sha256};
//! use transpute_ot::{
//!     BASE_COUNT, BaseReceiver, BaseSender, CotReceiver, CotSender, Extension, delta_choices,
//! };
//!
//! let mut rng = StdRng::try_from_rng(&mut SysRng)?;
//! let (delta, sid, nonce) = (0x1234_5678_9abc_def1_u128, [7; 32], [1; 32]);
//!
//! // One round of base OTs; both messages may be under way at the same time.
//! let (receiver, to_sender) = BaseReceiver::start(&*delta_choices(delta), &nonce, &mut rng);
//! let (sender, to_receiver) = BaseSender::start(&mut rng);
//! let keys = receiver.finish(&sid, &to_receiver)?;
//! let pairs = sender.finish(&sid, &nonce, &to_sender, BASE_COUNT)?;
//!
//! let kind = Extension::SoftSpoken4;
//! let mut garbler = CotSender::new(kind, delta, &keys, &sid);
//! let (mut evaluator, setup) = CotReceiver::new(kind, &pairs, &sid);
//! garbler.setup(&setup)?;
//!
//! // Three OTs with choices 1, 0, 1. Both parties hash what the evaluator has sent.
//! let transcript = |corrections: &[u8]| {
//!     let hash = Sha256::new().chain_update(&to_receiver).chain_update(&setup);
//!     <[u8; 32]>::from(hash.chain_update(corrections).finalize())
//! };
//! let (mut corrections, mut check, mut t) = (Vec::new(), Vec::new(), Vec::new());
//! let segment = evaluator.extend(&[0b101], 3, &mut rng, &mut corrections);
//! segment.prove(&transcript(&corrections), &mut check, &mut t);
//!
//! let unchecked = garbler.extend(3, &corrections, &transcript(&corrections))?;
//! let q = garbler.check(unchecked, &check)?;
//! assert_eq!(t, [q[0] ^ delta, q[1], q[2] ^ delta]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Only the SIMD kernels in `pmull`, `wide` and `base::lanes` contain unsafe code.
#![deny(unsafe_code)]

mod base;
mod check;
mod cipher;
mod cot;
mod dispatch;
mod error;
mod extension;
mod fold;
mod gf128;
mod mask;
#[cfg(target_arch = "aarch64")]
mod pmull;
mod prg;
mod transpose;
mod tree;
#[cfg(target_arch = "x86_64")]
mod wide;

pub use base::{
    AnyReceiver, AnySender, BASE_COUNT, BASE_SENDER_LEN, BaseOt, BaseOtKeys, BaseReceiver,
    BaseSender, base_receiver_len, delta_choices,
};
#[cfg(feature = "ml-kem")]
pub use base::{KemAnswer, KemReceiver, KemSender, kem_receiver_len, kem_sender_len};
pub use check::{CheckedRows, UncheckedRows};
pub use cot::{CotReceiver, CotSender, OpenSegment};
pub use error::OtError;
pub use extension::{BLOCK_OTS, Extension, SEGMENT_OTS};
pub use mask::{MAX_INDEX, MaskHash, mask_pair, unmask_pair};
