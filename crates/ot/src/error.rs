//! How oblivious transfer fails.

use thiserror::Error;

/// What is wrong with a message from the other party or with a name given by the user.
///
/// Every error ends the exchange it happened in: the state that reported it must not be used to
/// try another message.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum OtError {
    /// A message does not have the one length that the agreed parameters allow.
    #[error("{message} has {found} bytes instead of {expected}")]
    WrongLength {
        /// Which message.
        message: &'static str,
        /// Length that was agreed, in bytes.
        expected: usize,
        /// Length of what came, in bytes.
        found: usize,
    },
    /// 32 bytes that are no canonical Ristretto255 encoding.
    #[error("point {index} of {message} is not a canonical ristretto255 encoding")]
    InvalidPoint {
        /// Which message.
        message: &'static str,
        /// Position of the point in the message, from 0.
        index: usize,
    },
    /// A point that would make a key independent of the secret scalar.
    #[error("point {index} of {message} is, or hashes to, the identity")]
    IdentityPoint {
        /// Which message.
        message: &'static str,
        /// Position of the point in the message, from 0.
        index: usize,
    },
    /// Bytes that are no encapsulation key of ML-KEM-768: a coefficient is not below 3329.
    #[error("element {index} of {message} is not an encoded ML-KEM-768 key")]
    InvalidKey {
        /// Which message.
        message: &'static str,
        /// Position of the element in the message, from 0.
        index: usize,
    },
    /// [`CotSender::extend`](crate::CotSender::extend) was called before the setup message was
    /// taken in.
    #[error("the setup message is needed before the first extension")]
    SetupMissing,
    /// A second setup message.
    #[error("the setup message was already taken in")]
    SetupRepeated,
    /// A segment of no OTs, or of more than [`SEGMENT_OTS`](crate::SEGMENT_OTS).
    #[error("a segment of {found} OTs, expected 1 to {max}")]
    SegmentSize {
        /// Largest number of OTs in a segment.
        max: usize,
        /// Number of OTs asked for.
        found: usize,
    },
    /// The receiver's seed trees are inconsistent: it deviates from the protocol, and the
    /// correlated OTs of the session must not be used.
    #[error("the check of the OT extension's seed trees failed: the peer deviates")]
    TreeCheckFailed,
    /// The receiver's columns do not belong to one string of choices: it deviates from the
    /// protocol, and the correlated OTs of the session must not be used.
    #[error("the consistency check of the OT extension failed: the peer deviates")]
    ColumnCheckFailed,
    /// A name that belongs to no extension.
    #[error(
        "unknown OT extension {name:?}, expected iknp, softspoken-2, softspoken-4 or softspoken-8"
    )]
    UnknownName {
        /// The name found.
        name: String,
    },
    /// A name that belongs to no base OT.
    #[error("unknown base OT {name:?}, expected ristretto255 or ml-kem-768")]
    UnknownBase {
        /// The name found.
        name: String,
    },
    /// A wire code that belongs to no extension.
    #[error("unknown OT extension code {code}, expected 1, 2, 4 or 8")]
    UnknownCode {
        /// The code found.
        code: u8,
    },
}

/// Checks the length of a message before anything is allocated for it.
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
