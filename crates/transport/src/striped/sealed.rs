//! Stripes without a handshake of their own: sealed with keys that the TLS session of stripe 0 has made.
//!
//! Each direction of a stripe is a row of records: the length of what follows (2 bytes, big-endian), and up to 16 KiB of the
//! stripe's bytes under AES-256-GCM (NIST SP 800-38D) with its tag of 16 bytes; the length is authenticated too. The nonce is
//! the number of the record from 0 (12 bytes, big-endian). A record with nothing in it ends the direction, so that an
//! end that somebody else makes is noticed.
//!
//! The link's secret is exported from the session of stripe 0 (RFC 8446, section 7.5), with the link's id as context. All else
//! is HKDF-SHA-256 (RFC 5869, its second step) of it: the key of the tag that a stripe joins with, and for each stripe and
//! direction a secret, from which come a key (`key`) and, after 2^22 records, the next secret (`next`). A stripe's
//! number is let in once, so no key and nonce are ever used twice.

use std::{
    io,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, ready},
};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    hkdf, hmac,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zeroize::{Zeroize, Zeroizing};

use super::join::{CHALLENGE, Challenge, ID, SealedJoin, TAG};
use crate::{
    TransportError,
    tcp::{Channel, Context as Surroundings, ReadAhead, Socket},
};

const LABEL: &[u8] = b"EXPORTER-transpute-sealed-stripes";

/// Bytes in front of a record.
const LENGTH: usize = 2;

/// Bytes behind it.
const SEAL: usize = 16;

/// The most bytes of a stripe in a record.
const MOST: usize = 16 << 10;

/// So many records have one key, as a power of two: AES-GCM keeps its margin for 2^24.5 (RFC 8446, section 5.5).
const EPOCH_BITS: u32 = 22;

/// What the session of stripe 0 has made for the others of its link.
pub(super) struct Secret(Zeroizing<[u8; 32]>);

/// Which way bytes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Towards {
    Listener,
    Connector,
}

/// What one end seals and opens a stripe with.
pub(super) struct Pair {
    out: Keys,
    into: Keys,
}

impl Pair {
    /// Makes those of the end that sends this way.
    pub(super) fn of(secret: &Secret, index: u8, towards: Towards) -> Result<Self, TransportError> {
        let back = match towards {
            Towards::Listener => Towards::Connector,
            Towards::Connector => Towards::Listener,
        };
        Ok(Self {
            out: secret.keys(index, towards)?,
            into: secret.keys(index, back)?,
        })
    }

    /// Seals a connection.
    pub(super) fn seal(self, socket: Socket, context: Surroundings) -> Channel {
        let mut ahead = ReadAhead::new(socket.clone());
        ahead.start();
        let reader = SealedReader::new(ahead, self.into);
        let writer = SealedWriter::new(socket.clone(), self.out);
        Channel::beside(socket, context, reader, writer)
    }
}

impl Secret {
    /// Returns nothing in plaintext.
    pub(super) fn of(first: &Channel, id: &[u8; ID]) -> Result<Option<Self>, TransportError> {
        Ok(first.export(LABEL, id)?.map(Self))
    }

    /// Computes the tag with which a stripe of this number answers a challenge.
    pub(super) fn tag(
        &self,
        index: u8,
        count: u8,
        challenge: &Challenge,
    ) -> Result<[u8; TAG], TransportError> {
        let mut tag = [0; TAG];
        let message = tag_message(index, count, challenge);
        tag.copy_from_slice(hmac::sign(&self.tag_key()?, &message).as_ref());
        Ok(tag)
    }

    /// Checks such a tag, in constant time.
    pub(super) fn verify(
        &self,
        SealedJoin { join, challenge }: &SealedJoin,
    ) -> Result<bool, TransportError> {
        let message = tag_message(join.index, join.count, challenge);
        Ok(hmac::verify(&self.tag_key()?, &message, &join.tag).is_ok())
    }

    fn tag_key(&self) -> Result<hmac::Key, TransportError> {
        let key = expand(&self.0, &[b"join"])?;
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &key[..]))
    }

    /// Returns what seals, or opens, one direction of a stripe.
    fn keys(&self, index: u8, towards: Towards) -> Result<Keys, TransportError> {
        let direction: &[u8] = match towards {
            Towards::Listener => b"to listener",
            Towards::Connector => b"to connector",
        };
        Keys::new(expand(&self.0, &[direction, &[index]])?, EPOCH_BITS)
    }
}

