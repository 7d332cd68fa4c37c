//! Transport parameters, which the TLS handshake carries and authenticates.
//!
//! | bytes | field | sender |
//! | --- | --- | --- |
//! | 8 | ID of the listener in the connector's first packet | both |
//! | 8 | ID of the connector | both |
//! | 8 | ID of the listener | listener |
//! | 1 | 1 after a Retry packet, otherwise 0 | listener |
//! | 6 | flow-control limit of the stream to the sender of the parameters | both |
//! | 1, then each 1 | number of versions, versions that the sender supports | both |
//!
//! The parameters repeat fields of unprotected packets, so that a change by an attacker on the path
//! is detected (RFC 9000, section 7.3; RFC 9368).

use super::packet::{Id, MAX_VERSIONS, VERSION};
use crate::{EndpointSide, wire::Reader, wire::put_uint};

/// The transport parameters of one end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Parameters {
    pub(crate) side: EndpointSide,
    pub(crate) first: Id,
    pub(crate) connector: Id,
    /// The ID of the listener. Zero if the sender is the connector.
    pub(crate) listener: Id,
    /// `true` if the listener sent a Retry packet. `false` if the sender is the connector.
    pub(crate) retried: bool,
    pub(crate) limit: u64,
}

impl Parameters {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.first);
        bytes.extend_from_slice(&self.connector);
        if self.side == EndpointSide::Listener {
            bytes.extend_from_slice(&self.listener);
            bytes.push(u8::from(self.retried));
        }
        put_uint(&mut bytes, self.limit, 6);
        bytes.extend_from_slice(&[1, VERSION]);
        bytes
    }

    /// Parses transport parameters that the end on side `side` has sent. Returns `None` if they are
    /// malformed, or if their list of versions does not contain this version.
    pub(crate) fn decode(bytes: &[u8], side: EndpointSide) -> Option<Self> {
        let mut reader = Reader(bytes);
        let id = |reader: &mut Reader<'_>| Id::try_from(reader.take(8).ok()?).ok();
        let (first, connector) = (id(&mut reader)?, id(&mut reader)?);
        let (listener, retried) = match side {
            EndpointSide::Connector => (Id::default(), false),
            EndpointSide::Listener => match (id(&mut reader)?, reader.u8().ok()?) {
                (listener, retried @ 0..=1) => (listener, retried == 1),
                _ => return None,
            },
        };
        let limit = reader.uint(6).ok()?;
        let count = usize::from(reader.u8().ok()?);
        let versions = reader.take(count).ok()?;
        let fits = (1..=MAX_VERSIONS).contains(&count) && versions.contains(&VERSION);
        (fits && reader.is_empty()).then_some(Self {
            side,
            first,
            connector,
            listener,
            retried,
            limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parameters(side: EndpointSide) -> Parameters {
        Parameters {
            side,
            first: [1; 8],
            connector: [2; 8],
            listener: match side {
                EndpointSide::Connector => [0; 8],
                EndpointSide::Listener => [3; 8],
            },
            retried: side == EndpointSide::Listener,
            limit: 1 << 40,
        }
    }

    #[test]
    fn parameters_round_trip_and_malformed_ones_are_rejected() {
        for side in [EndpointSide::Connector, EndpointSide::Listener] {
            let bytes = parameters(side).encode();
            assert_eq!(Parameters::decode(&bytes, side), Some(parameters(side)));
            for length in 0..bytes.len() {
                assert_eq!(Parameters::decode(&bytes[..length], side), None);
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Parameters::decode(&longer, side), None);
            let mut other_version = bytes;
            *other_version.last_mut().unwrap() = VERSION + 1;
            assert_eq!(Parameters::decode(&other_version, side), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Parameters::decode(&bytes, EndpointSide::Listener);
            let _ = Parameters::decode(&bytes, EndpointSide::Connector);
        }
    }
}
