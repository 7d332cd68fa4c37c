//! A handshake without cryptography, for benchmarks of the cost of encryption.
//!
//! It exchanges the contents of a TLS handshake: random numbers, transport parameters, protocol
//! names, and a message of the listener. Neither end is authenticated. Messages are framed as in
//! TLS: type (1 byte), length (3, big-endian), fields. A field is a length (2, little-endian) and
//! bytes.
//!
//! | message | type | level | fields |
//! | --- | --- | --- | --- |
//! | connector's greeting | 0xf0 | initial | random (16 bytes), parameters, names, separated by
//! newlines |
//! | listener's greeting | 2 | initial | random (16 bytes) |
//! | listener's answer | 8 | handshake | parameters, name, message |
//! | connector's confirmation | 20 | handshake | none |

use std::sync::{Arc, OnceLock};

use super::level::public_keys;
use super::reassembly::MAX_MESSAGES;
use super::tls::{Alert, DataSecret, HandshakeKeys, Tls};
use crate::EndpointSide;
use crate::wire::{Reader, put_uint};

/// The alert of a listener that supports none of the connector's protocol names (RFC 7301, section
/// 3.2).
const NO_APPLICATION_PROTOCOL: Alert = Alert(120);

/// The size of a message's header, in bytes.
const MESSAGE_HEADER_BYTES: usize = 4;

/// The result of a plaintext handshake.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlaintextAgreement {
    /// The first of the listener's protocol names that the connector offers too.
    pub protocol: String,
    /// The listener's message; empty on the listener's side.
    pub message: Vec<u8>,
}

/// The state of a handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// This message is to be written next.
    Write(Message),
    /// This message is to be read next.
    Read(Message),
    Done,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Message {
    ConnectorGreeting = 0xf0,
    ListenerGreeting = 2,
    Answer = 8,
    Confirmation = 20,
}

/// One end of a handshake without cryptography.
pub struct PlaintextTls {
    side: EndpointSide,
    random: [u8; 16],
    parameters: Vec<u8>,
    names: Vec<String>,
    message: Vec<u8>,
    step: Step,
    unread: Vec<u8>,
    peer_random: Vec<u8>,
    peer_parameters: Option<Vec<u8>>,
    protocol: String,
    agreed: Arc<OnceLock<PlaintextAgreement>>,
}

impl PlaintextTls {
    /// Creates the connector's end, which offers these protocol names. `agreed` is set when the
    /// handshake is complete.
    #[must_use]
    pub fn connector(
        random: [u8; 16],
        parameters: &[u8],
        names: &[&str],
        agreed: Arc<OnceLock<PlaintextAgreement>>,
    ) -> Self {
        Self::new(
            EndpointSide::Connector,
            random,
            parameters,
            names,
            &[],
            agreed,
        )
    }

    /// Creates the listener's end, which accepts these protocol names in order of preference. It
    /// sends a message of at most 8 KiB. `agreed` is set when the handshake is complete.
    #[must_use]
    pub fn listener(
        random: [u8; 16],
        parameters: &[u8],
        names: &[&str],
        message: &[u8],
        agreed: Arc<OnceLock<PlaintextAgreement>>,
    ) -> Self {
        Self::new(
            EndpointSide::Listener,
            random,
            parameters,
            names,
            message,
            agreed,
        )
    }

