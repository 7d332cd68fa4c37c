//! Two network namespaces, joined by an emulated path. [`Lab::start`] creates both the namespaces
//! and the path. [`Lab::command`] starts programs on a side, and [`Lab::connect`], [`Lab::listen`]
//! and [`Lab::udp`] open sockets on a side for code of this process. The namespaces and devices
//! have no name outside the lab. They exist while descriptors and processes refer to them, so
//! nothing remains when this process ends, however it ends. No interface, route or setting of the
//! host is changed.
//!
//! A lab needs read and write permission on `/dev/net/tun`, and either `CAP_SYS_ADMIN` or user
//! namespaces (as `unshare -Urn`).

mod child;
mod error;
mod flow;
mod forward;
mod icmp;
mod netlink;
mod process;
mod spaces;
mod timeline;
mod view;

use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::SocketType;

pub use error::LabError;
pub use flow::{PARTY_PORT, PartyTraffic};
pub use process::end_with_parent;
pub use timeline::Timeline;
pub use view::View;

use self::forward::Forwarder;
use self::spaces::{Port, Spaces};
use crate::model::PathCounters;
use crate::scenario::Scenario;

/// One end of the path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// The start of [`Scenario::up`].
    A,
    /// The start of [`Scenario::down`].
    B,
}

impl Side {
    /// Returns the other end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// Returns 0 for [`Side::A`] and 1 for [`Side::B`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    fn ipv4(self) -> Ipv4Addr {
        match self {
            Self::A => Ipv4Addr::new(10, 77, 0, 1),
            Self::B => Ipv4Addr::new(10, 77, 0, 2),
        }
    }
}

/// A running path. Dropping it stops the path. Programs started on it run until they end, or until
/// this process ends.
#[derive(Debug)]
pub struct Lab {
    // This field is declared before the ports, because fields are dropped in this order and the
    // forwarder must stop before the ports are closed.
    forwarder: Forwarder,
    ports: [Port; 2],
    spaces: Arc<Spaces>,
}

impl Lab {
    /// Sets up both sides and the path between them.
    ///
    /// Time zero of the scenario's changes is the first packet from either side. Cross traffic is
    /// not started: use [`listen`](Self::listen) and [`connect`](Self::connect) for it.
    ///
    /// The default congestion control of a namespace can only be one that the host allows to
    /// everyone. Any other is set on the route to the other side, where it also overrides the
    /// choice that a socket makes before it connects.
    ///
    /// # Errors
    /// Returns a [`LabError`] that names the invalid field of the scenario, or the missing
    /// privilege or device.
    pub fn start(scenario: &Scenario) -> Result<Self, LabError> {
        scenario.validate()?;
        let (spaces, ports) = Spaces::create(scenario)?;
        let start = || {
            let tuns = [ports[0].tun.try_clone()?, ports[1].tun.try_clone()?];
            Forwarder::start(tuns, scenario)
        };
        let forwarder = start().map_err(|source| LabError::Setup {
            what: "start the forwarder",
            source,
        })?;
        Ok(Self {
            forwarder,
            ports,
            spaces: Arc::new(spaces),
        })
    }

    /// Returns the address of a side, at which the other side can reach it.
    #[must_use]
    pub fn address(&self, side: Side) -> IpAddr {
        side.ipv4().into()
    }

    /// Prepares a program that will run on a side.
    ///
    /// The program is killed when the thread that spawns it ends, and so at the latest with this
    /// process. Spawn it from a thread that outlives it. Processes that the program starts itself
    /// are not killed. Without privileges, the program runs as root of a user namespace in which
    /// the user's files belong to root.
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        let spaces = Arc::clone(&self.spaces);
        let mut command = Command::new(program);
        #[expect(unsafe_code, reason = "runs between fork and exec")]
        // SAFETY: `enter` makes system calls only; its captures were allocated before.
        unsafe {
            command.pre_exec(move || Ok(spaces.enter(side)?));
        }
        // This is set after `enter`, because entering a user namespace clears the setting.
        end_with_parent(&mut command);
        command
    }

    /// Opens a TCP socket of this process on a side, connects it and returns it.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn connect(&self, side: Side, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = self.socket(side, SocketType::STREAM)?;
        rustix::net::connect(&socket, &to)?;
        Ok(socket.into())
    }

    /// Opens a listener of this process on a side. Port 0 selects a free port.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn listen(&self, side: Side, port: u16) -> io::Result<TcpListener> {
        let socket = self.socket(side, SocketType::STREAM)?;
        rustix::net::bind(&socket, &SocketAddr::new(self.address(side), port))?;
        rustix::net::listen(&socket, 64)?;
        Ok(socket.into())
    }

    /// Opens a UDP socket of this process on a side. Port 0 selects a free port.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn udp(&self, side: Side, port: u16) -> io::Result<UdpSocket> {
        let socket = self.socket(side, SocketType::DGRAM)?;
        rustix::net::bind(&socket, &SocketAddr::new(self.address(side), port))?;
        Ok(socket.into())
    }

    /// Returns the packet counters of the directions up and down, up to now.
    #[must_use]
    pub fn counters(&self) -> [PathCounters; 2] {
        self.forwarder.published().counters
    }

    /// Returns the number of bytes that arrived in each interval of [`Timeline::INTERVAL`].
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.forwarder.published().timeline.clone()
    }

    /// Returns the time at which either side sent the first packet.
    #[must_use]
    pub fn first_packet(&self) -> Option<Instant> {
        self.forwarder.published().first_packet
    }

    /// Returns a handle that another thread can use to observe the path. The handle does not keep
    /// the path running.
    #[must_use]
    pub fn view(&self) -> View {
        let statistics = |side| self.spaces.statistics(side).ok();
        View::new(
            self.forwarder.share(),
            [statistics(Side::A), statistics(Side::B)],
        )
    }

    /// Returns the traffic of the parties up to now: see [`PARTY_PORT`].
    #[must_use]
    pub fn party_traffic(&self) -> PartyTraffic {
        self.forwarder.published().parties
    }

    /// Returns the number of packets from A and from B that the emulator was too slow to read.
    ///
    /// These packets were lost, but not by the path: a result with any of them does not represent
    /// the scenario.
    ///
    /// # Errors
    /// Returns [`LabError::Forwarder`] if the emulator has stopped, and [`LabError::Setup`] if the
    /// kernel does not answer.
    pub fn overruns(&mut self) -> Result<[u64; 2], LabError> {
        if let Some(problem) = &self.forwarder.published().failure {
            return Err(LabError::Forwarder {
                problem: problem.clone(),
            });
        }
        let [a, b] = &mut self.ports;
        let count = |port: &mut Port| {
            (port.overruns()).map_err(|errno| LabError::setup("read statistics", errno))
        };
        Ok([count(a)?, count(b)?])
    }

    /// Returns the network namespace of a side.
    ///
    /// # Errors
    /// Returns an error if the descriptor cannot be duplicated.
    pub fn namespace(&self, side: Side) -> io::Result<OwnedFd> {
        self.spaces.namespace(side)
    }

    fn socket(&self, side: Side, kind: SocketType) -> io::Result<OwnedFd> {
        self.spaces.socket(side, kind)
    }
}
