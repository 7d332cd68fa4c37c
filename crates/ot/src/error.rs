//! Errors of oblivious transfer.

use crate::base::BaseOt;
use thiserror::Error;

/// The reason why a message of the peer, a call, or a name given by the user is rejected.
///
/// Every error ends the exchange in which it happened. Do not pass another message to the state
/// that returned it.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum OtError {
    /// A message does not have the length that follows from the agreed parameters.
    #[error("{message} has {found} bytes instead of {expected}")]
    WrongLength {
        /// The name of the message.
        message: &'static str,
        /// The length that follows from the parameters, in bytes.
        expected: usize,
        /// The length found, in bytes.
        found: usize,
    },
    /// A point is not a canonical Ristretto255 encoding.
    #[error("point {index} of {message} is not a canonical ristretto255 encoding")]
    InvalidPoint {
        /// The name of the message.
        message: &'static str,
        /// The index of the point in the message, from 0.
        index: usize,
    },
    /// A point would make a key independent of the secret scalar.
    #[error("point {index} of {message} is, or hashes to, the identity")]
    IdentityPoint {
        /// The name of the message.
        message: &'static str,
        /// The index of the point in the message, from 0.
        index: usize,
    },
    /// An element is not an encapsulation key of ML-KEM-768: a coefficient is not below 3329.
    #[error("element {index} of {message} is not an encoded ML-KEM-768 key")]
    InvalidKey {
        /// The name of the message.
        message: &'static str,
        /// The index of the element in the message, from 0.
        index: usize,
    },
    /// [`CotSender::extend`](crate::CotSender::extend) was called before
    /// [`CotSender::setup`](crate::CotSender::setup).
    #[error("the setup message is needed before the first extension")]
    SetupMissing,
    /// The setup message was received twice.
    #[error("the setup message was already received")]
    SetupRepeated,
    /// A segment has no OTs, or more than [`SEGMENT_OTS`](crate::SEGMENT_OTS).
    #[error("a segment of {found} OTs, expected 1 to {max}")]
    SegmentSize {
        /// The maximum number of OTs in a segment.
        max: usize,
        /// The number of OTs requested.
        found: usize,
    },
    /// The receiver's seed trees are inconsistent. The receiver is malicious, and the correlated
    /// OTs of the session must not be used.
    #[error(
        "the check of the OT extension's seed trees failed: the peer deviates from the protocol"
    )]
    TreeCheckFailed,
    /// The receiver's columns do not belong to one string of choices. The receiver is malicious,
    /// and the correlated OTs of the session must not be used.
    #[error("the column check of the OT extension failed: the peer deviates from the protocol")]
    ColumnCheckFailed,
    /// No extension has this name.
    #[error(
        "unknown OT extension {name:?}, expected iknp, softspoken-2, softspoken-4 or softspoken-8"
    )]
    UnknownName {
        /// The name found.
        name: String,
    },
    /// No base OT has this name.
    #[error("unknown base OT {name:?}, expected {}", BaseOt::names())]
    UnknownBase {
        /// The name found.
        name: String,
    },
    /// No extension has this code.
    #[error("unknown OT extension code {code}, expected 1, 2, 4 or 8")]
    UnknownCode {
        /// The code found.
        code: u8,
    },
}

/// Checks the length of a message before any allocation for it.
pub(crate) fn check_len(
    message: &'static str,
    expected: usize,
    found: usize,
) -> Result<(), OtError> {
    if expected == found {
        Ok(())
    } else {
        Err(OtError::WrongLength {
            message,
            expected,
            found,
        })
    }
}
