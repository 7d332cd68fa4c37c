//! The offer of a listener: the transports that it allows. docs/protocol.md, "Offer", specifies the
//! bytes.

use std::{collections::BTreeMap, num::NonZeroU16};

use tokio::io::{AsyncRead, AsyncReadExt};

use super::NAME;
use crate::{ConnectError, HandshakeError, RegistryError, TransportError};

pub(super) const MAGIC: [u8; 8] = *b"tpoffer3";

/// Maximum length in bytes of the message field at the end of an offer. This version sends an empty
/// message and ignores a received one. With a message of this length, a certificate still fits into
/// two packets.
const MAX_MESSAGE: usize = 1024;

/// Maximum total length of the names in an offer, in bytes. The built-in names take 25 bytes. Later
/// versions may have more names.
const MAX_NAMES: usize = 512;

/// The offer of a listener: the transports that the connector may choose.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offer {
    transports: Vec<(String, Port)>,
}

/// The port of an offered transport.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Port {
    /// The TCP or UDP port of the `auto` listener.
    Shared,
    /// A separate port of the transport. `None` until the transport listens.
    Own(Option<NonZeroU16>),
}

impl Offer {
    /// Makes an offer of these transports. The `bool` is true if the transport shares the
    /// listener's ports, and false if it needs a separate port.
    pub(super) fn new(transports: impl IntoIterator<Item = (&'static str, bool)>) -> Self {
        let transports = transports.into_iter().map(|(name, is_shared)| {
            let port = match is_shared {
                true => Port::Shared,
                false => Port::Own(None),
            };
            (name.to_owned(), port)
        });
        Self {
            transports: transports.collect(),
        }
    }

    pub(super) fn only_these<'a>(
        mut self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TransportError> {
        let names: Vec<&str> = names.into_iter().collect();
        let unknown = names.iter().find(|name| !self.allows(name));
        if let Some(&name) = unknown.or(names.is_empty().then_some(&"")) {
            return Err(TransportError::Registry(RegistryError::UnknownTransport {
                name: name.into(),
                known: self.names().map(String::from).collect(),
            }));
        }
        self.retain(|known| names.contains(&known));
        Ok(self)
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.transports.retain(|(name, _)| keeps(name));
    }

    /// Returns the names of the allowed transports. An offer of a later version may contain names
    /// that this version does not know.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.transports.iter().map(|(name, _)| name.as_str())
    }

    /// Returns whether the transport of this name is allowed.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Describes the offer as `auto (tcp, quic)`. A connector that uses a transport without `auto`
    /// shows this text in its error message.
    pub(crate) fn describe(&self) -> String {
        let names: Vec<&str> = self.names().collect();
        format!("{NAME} ({})", names.join(", "))
    }

    /// Returns the offer of a listener that uses this transport without `auto`.
    pub(super) fn only(transport: &str) -> Self {
        Self {
            transports: vec![(transport.into(), Port::Shared)],
        }
    }

    /// Returns whether one of the transports shares the ports of the listener. Without such a
    /// transport, connectors cannot receive the offer.
    #[must_use]
    pub fn has_shared(&self) -> bool {
        self.transports
            .iter()
            .any(|(_, port)| *port == Port::Shared)
    }

    /// Returns the separate port of a transport. Returns `None` if the transport shares the
    /// listener's ports or is not offered.
    pub(super) fn port(&self, name: &str) -> Option<NonZeroU16> {
        let found = self.transports.iter().find(|(known, _)| known == name)?;
        match found.1 {
            Port::Own(port) => port,
            Port::Shared => None,
        }
    }

    /// Records the separate ports of transports, by name. Removes a transport that needs a separate
    /// port and is not in `ports`.
    pub(super) fn set_ports(&mut self, ports: &BTreeMap<&str, NonZeroU16>) {
        for (name, port) in &mut self.transports {
            if let Port::Own(port) = port {
                *port = ports.get(name.as_str()).copied();
            }
        }
        (self.transports).retain(|(_, port)| *port != Port::Own(None));
    }

    /// Checks that a transport may be chosen.
    pub(super) fn check(&self, transport: &'static str) -> Result<(), TransportError> {
        if self.allows(transport) {
            return Ok(());
        }
        Err(TransportError::Connect(ConnectError::NotOffered {
            transport,
            offered: self.names().map(String::from).collect(),
        }))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let entry = |(name, port): &(String, Port)| match port {
            Port::Own(Some(port)) => format!("{name}@{port}"),
            _ => name.clone(),
        };
        let names = (self.transports.iter().map(entry)).collect::<Vec<_>>();
        let names = names.join(",");
        // The length fits into 16 bits: the built-in names take 25 bytes, and `table` limits number
        // and length of the others. The message is empty.
        let length = (names.len() as u16).to_le_bytes();
        [&MAGIC[..], &length, names.as_bytes(), &[0, 0]].concat()
    }

