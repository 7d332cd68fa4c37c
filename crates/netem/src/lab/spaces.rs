//! Two anonymous network namespaces with a TUN device each.

use std::ffi::{CStr, CString};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::child::{Failure, fetch};
use super::netlink::Netlink;
use super::{LabError, Side};
use crate::scenario::Scenario;

/// The length of the transmit queue of a TUN device, in packets. TCP hands over a whole window at
/// once, so the kernel's default of 500 packets would overflow and act as a second bottleneck.
const READ_QUEUE: u32 = 16_384;

const DEVICE: &str = "wan0";

/// The two network namespaces. They have no names, and exist while this value or a process in them
/// exists.
#[derive(Debug)]
pub(super) struct Spaces {
    /// The user namespace that owns the others, if this process lacked `CAP_SYS_ADMIN`.
    user: Option<OwnedFd>,
    net: [OwnedFd; 2],
}

/// The descriptors that this process holds for one namespace.
#[derive(Debug)]
pub(super) struct Port {
    /// The TUN device, non-blocking.
    pub(super) tun: OwnedFd,
    pub(super) netlink: Netlink,
}

impl Port {
    /// Returns the number of packets that the kernel dropped because they were not read in time.
    pub(super) fn overruns(&mut self) -> Result<u64, Errno> {
        Ok(self.netlink.link(DEVICE)?.tx_dropped)
    }
}

impl Spaces {
    /// Creates both namespaces and brings their interfaces up.
    pub(super) fn create(scenario: &Scenario) -> Result<(Self, [Port; 2]), LabError> {
        let settings = Settings::new(scenario)?;
        let plan = Plan {
            uid_map: format!("0 {} 1", rustix::process::geteuid().as_raw()),
            gid_map: format!("0 {} 1", rustix::process::getegid().as_raw()),
            sysctls: &settings.sysctls,
        };
        #[expect(unsafe_code, reason = "forks a child")]
        // SAFETY: `build` makes only system calls on data that `plan` already holds.
        let (own_user, fds) = unsafe { fetch(|| build(&plan)) }
            .map_err(|failure| error_for_step(failure, &settings))?;
        // `fetch` has checked that the child sent exactly seven descriptors.
        let Ok([user, net_a, tun_a, link_a, net_b, tun_b, link_b]) = <[OwnedFd; 7]>::try_from(fds)
        else {
            return Err(LabError::setup("pass descriptors", Errno::PROTO));
        };
        let spaces = Self {
            user: (own_user == 1).then_some(user),
            net: [net_a, net_b],
        };
        let port = |tun, netlink| Port {
            tun,
            netlink: Netlink::new(netlink),
        };
        let mut ports = [port(tun_a, link_a), port(tun_b, link_b)];
        for (port, side) in ports.iter_mut().zip([Side::A, Side::B]) {
            configure(port, side, scenario.mtu, &settings)?;
        }
        Ok((spaces, ports))
    }

    /// Moves the calling process to the namespaces of a side. The process must have only one
    /// thread.
    ///
    /// Makes only system calls, and so may be called between `fork` and `exec`.
    pub(super) fn enter(&self, side: Side) -> Result<(), Errno> {
        if let Some(user) = &self.user {
            move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        }
        move_into_link_name_space(
            self.net[side.index()].as_fd(),
            Some(LinkNameSpaceType::Network),
        )
    }

    /// Returns a descriptor of a side's namespace.
    pub(super) fn namespace(&self, side: Side) -> io::Result<OwnedFd> {
        self.net[side.index()].try_clone()
    }

    /// Opens the statistics of a side's network protocols. Each read of the file returns current
    /// values.
    pub(super) fn statistics(&self, side: Side) -> io::Result<OwnedFd> {
        self.open_on(side, || {
            // The namespace of such a file is that of the process that opens it.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            open(c"/proc/self/net/snmp", flags, Mode::empty())
        })
    }

    /// Opens an IPv4 socket that belongs to a side, for use by this process.
    pub(super) fn socket(&self, side: Side, kind: SocketType) -> io::Result<OwnedFd> {
        self.open_on(side, || {
            socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)
        })
    }

    /// Opens a descriptor on a side. `open` must make only system calls.
    fn open_on(
        &self,
        side: Side,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> io::Result<OwnedFd> {
        let job = || {
            let at = |errno| Failure { step: 0, errno };
            self.enter(side).map_err(at)?;
            open().map(|opened| (0, [opened])).map_err(at)
        };
        #[expect(unsafe_code, reason = "forks a child")]
        // SAFETY: `job` makes only system calls.
        let (_, opened) =
            unsafe { fetch(job) }.map_err(|failure| io::Error::from(failure.errno))?;
        opened.into_iter().next().ok_or_else(|| Errno::PROTO.into())
    }
}

