//! Selects one of the kinds of base OT behind one interface.

use std::fmt;
use std::str::FromStr;

use rand::CryptoRng;
use zeroize::Zeroizing;

use super::{BASE_SENDER_LEN, BaseReceiver, BaseSender, base_receiver_len};
#[cfg(feature = "ml-kem")]
use super::{KemReceiver, KemSender, kem_receiver_len, kem_sender_len};
use crate::OtError;

/// The kind of public-key cryptography in base OT.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum BaseOt {
    /// Diffie–Hellman on Ristretto255: small and fast. The choices are hidden unconditionally. The
    /// key that was not chosen is not hidden from a quantum computer.
    #[default]
    Ristretto255,
    /// ML-KEM-768: choices and keys are hidden from quantum computers too. Messages are about 70
    /// times as long. Needs the feature `ml-kem`.
    #[cfg(feature = "ml-kem")]
    MlKem768,
}

impl BaseOt {
    /// The kinds of this build.
    pub const ALL: &[Self] = &[
        Self::Ristretto255,
        #[cfg(feature = "ml-kem")]
        Self::MlKem768,
    ];

    /// Lists the names of the kinds of this build.
    pub(crate) fn names() -> String {
        let names: Vec<_> = Self::ALL.iter().map(|base| base.name()).collect();
        names.join(" or ")
    }

    /// Returns the name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ristretto255 => "ristretto255",
            #[cfg(feature = "ml-kem")]
            Self::MlKem768 => "ml-kem-768",
        }
    }

    /// Returns the code of the kind on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ristretto255 => 0,
            #[cfg(feature = "ml-kem")]
            Self::MlKem768 => 1,
        }
    }

    /// Returns the kind with this [code](Self::code), or `None` if there is none.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|base| base.code() == code)
    }

    /// Returns the length of the receiver's message for `count` OTs, in bytes.
    #[must_use]
    pub const fn receiver_len(self, count: usize) -> usize {
        match self {
            Self::Ristretto255 => base_receiver_len(count),
            #[cfg(feature = "ml-kem")]
            Self::MlKem768 => kem_receiver_len(count),
        }
    }

    /// Returns the length of the sender's message for `count` OTs, in bytes.
    #[must_use]
    pub const fn sender_len(
        self,
        #[cfg_attr(
            not(feature = "ml-kem"),
            expect(unused, reason = "only ML-KEM uses it")
        )]
        count: usize,
    ) -> usize {
        match self {
            Self::Ristretto255 => BASE_SENDER_LEN,
            #[cfg(feature = "ml-kem")]
            Self::MlKem768 => kem_sender_len(count),
        }
    }
}

impl fmt::Display for BaseOt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for BaseOt {
    type Err = OtError;

    fn from_str(text: &str) -> Result<Self, OtError> {
        Self::ALL
            .iter()
            .copied()
            .find(|base| base.name() == text)
            .ok_or_else(|| OtError::UnknownBase {
                name: text.to_owned(),
            })
    }
}

/// The receiver of a batch of base OTs of either kind.
pub enum AnyReceiver {
    /// Over Ristretto255.
    Ristretto255(BaseReceiver),
    /// Over ML-KEM-768.
    #[cfg(feature = "ml-kem")]
    MlKem768(KemReceiver),
}