fn tag_message(index: u8, count: u8, challenge: &Challenge) -> [u8; 2 + CHALLENGE] {
    let mut message = [index; 2 + CHALLENGE];
    message[1] = count;
    message[2..].copy_from_slice(challenge);
    message
}

/// What seals, or opens, one record after the other.
struct Keys {
    secret: Zeroizing<[u8; 32]>,
    key: LessSafeKey,
    /// Of the next record.
    number: u64,
    epoch_bits: u32,
}

impl Keys {
    fn new(secret: Zeroizing<[u8; 32]>, epoch_bits: u32) -> Result<Self, TransportError> {
        Ok(Self {
            key: key(&secret)?,
            secret,
            number: 0,
            epoch_bits,
        })
    }

    /// Returns the next nonce, which the key has not been used with.
    fn step(&mut self) -> Result<Nonce, TransportError> {
        let number = self.number;
        self.number = number.checked_add(1).ok_or_else(library)?;
        if number > 0 && number.trailing_zeros() >= self.epoch_bits {
            self.secret = expand(&self.secret, &[b"next"])?;
            self.key = key(&self.secret)?;
        }
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        Ok(Nonce::assume_unique_for_key(nonce))
    }

    /// Appends a record.
    fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TransportError> {
        debug_assert!(bytes.len() <= MOST);
        let nonce = self.step()?;
        // Less than 2^15.
        let length = ((bytes.len() + SEAL) as u16).to_be_bytes();
        out.extend_from_slice(&length);
        let start = out.len();
        out.extend_from_slice(bytes);
        let seal = (self.key)
            .seal_in_place_separate_tag(nonce, Aad::from(length), &mut out[start..])
            .map_err(|_| library())?;
        out.extend_from_slice(seal.as_ref());
        Ok(())
    }

    /// Opens a record, of which `length` stood in front; returns its bytes.
    fn open<'a>(
        &mut self,
        length: [u8; LENGTH],
        record: &'a mut [u8],
    ) -> Result<&'a [u8], TransportError> {
        let nonce = self.step()?;
        match self.key.open_in_place(nonce, Aad::from(length), record) {
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(TransportError::Tls {
                detail: "a record of a stripe is not authentic".into(),
            }),
        }
    }
}

fn key(secret: &[u8; 32]) -> Result<LessSafeKey, TransportError> {
    let bytes = expand(secret, &[b"key"])?;
    let key = UnboundKey::new(&AES_256_GCM, &bytes[..]).map_err(|_| library())?;
    Ok(LessSafeKey::new(key))
}

struct Length32;

impl hkdf::KeyType for Length32 {
    fn len(&self) -> usize {
        32
    }
}

fn expand(secret: &[u8; 32], info: &[&[u8]]) -> Result<Zeroizing<[u8; 32]>, TransportError> {
    let mut out = Zeroizing::new([0; 32]);
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret)
        .expand(info, Length32)
        .and_then(|okm| okm.fill(out.as_mut()))
        .map_err(|_| library())?;
    Ok(out)
}

/// Lengths fit, so that the library has nothing to refuse.
fn library() -> TransportError {
    TransportError::Tls {
        detail: "the library refused a key or a record of a stripe".into(),
    }
}

/// The receiving half of a sealed stripe.
struct SealedReader<R> {
    inner: R,
    keys: Keys,
    /// A record on its way in; then what was opened of it.
    buffer: Box<[u8]>,
    filled: usize,
    /// The part of the buffer that was opened and not read yet.
    opened: Range<usize>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Open,
    Ended,
    Failed,
}

impl<R> SealedReader<R> {
    fn new(inner: R, keys: Keys) -> Self {
        Self {
            inner,
            keys,
            buffer: vec![0; LENGTH + MOST + SEAL].into(),
            filled: 0,
            opened: 0..0,
            state: State::Open,
        }
    }

    /// Returns how many bytes of a record, with its length, are to be there; of a record of which too little is known, those
    /// that tell.
    fn wanted(&self) -> Result<usize, TransportError> {
        if self.filled < LENGTH {
            return Ok(LENGTH);
        }
        let length = usize::from(u16::from_be_bytes([self.buffer[0], self.buffer[1]]));
        match length {
            SEAL.. if length <= MOST + SEAL => Ok(LENGTH + length),
            _ => Err(TransportError::Tls {
                detail: format!(
                    "a record of {length} bytes on a stripe, expected {SEAL} to {}",
                    MOST + SEAL
                ),
            }),
        }
    }
}

