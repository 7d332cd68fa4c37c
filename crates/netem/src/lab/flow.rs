//! Which packets are those of the two parties, and not of traffic beside them.

use std::time::SystemTime;

/// The port at which one of the parties listens. Packets from and to it are those of the parties,
/// all others are cross traffic.
pub const PARTY_PORT: u16 = 7700;

/// What the parties sent over a path, cross traffic left out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PartyTraffic {
    /// When the first packet was sent, by either party. By the system's clock, to compare with what
    /// processes tell; read together with the packet.
    pub first_packet: Option<SystemTime>,
    /// Bytes of IP packets that A and B put on the wire, headers and retransmissions included.
    pub sent_bytes: [u64; 2],
}

/// Tells whether a packet is one of UDP over IPv4, or a fragment of one.
pub(super) fn is_udp(packet: &[u8]) -> bool {
    matches!(packet, [first, ..] if first >> 4 == 4) && packet.get(9) == Some(&17)
}

/// Tells whether an IPv4 packet of TCP or UDP is from or to [`PARTY_PORT`]. Of a packet in
/// fragments only the first one is: the others have no ports.
pub(super) fn is_of_parties(packet: &[u8]) -> bool {
    let [first, .., _] = packet else { return false };
    if first >> 4 != 4 || !matches!(packet.get(9), Some(6 | 17)) {
        return false;
    }
    // The position within the whole packet: 13 bits below 3 flags.
    if !matches!(packet.get(6..8), Some([flags, 0]) if flags & 0x1f == 0) {
        return false;
    }
    let header = usize::from(first & 0x0f) * 4;
    let port =
        |at: usize| (packet.get(at..at + 2)).is_some_and(|bytes| bytes == PARTY_PORT.to_be_bytes());
    header >= 20 && (port(header) || port(header + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with a header of so many bytes, of this protocol, between these ports.
    fn packet(header: u8, protocol: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0; usize::from(header)];
        packet[0] = 0x40 | (header / 4);
        packet[9] = protocol;
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet
    }

    #[test]
    fn the_port_tells_either_way() {
        for header in [20, 24, 60] {
            for protocol in [6, 17] {
                assert!(is_of_parties(&packet(
                    header,
                    protocol,
                    [40_000, PARTY_PORT]
                )));
                assert!(is_of_parties(&packet(
                    header,
                    protocol,
                    [PARTY_PORT, 40_000]
                )));
                assert!(!is_of_parties(&packet(header, protocol, [40_000, 40_001])));
            }
            assert!(!is_of_parties(&packet(header, 1, [PARTY_PORT, PARTY_PORT])));
        }
    }

    #[test]
    fn udp_is_told_from_all_else() {
        let udp = packet(20, 17, [1, 2]);
        assert!(is_udp(&udp));
        assert!(!is_udp(&packet(20, 6, [1, 2])));
        // Its fragments too, the later ones of which have no ports.
        let mut later = udp.clone();
        later[7] = 1;
        assert!(is_udp(&later[..20]));
        // Not IPv4, and no whole header.
        let mut other = udp.clone();
        other[0] = 0x65;
        assert!(!is_udp(&other));
        assert!(!is_udp(&udp[..9]) && !is_udp(&[]));
    }

    #[test]
    fn what_has_no_ports_is_of_nobody() {
        let whole = packet(20, 6, [PARTY_PORT, PARTY_PORT]);
        for length in 0..22 {
            assert!(!is_of_parties(&whole[..length]), "{length} bytes");
        }
        let mut later = whole.clone();
        later[7] = 1;
        assert!(!is_of_parties(&later));
        let mut later = whole.clone();
        later[6] = 0x10;
        assert!(!is_of_parties(&later));
        // Not to be taken apart.
        let mut whole = whole;
        whole[6] = 0x40;
        assert!(is_of_parties(&whole));
        whole[0] = 0x65;
        assert!(!is_of_parties(&whole));
    }
}
