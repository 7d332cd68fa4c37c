//! Distinguishes the packets of the two parties from cross traffic.

use std::time::SystemTime;

/// The port at which one of the parties listens. Packets from or to it belong to the parties. All
/// other packets are cross traffic.
pub const PARTY_PORT: u16 = 7700;

/// The traffic of the parties over a path, without cross traffic.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PartyTraffic {
    /// The time at which either party sent its first packet. It is wall-clock time, so that it can
    /// be compared with times that other processes report.
    pub first_packet: Option<SystemTime>,
    /// Bytes of IP packets that A and B put on the wire, headers and retransmissions included.
    pub sent_bytes: [u64; 2],
}

/// Returns whether a packet is a UDP packet over IPv4, or a fragment of one.
pub(super) fn is_udp(packet: &[u8]) -> bool {
    matches!(packet, [first, ..] if first >> 4 == 4) && packet.get(9) == Some(&17)
}

/// Returns whether an IPv4 packet of TCP or UDP is from or to [`PARTY_PORT`]. Only the first
/// fragment of a fragmented packet counts, because the others have no ports.
pub(super) fn is_of_parties(packet: &[u8]) -> bool {
    let [first, .., _] = packet else { return false };
    if first >> 4 != 4 || !matches!(packet.get(9), Some(6 | 17)) {
        return false;
    }
    // The fragment offset: 13 bits, after 3 bits of flags.
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

    /// Returns a packet with a header of this length in bytes, this protocol and these ports.
    fn packet(header: u8, protocol: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0; usize::from(header)];
        packet[0] = 0x40 | (header / 4);
        packet[9] = protocol;
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet
    }

    #[test]
    fn a_packet_from_or_to_the_port_belongs_to_the_parties() {
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
    fn udp_is_distinguished_from_other_packets() {
        let udp = packet(20, 17, [1, 2]);
        assert!(is_udp(&udp));
        assert!(!is_udp(&packet(20, 6, [1, 2])));
        // A fragment is a UDP packet too, although only the first one has ports.
        let mut later = udp.clone();
        later[7] = 1;
        assert!(is_udp(&later[..20]));
        // `is_udp` rejects packets that are not IPv4, and truncated headers.
        let mut other = udp.clone();
        other[0] = 0x65;
        assert!(!is_udp(&other));
        assert!(!is_udp(&udp[..9]) && !is_udp(&[]));
    }

    #[test]
    fn packets_without_ports_do_not_belong_to_the_parties() {
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
        // The "don't fragment" flag does not make a packet a fragment.
        let mut whole = whole;
        whole[6] = 0x40;
        assert!(is_of_parties(&whole));
        whole[0] = 0x65;
        assert!(!is_of_parties(&whole));
    }
}