/// The settings of the namespaces.
struct Settings {
    /// Paths below /proc/sys and the values to write.
    sysctls: Vec<(CString, Vec<u8>)>,
    /// The congestion control of the scenario, if a namespace may not have it as its default and it
    /// must be set on the routes.
    route_congestion_control: Option<String>,
}

impl Settings {
    fn new(scenario: &Scenario) -> Result<Self, LabError> {
        let mut sysctls = vec![
            // Disables router solicitations and listener reports: they would change which packets
            // the loss pattern drops.
            sysctl("net/ipv6/conf/all/disable_ipv6", "1"),
            sysctl("net/ipv6/conf/default/disable_ipv6", "1"),
        ];
        if let Some(bytes) = scenario.socket_buffer {
            for name in ["net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"] {
                let now = std::fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
                let mut now = now
                    .split_whitespace()
                    .map_while(|word| word.parse::<u64>().ok());
                let min = now.next().unwrap_or(4096).min(bytes);
                let initial = now.next().unwrap_or(131_072).min(bytes);
                sysctls.push(sysctl(name, &format!("{min} {initial} {bytes}")));
            }
        }
        let mut route_congestion_control = None;
        if let Some(name) = &scenario.congestion_control {
            let listed = |file: &str| {
                let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{file}"))
                    .unwrap_or_default();
                text.split_whitespace().any(|word| word == name)
            };
            if listed("tcp_allowed_congestion_control") {
                sysctls.push(sysctl("net/ipv4/tcp_congestion_control", name));
            } else {
                // The sysctl of a namespace accepts only the congestion controls that the host
                // allows to everyone. A route accepts all that the kernel has.
                route_congestion_control = Some(name.clone());
            }
        }
        Ok(Self {
            sysctls,
            route_congestion_control,
        })
    }
}

fn sysctl(name: &str, value: &str) -> (CString, Vec<u8>) {
    // The fallback is never taken: the names contain no zero bytes.
    (
        CString::new(format!("/proc/sys/{name}")).unwrap_or_default(),
        value.as_bytes().to_vec(),
    )
}

/// The data that the child needs, allocated before the fork.
struct Plan<'a> {
    uid_map: String,
    gid_map: String,
    sysctls: &'a [(CString, Vec<u8>)],
}

/// Numbers of the steps of [`build`], as the child reports them.
mod step {
    pub(super) const USER_NAMESPACE: u32 = 0;
    pub(super) const ID_MAP: u32 = 1;
    pub(super) const NET_NAMESPACE: u32 = 2;
    pub(super) const OPEN_TUN: u32 = 3;
    pub(super) const ATTACH_TUN: u32 = 4;
    pub(super) const OPEN_NAMESPACE: u32 = 5;
    pub(super) const NETLINK: u32 = 6;
    /// The step of the first sysctl. The index of a sysctl is added to it.
    pub(super) const SYSCTL: u32 = 100;
}

/// Creates both namespaces. Runs in the child and makes only system calls.
#[expect(unsafe_code, reason = "unshare and ioctl have no safe wrapper")]
fn build(plan: &Plan<'_>) -> Result<(u32, [OwnedFd; 7]), Failure> {
    let at = |step| move |errno| Failure { step, errno };
    // SAFETY: the child has one thread, and keeps its table of descriptors.
    let new_net = || unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
    let own_user = match new_net() {
        Ok(()) => false,
        Err(Errno::PERM) => {
            // SAFETY: the child has one thread, and a new user namespace does not change its
            // descriptors.
            unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(at(step::USER_NAMESPACE))?;
            write_file(c"/proc/self/setgroups", b"deny").map_err(at(step::ID_MAP))?;
            write_file(c"/proc/self/uid_map", plan.uid_map.as_bytes()).map_err(at(step::ID_MAP))?;
            write_file(c"/proc/self/gid_map", plan.gid_map.as_bytes()).map_err(at(step::ID_MAP))?;
            new_net().map_err(at(step::NET_NAMESPACE))?;
            true
        }
        Err(errno) => return Err(at(step::NET_NAMESPACE)(errno)),
    };
    let read = OFlags::RDONLY | OFlags::CLOEXEC;
    let user =
        open(c"/proc/self/ns/user", read, Mode::empty()).map_err(at(step::OPEN_NAMESPACE))?;
    let [net_a, tun_a, link_a] = set_up_namespace(plan)?;
    new_net().map_err(at(step::NET_NAMESPACE))?;
    let [net_b, tun_b, link_b] = set_up_namespace(plan)?;
    Ok((
        u32::from(own_user),
        [user, net_a, tun_a, link_a, net_b, tun_b, link_b],
    ))
}

