//! The offer of a listener: which transports it allows. docs/protocol.md, "Offer", has the bytes.

use std::{collections::BTreeMap, num::NonZeroU16};

use tokio::io::{AsyncRead, AsyncReadExt};

use super::{NAME, Pick};
use crate::{
    ConnectError, HandshakeError, Quic, Registry, RegistryError, Rudp, Security, Tcp, TcpStriped,
    TransportError, UnsupportedError,
};

pub(super) const MAGIC: [u8; 8] = *b"tpoffer3";

/// The longest message to the layer above, in bytes: it is empty today, and ignored. With it a certificate still fits into two
/// packets.
const MAX_MESSAGE: usize = 1024;

/// The most that the names take, in bytes. Those of today take 25; a later version has more.
const MAX_NAMES: usize = 512;

/// What a listener offers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offer {
    names: Vec<String>,
    /// The ports of transports that do not share those of the listener.
    ports: BTreeMap<String, NonZeroU16>,
}

impl Offer {
    /// Offers all transports of which `auto` can make one the link: `tcp`, `tcp-striped`, `quic` and `rudp`.
    #[must_use]
    pub fn all() -> Self {
        Self {
            names: [Tcp::NAME, TcpStriped::NAME, Quic::NAME, Rudp::NAME]
                .map(String::from)
                .to_vec(),
            ports: BTreeMap::new(),
        }
    }

    /// Offers all transports of a registry that `auto` may choose, those of other crates included.
    #[must_use]
    pub fn of_registry(registry: &Registry) -> Self {
        let mut offer = Self::all();
        let names: Vec<&str> = registry.candidates().map(|it| it.name()).collect();
        offer.names.retain(|name| names.contains(&name.as_str()));
        let others = super::others::of(registry).into_iter();
        offer.names.extend(others.map(|it| it.name().to_owned()));
        offer
    }

    /// Offers the transports of these names, of those that [`of_registry`](Self::of_registry) offers.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn among<'a>(
        registry: &Registry,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TransportError> {
        Self::of_registry(registry).only_these(names)
    }

    /// Offers the transports of these names.
    ///
    /// # Errors
    /// [`RegistryError::UnknownTransport`] if `auto` cannot make one of them the link, or there is none.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, TransportError> {
        Self::all().only_these(names)
    }

    fn only_these<'a>(
        self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TransportError> {
        let mut offer = self;
        let names: Vec<&str> = names.into_iter().collect();
        let unknown = names.iter().find(|name| !offer.allows(name));
        if let Some(&name) = unknown.or(names.is_empty().then_some(&"")) {
            return Err(TransportError::Registry(RegistryError::UnknownTransport {
                name: name.into(),
                known: offer.names,
            }));
        }
        offer.names.retain(|known| names.contains(&known.as_str()));
        Ok(offer)
    }

    /// Returns the names of the transports that are allowed. A later version of the peer may name some that are not
    /// known here.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns whether the transport of this name is allowed.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Describes it to a peer that has named a transport which is not offered.
    pub(super) fn describe(&self) -> String {
        format!("{NAME} ({})", self.names.join(", "))
    }

    /// The offer of a listener that uses this transport by its name.
    pub(super) fn only(transport: &str) -> Self {
        Self {
            names: vec![transport.into()],
            ports: BTreeMap::new(),
        }
    }

    /// Returns whether one of the transports shares the ports of the listener. Without one no connector learns the offer.
    #[must_use]
    pub fn has_shared(&self) -> bool {
        let shared = Self::all();
        self.names().any(|name| shared.allows(name))
    }

    /// Returns the port of a transport of another crate.
    pub(super) fn port(&self, name: &str) -> Option<NonZeroU16> {
        self.ports.get(name).copied()
    }

    /// States the ports of the transports of other crates, and leaves out those that have none.
    pub(super) fn set_ports(&mut self, ports: BTreeMap<String, NonZeroU16>) {
        let shared = Self::all();
        (self.names).retain(|name| shared.allows(name) || ports.contains_key(name));
        self.ports = ports;
    }

    /// Leaves out what there is not in plaintext.
    pub(super) fn fit_for(mut self, security: &Security) -> Result<Self, TransportError> {
        if matches!(security, Security::Plaintext) {
            self.names.retain(|name| name != Quic::NAME);
        }
        if self.names.is_empty() {
            return Err(TransportError::Unsupported(UnsupportedError::NoPlaintext {
                transport: Quic::NAME,
                instead: Tcp::NAME,
            }));
        }
        Ok(self)
    }

    /// Checks that a transport may be picked.
    pub(super) fn check(&self, pick: &Pick) -> Result<(), TransportError> {
        if self.allows(pick.transport()) {
            return Ok(());
        }
        Err(TransportError::Connect(ConnectError::NotOffered {
            transport: pick.transport(),
            offered: self.names.clone(),
        }))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let entry = |name: &String| match self.ports.get(name) {
            Some(port) => format!("{name}@{port}"),
            None => name.clone(),
        };
        let names = self.names.iter().map(entry).collect::<Vec<_>>().join(",");
        // The built-in ones take 25 bytes, and the number and length of others are bounded. No message follows.
        let length = (names.len() as u16).to_le_bytes();
        [&MAGIC[..], &length, names.as_bytes(), &[0, 0]].concat()
    }

    /// Reads an offer and nothing after it.
    pub(super) async fn read(
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
        let mut offer = Self {
            names: Vec::new(),
            ports: BTreeMap::new(),
        };
        for entry in names.split(|&byte| byte == b',') {
            let entry = str::from_utf8(entry).unwrap_or_default();
            let (name, port) = match entry.split_once('@') {
                Some((name, port)) => (name, Some(port)),
                None => (entry, None),
            };
            if name.is_empty() || !name.as_bytes().iter().all(is_plain) {
                return Err(malformed("a name of a transport is none"));
            }
            if let Some(port) = port {
                let port = (port.parse()).map_err(|_| malformed("a port is none"))?;
                offer.ports.insert(name.to_owned(), port);
            }
            offer.names.push(name.to_owned());
        }
        Ok(offer)
    }

    /// Reads an offer from a certificate.
    pub(super) async fn decode(mut bytes: &[u8]) -> Result<Self, TransportError> {
        // From memory: this never waits.
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
        // Transports of other crates have ports.
        let mut with_port = offer.clone();
        with_port.names.push("mine".into());
        let port = NonZeroU16::new(7).unwrap();
        with_port.set_ports([("mine".to_owned(), port)].into());
        let encoded = b"tpoffer3\x0f\x00tcp,rudp,mine@7\x00\x00";
        assert_eq!(with_port.encode(), encoded);
        assert_eq!(decode(encoded).unwrap(), with_port);
        // A transport of a later version does no harm.
        let later = decode(b"tpoffer3\x0a\x00tcp,warp-9\x00\x00").unwrap();
        assert!(later.allows("warp-9") && later.check(&"tcp".parse().unwrap()).is_ok());
        let error = later.check(&Pick::Quic).unwrap_err();
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
