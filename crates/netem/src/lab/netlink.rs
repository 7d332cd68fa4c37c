//! Netlink requests that configure an interface: see `rtnetlink(7)`.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Requests to the network namespace in which a `NETLINK_ROUTE` socket was opened.
///
/// Requests are made one at a time: `&mut self` matches each answer with its request.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// Index and statistics of an interface.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    pub(super) index: u32,
    /// Packets that the kernel dropped because the queue of the interface was full.
    pub(super) tx_dropped: u64,
}

impl Netlink {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            sequence: 0,
        }
    }

    /// Queries an interface by name.
    pub(super) fn link(&mut self, name: &str) -> Result<Link, Errno> {
        let mut body = link_header(0, false).to_vec();
        attribute(&mut body, libc::IFLA_IFNAME, &zero_terminated(name));
        let answer = self.request(libc::RTM_GETLINK, 0, &body)?;
        let index = word(&answer, 4).ok_or(Errno::PROTO)?;
        let statistics = find(answer.get(16..).unwrap_or_default(), libc::IFLA_STATS64);
        // `tx_dropped` is the eighth field of `rtnl_link_stats64`.
        let dropped = statistics.and_then(|counters| counters.get(56..64)?.try_into().ok());
        Ok(Link {
            index,
            tx_dropped: dropped.map_or(0, u64::from_ne_bytes),
        })
    }

    /// Brings an interface up.
    pub(super) fn up(&mut self, index: u32) -> Result<(), Errno> {
        self.request(libc::RTM_NEWLINK, 0, &link_header(index, true))
            .map(drop)
    }

    /// Sets the MTU, in bytes, and the length of the transmit queue, in packets.
    pub(super) fn set_limits(&mut self, index: u32, mtu: u32, queue: u32) -> Result<(), Errno> {
        let mut body = link_header(index, false).to_vec();
        attribute(&mut body, libc::IFLA_MTU, &mtu.to_ne_bytes());
        attribute(&mut body, libc::IFLA_TXQLEN, &queue.to_ne_bytes());
        self.request(libc::RTM_NEWLINK, 0, &body).map(drop)
    }

    /// Assigns an address with a prefix of 32 bits to an interface.
    pub(super) fn add_address(&mut self, index: u32, address: Ipv4Addr) -> Result<(), Errno> {
        let mut body = vec![libc::AF_INET as u8, 32, 0, libc::RT_SCOPE_UNIVERSE];
        body.extend(index.to_ne_bytes());
        attribute(&mut body, libc::IFA_LOCAL, &address.octets());
        attribute(&mut body, libc::IFA_ADDRESS, &address.octets());
        self.request(libc::RTM_NEWADDR, CREATE, &body).map(drop)
    }

    /// Adds a route to one address through an interface, with a TCP congestion control for that
    /// destination.
    pub(super) fn add_route(
        &mut self,
        index: u32,
        from: Ipv4Addr,
        to: Ipv4Addr,
        congestion_control: Option<&str>,
    ) -> Result<(), Errno> {
        let mut body = vec![
            libc::AF_INET as u8,
            32,
            0,
            0,
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_LINK,
            libc::RTN_UNICAST,
        ];
        body.extend(0u32.to_ne_bytes());
        attribute(&mut body, libc::RTA_DST, &to.octets());
        attribute(&mut body, libc::RTA_PREFSRC, &from.octets());
        attribute(&mut body, libc::RTA_OIF, &index.to_ne_bytes());
        if let Some(name) = congestion_control {
            let mut metrics = Vec::new();
            attribute(&mut metrics, RTAX_CC_ALGO, &zero_terminated(name));
            attribute(&mut body, libc::RTA_METRICS, &metrics);
        }
        self.request(libc::RTM_NEWROUTE, CREATE, &body).map(drop)
    }

    /// Sends a request and returns the body of its answer. The body is empty for a plain
    /// acknowledgement.
    fn request(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<Vec<u8>, Errno> {
        self.sequence += 1;
        let question = kind == libc::RTM_GETLINK;
        let flags =
            flags | libc::NLM_F_REQUEST as u16 | if question { 0 } else { libc::NLM_F_ACK as u16 };
        let length = (HEADER + body.len()) as u32;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(body);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = vec![0; 32 << 10];
        loop {
            let (_, length) = recv(&self.socket, &mut *answer, RecvFlags::empty())?;
            let received = &answer[..length.min(answer.len())];
            if word(received, 8) != Some(self.sequence) {
                continue;
            }
            let kind = u16::from_ne_bytes(
                received
                    .get(4..6)
                    .and_then(|two| two.try_into().ok())
                    .ok_or(Errno::PROTO)?,
            );
            if kind != libc::NLMSG_ERROR as u16 {
                return Ok(received[HEADER..].to_vec());
            }
            return match word(received, HEADER).ok_or(Errno::PROTO)? as i32 {
                0 => Ok(Vec::new()),
                code => Err(Errno::from_raw_os_error(-code)),
            };
        }
    }
}

/// The length of `nlmsghdr`, in bytes.
const HEADER: usize = 16;

/// Flags of a request that creates an object and fails if it exists.
const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;

/// The number of the route metric for the congestion control in linux/rtnetlink.h. The crate libc
/// does not define it.
const RTAX_CC_ALGO: u16 = 16;

/// Returns an `ifinfomsg` for an interface.
fn link_header(index: u32, up: bool) -> [u8; 16] {
    let flags = if up { libc::IFF_UP as u32 } else { 0 };
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&flags.to_ne_bytes());
    header
}

fn zero_terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// Appends an `rtattr`, padded to a multiple of four bytes.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Returns the value of an attribute.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let this = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        if this == kind {
            return attributes.get(4..length);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_found_after_others() {
        let mut body = Vec::new();
        attribute(&mut body, 3, b"wan0\0");
        attribute(&mut body, 4, &1500u32.to_ne_bytes());
        assert_eq!(body.len(), 12 + 8);
        assert_eq!(find(&body, 4), Some(&1500u32.to_ne_bytes()[..]));
        assert_eq!(find(&body, 3), Some(&b"wan0\0"[..]));
        assert_eq!(find(&body, 5), None);
        // Neither a length of zero nor one past the end makes the search endless.
        assert_eq!(find(&[0; 12], 5), None);
        assert_eq!(find(&[255, 255, 5, 0], 5), None);
    }

    #[test]
    fn the_current_namespace_answers() {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::NETLINK,
            rustix::net::SocketType::RAW,
            None,
        );
        let mut netlink = Netlink::new(socket.unwrap());
        assert_eq!(netlink.link("lo").unwrap().index, 1);
        assert_eq!(netlink.link("no-such-link").unwrap_err(), Errno::NODEV);
    }
}