/// Opens the descriptors of the namespace that the child is in, and applies the sysctls. Makes only
/// system calls.
#[expect(unsafe_code, reason = "ioctl has no safe wrapper")]
fn set_up_namespace(plan: &Plan<'_>) -> Result<[OwnedFd; 3], Failure> {
    let at = |step| move |errno| Failure { step, errno };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let tun = open(c"/dev/net/tun", flags, Mode::empty()).map_err(at(step::OPEN_TUN))?;
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(DEVICE.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
    let attached = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if attached < 0 {
        let error = io::Error::last_os_error();
        return Err(at(step::ATTACH_TUN)(
            Errno::from_io_error(&error).unwrap_or(Errno::IO),
        ));
    }
    let read = OFlags::RDONLY | OFlags::CLOEXEC;
    let net = open(c"/proc/self/ns/net", read, Mode::empty()).map_err(at(step::OPEN_NAMESPACE))?;
    // Protocol 0 is NETLINK_ROUTE.
    let link = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(at(step::NETLINK))?;
    for (index, (path, value)) in plan.sysctls.iter().enumerate() {
        match write_file(path, value) {
            Ok(()) => {}
            // A kernel without IPv6 lacks the first two settings, which disable it.
            Err(Errno::NOENT) if index < 2 => {}
            Err(errno) => return Err(at(step::SYSCTL + index as u32)(errno)),
        }
    }
    Ok([net, tun, link])
}

fn write_file(path: &CStr, text: &[u8]) -> Result<(), Errno> {
    let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text).map(drop)
}

/// Assigns a side its address and its route to the other side.
fn configure(port: &mut Port, side: Side, mtu: u32, settings: &Settings) -> Result<(), LabError> {
    let link = &mut port.netlink;
    let setup = |what| move |errno| LabError::setup(what, errno);
    let index = link
        .link(DEVICE)
        .map_err(setup("find the TUN device"))?
        .index;
    link.set_limits(index, mtu, READ_QUEUE)
        .map_err(setup("set the MTU"))?;
    link.up(1)
        .map_err(setup("bring the loopback interface up"))?;
    link.up(index).map_err(setup("bring the TUN device up"))?;
    let (own, peer): (Ipv4Addr, Ipv4Addr) = (side.ipv4(), side.other().ipv4());
    link.add_address(index, own)
        .map_err(setup("add an address"))?;
    let control = settings.route_congestion_control.as_deref();
    link.add_route(index, own, peer, control)
        .map_err(|errno| match control {
            Some(name) if errno == Errno::INVAL => LabError::no_congestion_control(name),
            _ => LabError::setup("add a route", errno),
        })
}

/// Returns the error for a failed step.
fn error_for_step(failure: Failure, settings: &Settings) -> LabError {
    let Failure { step, errno } = failure;
    match step {
        step::USER_NAMESPACE | step::ID_MAP | step::NET_NAMESPACE => LabError::Privileges {
            source: errno.into(),
        },
        step::OPEN_TUN => LabError::NoTun {
            source: errno.into(),
        },
        step::ATTACH_TUN => LabError::setup("create a TUN device", errno),
        step::OPEN_NAMESPACE => LabError::setup("open /proc/self/ns", errno),
        step::NETLINK => LabError::setup("open a netlink socket", errno),
        _ => match (step.checked_sub(step::SYSCTL))
            .and_then(|index| settings.sysctls.get(index as usize))
        {
            Some((path, _)) => LabError::Sysctl {
                path: path.to_string_lossy().into_owned(),
                source: errno.into(),
            },
            None => LabError::setup("fork", errno),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use super::*;
    use crate::testing::unless_skipped;

    #[test]
    fn packets_that_are_not_read_are_counted() {
        let scenario = Scenario::named("loopback").unwrap();
        let Some((spaces, mut ports)) = unless_skipped(Spaces::create(&scenario)) else {
            return;
        };
        assert_eq!(ports[0].overruns(), Ok(0));
        let socket: UdpSocket = spaces.socket(Side::A, SocketType::DGRAM).unwrap().into();
        let to = SocketAddr::new(Side::B.ipv4().into(), 9);
        for _ in 0..READ_QUEUE + 100 {
            socket.send_to(b"x", to).unwrap();
        }
        assert_eq!(ports[0].overruns(), Ok(100));
        assert_eq!(ports[1].overruns(), Ok(0));
    }
}
