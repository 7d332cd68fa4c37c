//! Forwards connections of any TCP program over one link of a Transpute transport.
//!
//! A [`Tunnel`] multiplexes streams over a [`Link`](transpute_transport::Link). Each side can
//! [listen](Forward) on local TCP ports and Unix sockets. For each connection, the peer
//! connects to a target that it [allows](TunnelConfig::allow). A program can also
//! [open](Tunnel::open) a stream without a socket.
//!
//! | module of the crate | content |
//! | --- | --- |
//! | `address` | addresses of sockets and targets |
//! | `frame` | encoding and decoding of frames, without I/O |
//! | `window` | flow control of a stream, without I/O |
//! | `queue` | bytes that wait for a local program |
//! | `stream` | the state of a stream |
//! | `local`, `pipe` | the local end of a stream: a socket, or a pipe of this process |
//! | `pump` | the task of a stream, which copies between the local end and the link |
//! | `sender` | the sending half of the link, which all streams share |
//! | `driver` | the tasks of a link: reader, answers, time limits |
//! | `tunnel` | the public handle |
//! | `forward` | local listeners |
//!
//! # Example
//!
//! A side that gives the peer access to a local database, and connects its own port 8080 to a web
//! server at the peer:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use transpute_transport::{Identity, Registry, Security};
//! use transpute_tunnel::{Forward, Tunnel, TunnelConfig, TunnelSet, TunnelSide};
//!
//! let me = Arc::new(Identity::load_or_create("me.key")?);
//! let peer = "sha256:a1e9156054e04fac899ae9f275132cdc07a5dbc4ea2c2ad3a1ffc6e0d253681f".parse()?;
//! let transport = Registry::with_builtins().get("tcp")?;
//! let link = transport.connect("203.0.113.7:7700", &Security::tls(me, [peer])).await?;
//!
//! let mut config = TunnelConfig::default();
//! config.allow = vec!["127.0.0.1:5432".parse()?];
//! let (tunnel, task) = Tunnel::start(link, TunnelSide::Connector, config);
//! let tunnels = TunnelSet::default();
//! tunnels.add(tunnel);
//! let forward = Forward::bind("8080=127.0.0.1:80".parse()?).await?;
//! tokio::spawn(forward.serve(tunnels));
//! task.wait().await?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod address;
mod driver;
mod error;
mod forward;
mod frame;
mod local;
mod pipe;
mod pump;
mod queue;
mod sender;
mod stream;
mod tunnel;
mod window;

pub use self::{
    address::{ForwardRule, TunnelAddress},
    error::{InvalidTunnelAddress, TunnelError, TunnelProtocolError},
    forward::Forward,
    pipe::TunnelStream,
    tunnel::{Tunnel, TunnelConfig, TunnelSet, TunnelSide, TunnelStats, TunnelTask},
};