impl AnyReceiver {
    /// Starts one OT per choice and returns the message for the sender, [`BaseOt::receiver_len`]
    /// bytes; see [`BaseReceiver::start`].
    pub fn start(
        base: BaseOt,
        choices: &[bool],
        binding: &[u8],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> (Self, Vec<u8>) {
        match base {
            BaseOt::Ristretto255 => {
                let (receiver, message) = BaseReceiver::start(choices, binding, rng);
                (Self::Ristretto255(receiver), message)
            }
            #[cfg(feature = "ml-kem")]
            BaseOt::MlKem768 => {
                let (receiver, message) = KemReceiver::start(choices, binding, rng);
                (Self::MlKem768(receiver), message)
            }
        }
    }

    /// Derives the chosen key of every instance from the sender's message.
    ///
    /// # Errors
    /// The errors of [`BaseReceiver::finish`] and `KemReceiver::finish`.
    pub fn finish(
        self,
        sid: &[u8; 32],
        sender_message: &[u8],
    ) -> Result<Zeroizing<Vec<u128>>, OtError> {
        match self {
            Self::Ristretto255(receiver) => receiver.finish(sid, sender_message),
            #[cfg(feature = "ml-kem")]
            Self::MlKem768(receiver) => receiver.finish(sid, sender_message),
        }
    }
}

/// The sender of a batch of base OTs of either kind.
pub enum AnySender {
    /// Over Ristretto255, where the sender's message does not depend on the receiver's.
    Ristretto255(BaseSender),
    /// Over ML-KEM-768, where the sender answers the receiver's message.
    #[cfg(feature = "ml-kem")]
    MlKem768,
}

/// Both keys of every instance, and the sender's message if it answers the receiver's.
pub type BaseOtKeys = (Zeroizing<Vec<[u128; 2]>>, Option<Vec<u8>>);

impl AnySender {
    /// Starts the OTs. Returns the sender's message if the kind can send it before the receiver's
    /// message arrives.
    pub fn start(base: BaseOt, rng: &mut (impl CryptoRng + ?Sized)) -> (Self, Option<Vec<u8>>) {
        match base {
            BaseOt::Ristretto255 => {
                let (sender, message) = BaseSender::start(rng);
                (Self::Ristretto255(sender), Some(message.to_vec()))
            }
            #[cfg(feature = "ml-kem")]
            BaseOt::MlKem768 => (Self::MlKem768, None),
        }
    }

    /// Derives both keys of `count` instances from the receiver's message. If
    /// [`start`](Self::start) returned no message, this also returns the sender's message, which is
    /// the only use of `rng`.
    ///
    /// # Errors
    /// The errors of [`BaseSender::finish`] and `KemSender::answer`.
    pub fn finish(
        self,
        sid: &[u8; 32],
        binding: &[u8],
        receiver_message: &[u8],
        count: usize,
        #[cfg_attr(
            not(feature = "ml-kem"),
            expect(unused, reason = "only ML-KEM uses it")
        )]
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<BaseOtKeys, OtError> {
        match self {
            Self::Ristretto255(sender) => {
                let keys = sender.finish(sid, binding, receiver_message, count)?;
                Ok((keys, None))
            }
            #[cfg(feature = "ml-kem")]
            Self::MlKem768 => {
                let (keys, message) =
                    KemSender::answer(sid, binding, receiver_message, count, rng)?;
                Ok((keys, Some(message)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::StdRng};

    #[test]
    fn base_ot_names_and_codes_round_trip() {
        for &base in BaseOt::ALL {
            assert_eq!(base.to_string().parse(), Ok(base));
            assert_eq!(BaseOt::from_code(base.code()), Some(base));
        }
        assert_eq!(BaseOt::from_code(2), None);
        assert!("kyber".parse::<BaseOt>().is_err());
    }

    #[test]
    fn both_kinds_transfer_the_chosen_keys() {
        let choices = [true, false, true];
        for &base in BaseOt::ALL {
            let mut rng = StdRng::seed_from_u64(1);
            let (receiver, to_sender) = AnyReceiver::start(base, &choices, b"nonce", &mut rng);
            assert_eq!(to_sender.len(), base.receiver_len(3));
            let (sender, early) = AnySender::start(base, &mut rng);
            let (pairs, late) = sender
                .finish(&[1; 32], b"nonce", &to_sender, 3, &mut rng)
                .unwrap();
            assert_ne!(early.is_some(), late.is_some());
            let message = early.or(late).unwrap();
            assert_eq!(message.len(), base.sender_len(3));
            let keys = receiver.finish(&[1; 32], &message).unwrap();
            for ((key, pair), choice) in keys.iter().zip(pairs.iter()).zip(choices) {
                assert_eq!(*key, pair[usize::from(choice)]);
            }
        }
    }
}
