//! Two network namespaces, joined by an emulated path.
//!
//! ```text
//!   party A                                                     party B
//!   sockets, TCP of the kernel                                  sockets, TCP of the kernel
//!   wan0 (TUN) 10.77.0.1   --->  forwarder thread: up    --->   wan0 (TUN) 10.77.0.2
//!                          <---  (crate::model)    down  <---
//! ```
//!
//! [`Lab::start`] makes both; [`Lab::command`] starts programs on a side, and [`Lab::connect`],
//! [`Lab::listen`] and [`Lab::udp`] open sockets there for code of this process. Neither the
//! namespaces nor the devices have a name outside, and nothing of the host is changed: no
//! interface, no route, no setting. They last as long as descriptors and processes refer to them,
//! so nothing is left whatever way this process ends.
//!
//! This takes read and write permission on `/dev/net/tun`, and either `CAP_SYS_ADMIN` or user
//! namespaces, as `unshare -Urn` does.

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

/// An end of the path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// Where [`Scenario::up`] starts.
    A,
    /// Where [`Scenario::down`] starts.
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

/// A running path. Dropping it takes the path down; programs that were started on it stay until
/// they end, or until this process does.
#[derive(Debug)]
pub struct Lab {
    // Before the ports: the forwarder must be gone when they go.
    forwarder: Forwarder,
    ports: [Port; 2],
    spaces: Arc<Spaces>,
}

impl Lab {
    /// Sets up both sides and the path between them.
    ///
    /// Time zero of the scenario's changes is the first packet from either side. Cross traffic is
    /// not started: [`listen`](Self::listen) and [`connect`](Self::connect) are what to make it
    /// with.
    ///
    /// A congestion control that the host does not allow to everyone cannot be the default of a
    /// namespace. It is set on the route to the other side instead, where it also overrides what a
    /// socket asks for before it connects.
    ///
    /// # Errors
    /// [`LabError`], which says what is wrong with the scenario, or which privilege or device is
    /// missing.
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

    /// Returns the address of a side, which the other one can reach.
    #[must_use]
    pub fn address(&self, side: Side) -> IpAddr {
        side.ipv4().into()
    }

    /// Prepares a program that will run on a side.
    ///
    /// It is killed when the thread that spawns it ends, and so at the latest with this process:
    /// spawn from a thread that stays. What the program starts in turn is its own affair. Without
    /// privileges, the program finds itself as root of a user namespace in which the files of the
    /// user are those of root.
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        let spaces = Arc::clone(&self.spaces);
        let mut command = Command::new(program);
        #[expect(unsafe_code, reason = "runs between fork and exec")]
        // SAFETY: `enter` makes system calls only; its captures were allocated before.
        unsafe {
            command.pre_exec(move || Ok(spaces.enter(side)?));
        }
        // After it: entering a user namespace would undo this.
        end_with_parent(&mut command);
        command
    }

    /// Opens a TCP socket of this process that belongs to a side, connects it and returns it.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(&self, side: Side, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = self.socket(side, SocketType::STREAM)?;
        rustix::net::connect(&socket, &to)?;
        Ok(socket.into())
    }

    /// Opens a listener of this process on a side. Port 0 takes a free one.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen(&self, side: Side, port: u16) -> io::Result<TcpListener> {
        let socket = self.socket(side, SocketType::STREAM)?;
        rustix::net::bind(&socket, &SocketAddr::new(self.address(side), port))?;
        rustix::net::listen(&socket, 64)?;
        Ok(socket.into())
    }

    /// Opens a UDP socket of this process on a side. Port 0 takes a free one.
    ///
    /// # Errors
    /// What the system says.
    pub fn udp(&self, side: Side, port: u16) -> io::Result<UdpSocket> {
        let socket = self.socket(side, SocketType::DGRAM)?;
        rustix::net::bind(&socket, &SocketAddr::new(self.address(side), port))?;
        Ok(socket.into())
    }

    /// Returns what happened on the way up and on the way down, up to now.
    #[must_use]
    pub fn counters(&self) -> [PathCounters; 2] {
        self.forwarder.published().counters
    }

    /// Returns what arrived when.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.forwarder.published().timeline.clone()
    }

    /// Returns when the first packet was sent, by either side.
    #[must_use]
    pub fn first_packet(&self) -> Option<Instant> {
        self.forwarder.published().first_packet
    }

    /// Returns what looks at the path from elsewhere, such as another thread. It does not keep the
    /// path up.
    #[must_use]
    pub fn view(&self) -> View {
        let statistics = |side| self.spaces.statistics(side).ok();
        View::new(
            self.forwarder.share(),
            [statistics(Side::A), statistics(Side::B)],
        )
    }

    /// Returns what of the traffic up to now was that of the parties: see [`PARTY_PORT`].
    #[must_use]
    pub fn party_traffic(&self) -> PartyTraffic {
        self.forwarder.published().parties
    }

    /// Returns how many packets from A and from B the emulator was too slow to read.
    ///
    /// They were lost, but not by the path: a result with any of them is not one of the scenario.
    ///
    /// # Errors
    /// [`LabError::Forwarder`] where the emulator has stopped working, [`LabError::Setup`] where
    /// the kernel does not answer.
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
    /// If the descriptor cannot be duplicated.
    pub fn namespace(&self, side: Side) -> io::Result<OwnedFd> {
        self.spaces.namespace(side)
    }

    fn socket(&self, side: Side, kind: SocketType) -> io::Result<OwnedFd> {
        self.spaces.socket(side, kind)
    }
}
