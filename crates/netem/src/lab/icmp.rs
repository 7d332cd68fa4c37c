//! What a router tells a sender whose packet is too large.

/// How much of the packet is quoted: its header without options and the eight bytes behind it that
/// RFC 792 asks for.
const QUOTED: usize = 28;

/// Makes the message that a packet needed fragmentation, and how large one may be (RFC 792 and RFC
/// 1191), from the other end's address to the sender's.
///
/// `None` for what is not IPv4, and for ICMP itself, about whose errors nobody is told (RFC 1122,
/// section 3.2.2).
pub(super) fn too_big(packet: &[u8], largest: u32) -> Option<Vec<u8>> {
    let quoted = packet.get(..QUOTED)?;
    if quoted[0] >> 4 != 4 || quoted[9] == ICMP {
        return None;
    }
    let mut icmp = vec![UNREACHABLE, FRAGMENTATION_NEEDED, 0, 0, 0, 0];
    icmp.extend(u16::try_from(largest).unwrap_or(u16::MAX).to_be_bytes());
    icmp.extend(quoted);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());

    // At most 56.
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
        // The sum over what contains its own sum is zero.
        assert_eq!((checksum(&message[..20]), checksum(&message[20..])), (0, 0));
    }

    #[test]
    fn nobody_is_told_of_what_is_no_packet_or_itself_such_a_message() {
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
