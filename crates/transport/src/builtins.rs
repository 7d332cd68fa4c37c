//! The list of the transports in this crate. To add a transport to the crate, add it here.

use std::sync::Arc;

#[cfg(feature = "quic")]
use crate::Quic;
use crate::{Registry, Rudp, Tcp, TcpStriped, Transport, Udp};

impl Registry {
    /// Makes a registry of the transports in this crate.
    #[must_use]
    pub fn with_builtins() -> Self {
        let transports: Vec<Arc<dyn Transport>> = vec![
            Arc::new(Tcp::default()),
            Arc::new(TcpStriped::default()),
            #[cfg(feature = "quic")]
            Arc::new(Quic::default()),
            Arc::new(Rudp::default()),
            Arc::new(Udp::default()),
        ];
        Self { transports }
    }
}
