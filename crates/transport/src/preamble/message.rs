//! The bytes of a preamble: a fixed text, and the transports that the sender supports.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::{PREAMBLE, not_plaintext};
use crate::{HandshakeError, TransportError, mismatch};

/// Length of the bytes before the names: [`PREAMBLE`] and the length of the rest.
const HEADER: usize = PREAMBLE.len() + 1;

/// Maximum length of the names and the description.
const MAX_TEXT: usize = u8::MAX as usize;

/// The transports that one side supports on a plaintext connection. The preamble contains them as
/// ALPN contains those of a TLS connection.
#[derive(Clone, Debug)]
pub(crate) struct Supported {
    /// The names, best first.
    names: Arc<[String]>,
    /// The description in error messages: `tcp`, or `auto (tcp, quic)`.
    description: Arc<str>,
}

impl Supported {
    pub(crate) fn new(names: &[&str], description: impl Into<String>) -> Self {
        Self {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            description: description.into().into(),
        }
    }

    /// Returns the name, if this side supports only one transport.
    pub(crate) fn only(&self) -> Option<&str> {
        match &*self.names {
            [name] => Some(name),
            _ => None,
        }
    }

    /// Returns the bytes of the preamble.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let text = format!("{} {}", self.names.join(","), self.description);
        let text = &text.as_bytes()[..text.len().min(MAX_TEXT)];
        [&PREAMBLE[..], &[text.len() as u8], text].concat()
    }

    /// Parses the names and the description.
    fn parse(text: &[u8]) -> Option<Self> {
        let (names, description) = mismatch::parse(text)?.split_once(' ')?;
        let names = names.split(',').filter(|name| !name.is_empty());
        Some(Self::new(&names.collect::<Vec<_>>(), description))
    }
}

/// One side of a plaintext connection.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) supported: Supported,
    pub(crate) listens: bool,
}

impl End {
    /// Returns the transport of the connection to a peer: as with ALPN, the first of the listener
    /// that the connector supports.
    fn agree(&self, theirs: &Supported) -> Result<String, TransportError> {
        let (listener, connector) = match self.listens {
            true => (&self.supported, theirs),
            false => (theirs, &self.supported),
        };
        let mut names = listener.names.iter();
        let agreed = names.find(|name| connector.names.contains(name));
        agreed.cloned().ok_or_else(|| {
            TransportError::Handshake(HandshakeError::NoCommonTransport {
                ours: (*self.supported.description).into(),
                theirs: (*theirs.description).into(),
            })
        })
    }
}

/// The part of the peer's preamble that has arrived.
pub(super) struct Received {
    bytes: [u8; HEADER + MAX_TEXT],
    length: usize,
}

impl Received {
    pub(super) fn new() -> Self {
        Self {
            bytes: [0; HEADER + MAX_TEXT],
            length: 0,
        }
    }

    /// Returns the buffer for the next bytes. It is empty if the preamble is complete.
    pub(super) fn missing(&mut self) -> &mut [u8] {
        let end = match self.length {
            ..HEADER => HEADER,
            _ => HEADER + usize::from(self.bytes[HEADER - 1]),
        };
        &mut self.bytes[self.length..end]
    }

    /// Records that `count` bytes were read into the buffer. Compares after every read, so that a
    /// peer that sends a shorter wrong text is rejected at once.
    pub(super) fn add(&mut self, count: usize) -> Result<(), TransportError> {
        if count == 0 {
            return Err(TransportError::Handshake(
                HandshakeError::ClosedDuringHandshake,
            ));
        }
        self.length += count;
        let compared = self.length.min(PREAMBLE.len());
        match self.bytes[..compared] == PREAMBLE[..compared] {
            true => Ok(()),
            false => Err(not_plaintext(&self.bytes[..compared])),
        }
    }

    /// Returns the transport that both sides support, after the preamble is complete.
    pub(super) fn agree(&self, ours: &End) -> Result<String, TransportError> {
        let theirs = Supported::parse(&self.bytes[HEADER..self.length]).ok_or_else(|| {
            TransportError::Handshake(HandshakeError::NotTranspute {
                evidence: "its preamble does not name its transports".into(),
            })
        })?;
        ours.agree(&theirs)
    }
}

/// Reads the peer's preamble and nothing after it. Returns the transport that both sides support.
pub(crate) async fn read(
    reader: &mut (impl AsyncRead + Unpin),
    ours: &End,
) -> Result<String, TransportError> {
    let mut received = Received::new();
    while !received.missing().is_empty() {
        let read = reader.read(received.missing()).await;
        received.add(read.map_err(TransportError::from_io)?)?;
    }
    received.agree(ours)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end(names: &[&str], description: &str, listens: bool) -> End {
        End {
            supported: Supported::new(names, description),
            listens,
        }
    }

    fn read_now(mut bytes: &[u8], ours: &End) -> Result<String, TransportError> {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(read(&mut bytes, ours))
    }

    #[test]
    fn the_listeners_first_common_transport_is_agreed() {
        let auto = ["auto", "tcp", "tcp-striped"];
        for (listener, connector, agreed) in [
            (&["tcp"][..], &["tcp"][..], Some("tcp")),
            (&auto, &["tcp-striped"], Some("tcp-striped")),
            (&["tcp"], &auto, Some("tcp")),
            (&auto, &auto, Some("auto")),
            (&["tcp"], &["tcp-striped"], None),
            (&auto, &[], None),
        ] {
            let listener = end(listener, "auto (tcp)", true);
            let connector = end(connector, "mine", false);
            let there = read_now(&connector.supported.encode(), &listener);
            let here = read_now(&listener.supported.encode(), &connector);
            match agreed {
                Some(agreed) => assert_eq!([there.unwrap(), here.unwrap()], [agreed, agreed]),
                None => {
                    let [there, here] = [there, here].map(|it| it.unwrap_err().to_string());
                    assert!(
                        there.contains("transport auto (tcp) and the peer mine"),
                        "{there}"
                    );
                    assert!(
                        here.contains("transport mine and the peer auto (tcp)"),
                        "{here}"
                    );
                }
            }
        }
    }

    #[test]
    fn long_and_malformed_preambles_are_errors() {
        let ours = end(&["tcp"], "tcp", true);
        let long = Supported::new(&["a"], "b".repeat(300)).encode();
        assert_eq!(long.len(), HEADER + MAX_TEXT);
        assert!(read_now(&long, &ours).is_err());
        for text in [&b""[..], b"tcp", b"tcp \x1b[31m", b"tcp \xff"] {
            let bytes = [&PREAMBLE[..], &[text.len() as u8], text].concat();
            let error = read_now(&bytes, &ours).unwrap_err();
            assert!(
                matches!(
                    error,
                    TransportError::Handshake(HandshakeError::NotTranspute { .. })
                ),
                "{error}"
            );
        }
        let cut = &ours.supported.encode()[..HEADER + 2];
        assert!(matches!(
            read_now(cut, &ours),
            Err(TransportError::Handshake(
                HandshakeError::ClosedDuringHandshake
            ))
        ));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let ours = end(&["tcp"], "tcp", true);
            let _ = read_now(&bytes, &ours);
            let _ = read_now(&[&PREAMBLE[..], &bytes].concat(), &ours);
        }
    }
}