    fn new(
        side: EndpointSide,
        random: [u8; 16],
        parameters: &[u8],
        names: &[&str],
        message: &[u8],
        agreed: Arc<OnceLock<PlaintextAgreement>>,
    ) -> Self {
        Self {
            side,
            random,
            parameters: parameters.to_vec(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            message: message.to_vec(),
            step: match side {
                EndpointSide::Connector => Step::Write(Message::ConnectorGreeting),
                EndpointSide::Listener => Step::Read(Message::ConnectorGreeting),
            },
            unread: Vec::new(),
            peer_random: Vec::new(),
            peer_parameters: None,
            protocol: String::new(),
            agreed,
        }
    }

    fn take_message(&mut self, expected: Message, body: &[u8]) -> Result<(), Alert> {
        let mut reader = Reader(body);
        match expected {
            Message::ConnectorGreeting => {
                self.peer_random = field(&mut reader)?;
                self.peer_parameters = Some(field(&mut reader)?);
                let names = field(&mut reader)?;
                let offered: Vec<_> = names.split(|&byte| byte == b'\n').collect();
                let is_offered = |name: &&String| offered.contains(&name.as_bytes());
                let name = self.names.iter().find(is_offered);
                self.protocol = name.ok_or(NO_APPLICATION_PROTOCOL)?.clone();
                self.step = Step::Write(Message::ListenerGreeting);
            }
            Message::ListenerGreeting => {
                self.peer_random = field(&mut reader)?;
                self.step = Step::Write(Message::ListenerGreeting);
            }
            Message::Answer => {
                self.peer_parameters = Some(field(&mut reader)?);
                let name = field(&mut reader)?;
                let known = self.names.iter().find(|known| known.as_bytes() == name);
                self.protocol = known.ok_or(Alert::ILLEGAL_PARAMETER)?.clone();
                self.message = field(&mut reader)?;
                self.step = Step::Write(Message::Confirmation);
            }
            Message::Confirmation => self.finish(),
        }
        match reader.is_empty() {
            true => Ok(()),
            false => Err(Alert::DECODE_ERROR),
        }
    }

    fn finish(&mut self) {
        self.step = Step::Done;
        let message = match self.side {
            EndpointSide::Connector => std::mem::take(&mut self.message),
            EndpointSide::Listener => Vec::new(),
        };
        // `set` cannot fail, because a handshake completes only once.
        let _ = self.agreed.set(PlaintextAgreement {
            protocol: self.protocol.clone(),
            message,
        });
    }

    fn keys(&self) -> Option<HandshakeKeys> {
        let (connector, listener) = match self.side {
            EndpointSide::Connector => (&self.random[..], &self.peer_random[..]),
            EndpointSide::Listener => (&self.peer_random[..], &self.random[..]),
        };
        public_keys(self.side, &[connector, listener].concat())
    }
}

impl Tls for PlaintextTls {
    fn write(&mut self, out: &mut Vec<u8>) -> Option<HandshakeKeys> {
        let Step::Write(message) = self.step else {
            return None;
        };
        match (message, self.side) {
            (Message::ConnectorGreeting, _) => {
                let names = self.names.join("\n");
                put_message(
                    out,
                    message,
                    &[&self.random, &self.parameters, names.as_bytes()],
                );
                self.step = Step::Read(Message::ListenerGreeting);
                None
            }
            (Message::ListenerGreeting, side) => {
                self.step = match side {
                    EndpointSide::Connector => Step::Read(Message::Answer),
                    EndpointSide::Listener => {
                        put_message(out, message, &[&self.random]);
                        Step::Write(Message::Answer)
                    }
                };
                self.keys()
            }
            (Message::Answer, _) => {
                let name = self.protocol.as_bytes();
                put_message(out, message, &[&self.parameters, name, &self.message]);
                self.step = Step::Read(Message::Confirmation);
                None
            }
            (Message::Confirmation, _) => {
                put_message(out, message, &[]);
                self.finish();
                None
            }
        }
    }

    fn read(&mut self, messages: &[u8]) -> Result<(), Alert> {
        self.unread.extend_from_slice(messages);
        if self.unread.len() > MAX_MESSAGES {
            return Err(Alert::DECODE_ERROR);
        }
        loop {
            let Step::Read(expected) = self.step else {
                return Ok(());
            };
            let Some((&[kind, a, b, c], rest)) = self.unread.split_first_chunk() else {
                return Ok(());
            };
            if kind != expected as u8 {
                return Err(Alert::DECODE_ERROR);
            }
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let Some(body) = rest.get(..length).map(<[u8]>::to_vec) else {
                return Ok(());
            };
            self.unread.drain(..MESSAGE_HEADER_BYTES + length);
            self.take_message(expected, &body)?;
        }
    }

    fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    fn peer_parameters(&self) -> Option<&[u8]> {
        self.peer_parameters.as_deref()
    }

    fn secret(&mut self, _context: &[u8]) -> Result<DataSecret, Alert> {
        Ok(DataSecret::Plaintext)
    }
}

fn put_message(out: &mut Vec<u8>, message: Message, fields: &[&[u8]]) {
    let length: usize = fields.iter().map(|field| 2 + field.len()).sum();
    out.push(message as u8);
    // Names, parameters and messages together have far fewer than 2^16 bytes, so the length fits
    // its field.
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    for field in fields {
        put_uint(out, field.len() as u64, 2);
        out.extend_from_slice(field);
    }
}

fn field(reader: &mut Reader<'_>) -> Result<Vec<u8>, Alert> {
    // A two-byte length fits into usize.
    let length = reader.uint(2).map_err(|_| Alert::DECODE_ERROR)? as usize;
    let field = reader.take(length).map_err(|_| Alert::DECODE_ERROR)?;
    Ok(field.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_listener_rejects_a_connector_without_a_common_protocol() {
        let agreed = Arc::new(OnceLock::new());
        let mut connector = PlaintextTls::connector([1; 16], b"p", &["a"], agreed.clone());
        let mut listener = PlaintextTls::listener([2; 16], b"q", &["b"], b"", agreed);
        let mut hello = Vec::new();
        connector.write(&mut hello);
        assert_eq!(listener.read(&hello), Err(NO_APPLICATION_PROTOCOL));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let agreed = Arc::new(OnceLock::new());
            let mut listener = PlaintextTls::listener([2; 16], b"q", &["b"], b"", agreed.clone());
            let _ = listener.read(&bytes);
            let mut connector = PlaintextTls::connector([1; 16], b"p", &["a"], agreed);
            connector.write(&mut Vec::new());
            let _ = connector.read(&bytes);
        }
    }
}