impl<R: AsyncRead + Unpin> SealedReader<R> {
    /// Waits for the next record, and opens it.
    fn poll_record(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        loop {
            let wanted = self.wanted()?;
            if self.filled == wanted && wanted > LENGTH {
                break;
            }
            let mut room = ReadBuf::new(&mut self.buffer[self.filled..wanted]);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut room))
                .map_err(TransportError::from_io)?;
            match room.filled().len() {
                0 => return Poll::Ready(Err(TransportError::Truncated)),
                read => self.filled += read,
            }
        }
        let (length, record) = self.buffer[..self.filled].split_at_mut(LENGTH);
        let opened = self.keys.open([length[0], length[1]], record)?.len();
        self.opened = LENGTH..LENGTH + opened;
        self.filled = 0;
        if opened == 0 {
            self.state = State::Ended;
        }
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for SealedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if this.opened.is_empty() {
            match this.state {
                State::Ended => return Poll::Ready(Ok(())),
                State::Failed => return Poll::Ready(Err(TransportError::Closed.into_io())),
                State::Open => {}
            }
            if let Err(error) = ready!(this.poll_record(cx)) {
                this.state = State::Failed;
                return Poll::Ready(Err(error.into_io()));
            }
        }
        let count = this.opened.len().min(buf.remaining());
        let end = this.opened.start + count;
        buf.put_slice(&this.buffer[this.opened.start..end]);
        this.opened.start = end;
        Poll::Ready(Ok(()))
    }
}

impl<R> Drop for SealedReader<R> {
    fn drop(&mut self) {
        // What was opened and nobody has read.
        self.buffer.zeroize();
    }
}

/// The sending half of a sealed stripe.
struct SealedWriter<W> {
    inner: W,
    keys: Keys,
    /// A record, of which `sent` bytes have gone.
    out: Vec<u8>,
    sent: usize,
    has_ended: bool,
}

impl<W> SealedWriter<W> {
    fn new(inner: W, keys: Keys) -> Self {
        Self {
            inner,
            keys,
            out: Vec::with_capacity(LENGTH + MOST + SEAL),
            sent: 0,
            has_ended: false,
        }
    }
}

