//! The list of the transports in this crate. To add a transport to the crate, add it here.

use std::sync::Arc;

#[cfg(feature = "quic")]
use crate::Quic;
use crate::{Registry, Tcp, TcpStriped, Transport};
#[cfg(feature = "rudp")]
use crate::{Rudp, Udp};

impl Registry {
    /// Makes a registry of the transports in this crate.
    #[must_use]
    pub fn with_builtins() -> Self {
        let transports: Vec<Arc<dyn Transport>> = vec![
            Arc::new(Tcp::default()),
            Arc::new(TcpStriped::default()),
            #[cfg(feature = "quic")]
            Arc::new(Quic::default()),
            #[cfg(feature = "rudp")]
            Arc::new(Rudp::default()),
            #[cfg(feature = "rudp")]
            Arc::new(Udp::default()),
        ];
        Self { transports }
    }
}
