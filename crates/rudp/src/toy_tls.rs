//! A deterministic handshake for tests. Its messages have the sizes of those of TLS 1.3 with
//! X25519MLKEM768 and Ed25519 certificates on both sides. It protects nothing.
//!
//! `tests/it` includes this file too, so it uses only names of its parent module.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest::{Context, SHA256};

use super::{Alert, Cipher, DataSecret, EndpointSide, HandshakeKeys, PacketKey, TAG_BYTES, Tls};

/// The alert of an end whose transcript differs from the peer's (RFC 8446, section 6.2).
pub(crate) const DECRYPT_ERROR: Alert = Alert(51);

/// A message. Each one replaces all messages that TLS sends in one turn at one level.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Message {
    ClientHello = 1,
    ServerHello = 2,
    /// The listener's messages from EncryptedExtensions to Finished.
    ListenerFinished = 8,
    /// The connector's messages from Certificate to Finished.
    ConnectorFinished = 20,
}

impl Message {
    /// Returns the size of the message in bytes, with type and length. The sizes were measured with
    /// rustls 0.23.
    fn size(self) -> usize {
        match self {
            Self::ClientHello => 1456,
            Self::ServerHello => 1210,
            Self::ListenerFinished => 530,
            Self::ConnectorFinished => 421,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Write(Message),
    Read(Message),
    /// The connector has received the ServerHello: the keys are available, and there is no message
    /// to write.
    Keys,
    Done,
}

/// One end of the handshake.
pub(crate) struct ToyTls {
    side: EndpointSide,
    random: [u8; 32],
    peer_random: [u8; 32],
    parameters: Vec<u8>,
    peer_parameters: Option<Vec<u8>>,
    transcript: Context,
    unread: Vec<u8>,
    step: Step,
    /// The message of the peer that this end rejects, and the alert with which it does so.
    pub(crate) refusal: Option<(Message, Alert)>,
}

impl ToyTls {
    pub(crate) fn new(side: EndpointSide, random: [u8; 32], parameters: &[u8]) -> Self {
        Self {
            side,
            random,
            peer_random: [0; 32],
            parameters: parameters.to_vec(),
            peer_parameters: None,
            transcript: Context::new(&SHA256),
            unread: Vec::new(),
            step: match side {
                EndpointSide::Connector => Step::Write(Message::ClientHello),
                EndpointSide::Listener => Step::Read(Message::ClientHello),
            },
            refusal: None,
        }
    }

    /// Returns both random numbers, the connector's first.
    fn randoms(&self) -> [[u8; 32]; 2] {
        match self.side {
            EndpointSide::Connector => [self.random, self.peer_random],
            EndpointSide::Listener => [self.peer_random, self.random],
        }
    }

    fn put(&mut self, out: &mut Vec<u8>, message: Message) {
        let start = out.len();
        let body = message.size() - 4;
        out.push(message as u8);
        out.extend_from_slice(&(body as u32).to_be_bytes()[1..]);
        match message {
            Message::ClientHello | Message::ServerHello => out.extend_from_slice(&self.random),
            Message::ListenerFinished | Message::ConnectorFinished => {
                out.extend_from_slice(self.transcript.clone().finish().as_ref());
            }
        }
        if matches!(message, Message::ClientHello | Message::ListenerFinished) {
            out.push(self.parameters.len() as u8);
            out.extend_from_slice(&self.parameters);
        }
        // Padding has the size of the key shares, certificates and signatures of TLS.
        out.resize(start + message.size(), 0xc5);
        self.transcript.update(&out[start..]);
    }

    fn take(&mut self, expected: Message, message: &[u8]) -> Result<(), Alert> {
        if let Some((refused, alert)) = self.refusal
            && refused == expected
        {
            return Err(alert);
        }
        let (Some(first), Some(rest)) = (message.get(4..36), message.get(36..)) else {
            return Err(Alert::DECODE_ERROR);
        };
        match expected {
            Message::ClientHello | Message::ServerHello => self.peer_random.copy_from_slice(first),
            Message::ListenerFinished | Message::ConnectorFinished => {
                if self.transcript.clone().finish().as_ref() != first {
                    return Err(DECRYPT_ERROR);
                }
            }
        }
        if matches!(expected, Message::ClientHello | Message::ListenerFinished) {
            let parameters = rest
                .split_first()
                .and_then(|(&length, rest)| rest.get(..usize::from(length)));
            self.peer_parameters = Some(parameters.ok_or(Alert::DECODE_ERROR)?.to_vec());
        }
        self.transcript.update(message);
        self.step = match expected {
            Message::ClientHello => Step::Write(Message::ServerHello),
            Message::ServerHello => Step::Keys,
            Message::ListenerFinished => Step::Write(Message::ConnectorFinished),
            Message::ConnectorFinished => Step::Done,
        };
        Ok(())
    }

    fn keys(&self) -> HandshakeKeys {
        let [connector, listener] = [b'c', b's'].map(|label| ToyKey::new(label, &self.randoms()));
        HandshakeKeys::of(self.side, connector, listener)
    }
}

impl Tls for ToyTls {
    fn write(&mut self, out: &mut Vec<u8>) -> Option<HandshakeKeys> {
        match self.step {
            Step::Write(message) => {
                self.put(out, message);
                let (step, has_keys) = match message {
                    Message::ClientHello => (Step::Read(Message::ServerHello), false),
                    Message::ServerHello => (Step::Write(Message::ListenerFinished), true),
                    Message::ListenerFinished => (Step::Read(Message::ConnectorFinished), false),
                    Message::ConnectorFinished => (Step::Done, false),
                };
                self.step = step;
                has_keys.then(|| self.keys())
            }
            Step::Keys => {
                self.step = Step::Read(Message::ListenerFinished);
                Some(self.keys())
            }
            Step::Read(_) | Step::Done => None,
        }
    }

    fn read(&mut self, messages: &[u8]) -> Result<(), Alert> {
        self.unread.extend_from_slice(messages);
        loop {
            let Step::Read(expected) = self.step else {
                // TLS rejects messages of the next level under the keys of this one.
                return match self.unread.is_empty() {
                    true => Ok(()),
                    false => Err(Alert::DECODE_ERROR),
                };
            };
            let Some(&[kind, a, b, c]) = self.unread.first_chunk() else {
                return Ok(());
            };
            let size = 4 + u32::from_be_bytes([0, a, b, c]) as usize;
            if kind != expected as u8 || size > 1 << 14 {
                return Err(Alert::DECODE_ERROR);
            }
            if self.unread.len() < size {
                return Ok(());
            }
            let message: Vec<u8> = self.unread.drain(..size).collect();
            self.take(expected, &message)?;
        }
    }

    fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    fn peer_parameters(&self) -> Option<&[u8]> {
        self.peer_parameters.as_deref()
    }

    fn secret(&mut self, context: &[u8]) -> Result<DataSecret, Alert> {
        let randoms = self.randoms().concat();
        let secret = digest(&[b"exporter", &randoms, context]);
        Ok(DataSecret::Exported(secret.into(), Cipher::Aes128Gcm))
    }
}

struct ToyKey(LessSafeKey);

impl ToyKey {
    fn new(label: u8, randoms: &[[u8; 32]; 2]) -> Box<Self> {
        let bytes = digest(&[&[label], &randoms.concat()]);
        let key = UnboundKey::new(&AES_128_GCM, &bytes[..16]).expect("16 bytes");
        Box::new(Self(LessSafeKey::new(key)))
    }

    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

impl PacketKey for ToyKey {
    fn seal(&self, number: u64, header: &[u8], body: &mut [u8]) -> Option<[u8; TAG_BYTES]> {
        let tag = (self.0)
            .seal_in_place_separate_tag(Self::nonce(number), Aad::from(header), body)
            .ok()?;
        tag.as_ref().try_into().ok()
    }

    fn open(&self, number: u64, header: &[u8], body: &mut [u8]) -> Option<usize> {
        let opened = (self.0).open_in_place(Self::nonce(number), Aad::from(header), body);
        opened.ok().map(|plain| plain.len())
    }
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}