    /// Reads an offer and no byte after it.
    pub(crate) async fn read(
        reader: &mut (impl AsyncRead + Unpin),
    ) -> Result<Self, TransportError> {
        let mut magic = [0; MAGIC.len()];
        reader.read_exact(&mut magic).await.map_err(ended)?;
        if magic != MAGIC {
            return Err(malformed("it is not one of this version"));
        }
        let mut parts = [Vec::new(), Vec::new()];
        for (part, limit) in parts.iter_mut().zip([MAX_NAMES, MAX_MESSAGE]) {
            let length = usize::from(reader.read_u16_le().await.map_err(ended)?);
            if length > limit {
                return Err(malformed("it is too long"));
            }
            part.resize(length, 0);
            reader.read_exact(part).await.map_err(ended)?;
        }
        let [names, _message] = parts;
        let is_plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let mut transports = Vec::new();
        for entry in names.split(|&byte| byte == b',') {
            let entry = str::from_utf8(entry).unwrap_or_default();
            let (name, port) = match entry.split_once('@') {
                Some((name, port)) => (name, Some(port)),
                None => (entry, None),
            };
            if name.is_empty() || !name.as_bytes().iter().all(is_plain) {
                return Err(malformed("a name of a transport is none"));
            }
            let port = match port {
                Some(port) => {
                    let port = port.parse().map_err(|_| malformed("a port is none"))?;
                    Port::Own(Some(port))
                }
                None => Port::Shared,
            };
            transports.push((name.to_owned(), port));
        }
        Ok(Self { transports })
    }

    /// Reads an offer from a certificate.
    pub(super) async fn decode(mut bytes: &[u8]) -> Result<Self, TransportError> {
        // Reading from memory never blocks.
        match Self::read(&mut bytes).await {
            Ok(offer) if bytes.is_empty() => Ok(offer),
            Ok(_) => Err(malformed("something follows it")),
            Err(TransportError::Handshake(HandshakeError::ClosedDuringHandshake)) => {
                Err(malformed("it ends early"))
            }
            Err(error) => Err(error),
        }
    }
}

fn malformed(what: &str) -> TransportError {
    TransportError::Handshake(HandshakeError::NotTranspute {
        evidence: format!("its offer of transports cannot be understood: {what}"),
    })
}

fn ended(error: std::io::Error) -> TransportError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof if error.get_ref().is_none() => {
            TransportError::Handshake(HandshakeError::ClosedDuringHandshake)
        }
        _ => TransportError::from_io(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8]) -> Result<Offer, TransportError> {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(Offer::decode(bytes))
    }

    #[test]
    fn an_offer_is_what_the_document_says() {
        let offer = Offer::of(["tcp", "rudp", "tcp"]).unwrap();
        assert_eq!(offer.encode(), b"tpoffer3\x08\x00tcp,rudp\x00\x00");
        let with_message = b"tpoffer3\x08\x00tcp,rudp\x04\x00fast";
        assert_eq!(decode(with_message).unwrap(), offer);
        let all = Offer::all();
        assert_eq!(decode(&all.encode()).unwrap(), all);
        // Transports of other crates have separate ports.
        let mut with_port = offer.clone();
        for name in ["mine", "silent"] {
            with_port.transports.push((name.into(), Port::Own(None)));
        }
        let port = NonZeroU16::new(7).unwrap();
        with_port.set_ports(&[("mine", port)].into());
        let encoded = b"tpoffer3\x0f\x00tcp,rudp,mine@7\x00\x00";
        assert_eq!(with_port.encode(), encoded);
        assert_eq!(decode(encoded).unwrap(), with_port);
        // A transport of a later version is accepted.
        let later = decode(b"tpoffer3\x0a\x00tcp,warp-9\x00\x00").unwrap();
        assert!(later.allows("warp-9") && later.check("tcp").is_ok());
        let error = later.check("quic").unwrap_err();
        assert!(matches!(
            error,
            TransportError::Connect(ConnectError::NotOffered { .. })
        ));
    }

    #[test]
    fn what_cannot_be_offered_is_refused() {
        assert!(matches!(
            Offer::of(["tcp", "udp"]),
            Err(TransportError::Registry(RegistryError::UnknownTransport { name, .. })) if name == "udp"
        ));
        assert!(Offer::of([]).is_err());
    }

    #[test]
    fn malformed_offers_are_told_from_good_ones() {
        let good = Offer::all().encode();
        for length in 0..good.len() {
            assert!(decode(&good[..length]).is_err(), "{length}");
        }
        let too_many = b"a".repeat(MAX_NAMES + 1);
        for (names, message) in [
            (&b""[..], 0),
            (b"TCP", 0),
            (b"tcp,", 0),
            (b"mine@", 0),
            (b"mine@0", 0),
            (b"mine@65536", 0),
            (b"@7", 0),
            (b"t\xff", 0),
            (&too_many, 0),
            (b"tcp", MAX_MESSAGE + 1),
        ] {
            let lengths = [names.len(), message].map(|length| (length as u16).to_le_bytes());
            let message = vec![0; message];
            let bad = [&MAGIC[..], &lengths[0], names, &lengths[1], &message].concat();
            let error = decode(&bad).unwrap_err();
            assert!(matches!(
                error,
                TransportError::Handshake(HandshakeError::NotTranspute { .. })
            ));
        }
        assert!(decode(b"tpoffer1\x01\x03tcp\x00\x00").is_err());
        assert!(decode(&[&good[..], b"."].concat()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>) {
            let _ = decode(&bytes);
            bytes.splice(0..0, MAGIC);
            let _ = decode(&bytes);
        }
    }
}