impl<W: AsyncWrite + Unpin> SealedWriter<W> {
    /// Hands the record on.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            match ready!(Pin::new(&mut self.inner).poll_write(cx, &self.out[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        self.out.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for SealedWriter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_drain(cx))?;
        if this.has_ended {
            return Poll::Ready(Err(TransportError::Closed.into_io()));
        }
        let taken = &buf[..buf.len().min(MOST)];
        if taken.is_empty() {
            // A record with nothing in it is the end.
            return Poll::Ready(Ok(0));
        }
        (this.keys.seal(taken, &mut this.out)).map_err(TransportError::into_io)?;
        // The bytes are taken, whether they can go out now or later.
        let _ = this.poll_drain(cx)?;
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.poll_drain(cx))?;
        if !this.has_ended {
            this.has_ended = true;
            (this.keys.seal(&[], &mut this.out)).map_err(TransportError::into_io)?;
            ready!(this.poll_drain(cx))?;
        }
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::super::join::Join;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn secret() -> Secret {
        Secret(Zeroizing::new(std::array::from_fn(|place| place as u8)))
    }

    fn keys(index: u8, towards: Towards) -> Keys {
        secret().keys(index, towards).unwrap()
    }

    /// Keys that move on after four records.
    fn short_lived() -> Keys {
        Keys::new(Zeroizing::new([5; 32]), 2).unwrap()
    }

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    /// Seals some pieces and the end.
    async fn sealed(keys: Keys, pieces: &[&[u8]]) -> Vec<u8> {
        let mut wire = Vec::new();
        let mut writer = SealedWriter::new(&mut wire, keys);
        for piece in pieces {
            writer.write_all(piece).await.unwrap();
        }
        writer.shutdown().await.unwrap();
        assert!(writer.write_all(b"more").await.is_err());
        drop(writer);
        wire
    }

    async fn opened(keys: Keys, wire: &[u8]) -> Result<Vec<u8>, TransportError> {
        let mut got = Vec::new();
        let mut reader = SealedReader::new(wire, keys);
        match reader.read_to_end(&mut got).await {
            Ok(_) => Ok(got),
            Err(error) => {
                // Errors are final.
                assert!(reader.read(&mut [0; 1]).await.is_err());
                Err(TransportError::from_io(error))
            }
        }
    }

    #[tokio::test]
    async fn bytes_come_through_a_narrow_pipe_in_pieces_of_any_size() {
        let sent = pattern(150_000);
        for (pipe, piece) in [(1, 9_000), (7, 1000), (100, 16_384), (1 << 20, 70_000)] {
            let (near, far) = tokio::io::duplex(pipe);
            let mut writer = SealedWriter::new(near, short_lived());
            let mut reader = SealedReader::new(far, short_lived());
            let send = async {
                for piece in sent.chunks(piece) {
                    writer.write_all(piece).await.unwrap();
                }
                writer.shutdown().await.unwrap();
            };
            let mut got = Vec::new();
            let (read, ()) = tokio::join!(reader.read_to_end(&mut got), send);
            read.unwrap();
            assert!(got == sent, "{pipe} {piece}");
        }
    }

    #[tokio::test]
    async fn nothing_that_was_changed_is_taken() {
        let pieces: [&[u8]; 3] = [b"one", b"two", b"three"];
        let wire = sealed(keys(3, Towards::Listener), &pieces).await;
        assert_eq!(
            opened(keys(3, Towards::Listener), &wire).await.unwrap(),
            b"onetwothree"
        );
        for place in 0..wire.len() {
            for bit in [1, 0x80] {
                let mut changed = wire.clone();
                changed[place] ^= bit;
                assert!(opened(keys(3, Towards::Listener), &changed).await.is_err());
            }
        }
        // Cut off anywhere, at the end of a record or within.
        for length in 0..wire.len() {
            let error = opened(keys(3, Towards::Listener), &wire[..length]).await;
            assert!(
                matches!(error, Err(TransportError::Truncated)),
                "{length}: {error:?}"
            );
        }
        // Records left out, repeated and in another order.
        let first = LENGTH + 3 + SEAL;
        for changed in [
            wire[first..].to_vec(),
            [&wire[..first], &wire[..]].concat(),
            [&wire[first..2 * first], &wire[..first], &wire[2 * first..]].concat(),
        ] {
            assert!(opened(keys(3, Towards::Listener), &changed).await.is_err());
        }
        // Of another stripe, and of the other direction.
        assert!(opened(keys(4, Towards::Listener), &wire).await.is_err());
        assert!(opened(keys(3, Towards::Connector), &wire).await.is_err());
    }

    #[tokio::test]
    async fn impossible_lengths_are_refused_before_anything_else_is_read() {
        for length in [0_u16, 15, 16_401, u16::MAX] {
            let wire = [&length.to_be_bytes()[..], &[0; 100_000]].concat();
            let error = opened(short_lived(), &wire).await.unwrap_err();
            assert!(
                error.to_string().contains("expected 16 to 16400"),
                "{error}"
            );
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Computed by another program from docs/protocol.md.
    #[tokio::test]
    async fn the_wire_format_is_the_documented_one() {
        assert_eq!(
            hex(&secret().tag(1, 4, &[5; CHALLENGE]).unwrap()),
            "9e3bc4a6111c19e7eb1fba404d736df6858ca737f9de514677cbed2dec606160"
        );
        let wire = sealed(keys(3, Towards::Listener), &[b"one"]).await;
        assert_eq!(
            hex(&wire),
            "0013aba7368f983d78d8453fe33c290d142440053f0010850de72c84740456bb8359ab4b2cc3f1"
        );
        // The fifth record has the second key.
        let wire = sealed(short_lived(), &[&[0], &[1], &[2], &[3], &[4]]).await;
        assert_eq!(
            hex(&wire[4 * 19..5 * 19]),
            "0011f06901848fd8e2e9ec936cf692edd7e842"
        );
    }

    #[test]
    fn a_tag_fits_one_link_one_number_and_one_challenge() {
        let challenge = [5; CHALLENGE];
        let join = |index, count, tag| SealedJoin {
            join: Join {
                id: [7; ID],
                index,
                count,
                tag,
            },
            challenge,
        };
        let tag = secret().tag(1, 4, &challenge).unwrap();
        assert!(secret().verify(&join(1, 4, tag)).unwrap());
        assert!(!secret().verify(&join(2, 4, tag)).unwrap());
        assert!(!secret().verify(&join(1, 5, tag)).unwrap());
        assert!(!secret().verify(&join(1, 4, [0; TAG])).unwrap());
        let other = Secret(Zeroizing::new([9; 32]));
        assert!(!other.verify(&join(1, 4, tag)).unwrap());
        let elsewhere = SealedJoin {
            challenge: [6; CHALLENGE],
            ..join(1, 4, tag)
        };
        assert!(!secret().verify(&elsewhere).unwrap());
    }
}
