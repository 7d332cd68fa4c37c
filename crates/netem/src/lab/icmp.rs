//! The ICMP message that a router sends when a packet is too large.

/// Number of bytes of the packet that the message quotes: an IPv4 header without options, and the
/// eight bytes after it (RFC 792).
const QUOTED_BYTES: usize = 28;

/// Returns the ICMP message "fragmentation needed" with the largest size that passes (RFC 792, RFC
/// 1191). The message goes from the address of the other end to the sender.
///
/// Returns `None` for a packet that is not IPv4, and for ICMP: errors of ICMP messages are not
/// reported (RFC 1122, section 3.2.2).
pub(super) fn too_big(packet: &[u8], largest: u32) -> Option<Vec<u8>> {
    let quoted = packet.get(..QUOTED_BYTES)?;
    if quoted[0] >> 4 != 4 || quoted[9] == ICMP {
        return None;
    }
    let mut icmp = vec![UNREACHABLE, FRAGMENTATION_NEEDED, 0, 0, 0, 0];
    icmp.extend(u16::try_from(largest).unwrap_or(u16::MAX).to_be_bytes());
    icmp.extend(quoted);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());

    // The length is at most 56 bytes, so it fits into u16.
    let length = (HEADER + icmp.len()) as u16;
    let mut message = vec![0x45, 0];
    message.extend(length.to_be_bytes());
    message.extend([0, 0, 0, 0, TTL, ICMP, 0, 0]);
    message.extend(&packet[16..20]);
    message.extend(&packet[12..16]);
    let sum = checksum(&message);
    message[10..12].copy_from_slice(&sum.to_be_bytes());
    message.extend(icmp);
    Some(message)
}

/// Length of an IPv4 header without options, in bytes.
const HEADER: usize = 20;
const TTL: u8 = 64;
const ICMP: u8 = 1;
const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;

/// The Internet checksum of an even number of bytes (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = (bytes.chunks_exact(2))
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_well_formed() {
        let mut packet = vec![0; 1500];
        packet[0] = 0x45;
        packet[9] = 17;
        packet[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
        packet[20..28].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let message = too_big(&packet, 1300).unwrap();
        assert_eq!(message.len(), 56);
        assert_eq!(message[2..4], 56u16.to_be_bytes());
        assert_eq!(message[12..20], [10, 77, 0, 2, 10, 77, 0, 1]);
        assert_eq!(message[20..22], [3, 4]);
        assert_eq!(message[26..28], 1300u16.to_be_bytes());
        assert_eq!(message[28..], packet[..28]);
        // The checksum over data that includes its own checksum is zero.
        assert_eq!((checksum(&message[..20]), checksum(&message[20..])), (0, 0));
    }

    #[test]
    fn no_message_for_icmp_or_what_is_not_ipv4() {
        let mut packet = vec![0; 1500];
        packet[0] = 0x45;
        packet[9] = ICMP;
        assert_eq!(too_big(&packet, 1300), None);
        packet[0] = 0x60;
        packet[9] = 17;
        assert_eq!(too_big(&packet, 1300), None);
        assert_eq!(too_big(&[0x45; 27], 1300), None);
    }
}
