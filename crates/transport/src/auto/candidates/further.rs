//! The further connections of `tcp-striped`: begun when that is picked, or before, on suspicion that it will be.

use std::{
    net::SocketAddr,
    sync::{Mutex, OnceLock, PoisonError},
};

use super::Inner;
use crate::{
    CongestionControl, TcpOptions,
    auto::Offer,
    striped::{self, MAX_STRIPES, Opening},
    tcp::Route,
};

/// Those that were begun before anything was picked.
#[derive(Default)]
pub(super) struct Further {
    /// Where the control connection goes.
    peer: OnceLock<SocketAddr>,
    begun: Mutex<Option<Opening>>,
}

impl Further {
    /// Says where the listener is.
    pub(super) fn found(&self, peer: SocketAddr) {
        // There is one control connection.
        let _ = self.peer.set(peer);
    }
}

impl Inner {
    /// Begins with them, all but the control connection.
    pub(super) fn begin_further(&self, count: u8) {
        let Some(&peer) = self.further.peer.get() else {
            return;
        };
        let mut begun = self.lock_further();
        if begun.is_none() {
            let mut opening = Opening::new();
            self.open(&mut opening, peer, count, self.options.tcp);
            *begun = Some(opening);
        }
    }

    /// Returns those of a link, of which some may be there. More that were begun are closed when the link has all of its own.
    pub(super) fn take_further(
        &self,
        peer: SocketAddr,
        count: u8,
        congestion_control: Option<CongestionControl>,
    ) -> Opening {
        let mut options = self.options.tcp;
        options.congestion_control = congestion_control.or(options.congestion_control);
        let mut opening = self.lock_further().take().unwrap_or_else(Opening::new);
        opening.set_congestion_control(congestion_control);
        self.open(&mut opening, peer, count, options);
        opening
    }

    /// Opens what is missing.
    fn open(&self, opening: &mut Opening, peer: SocketAddr, count: u8, options: TcpOptions) {
        let route = Route::to(peer, options);
        let missing = usize::from(count.clamp(1, MAX_STRIPES)).saturating_sub(1 + opening.len());
        for _ in 0..missing {
            if self.connector.encrypts() {
                opening.begin_bare(route.clone());
                continue;
            }
            let opened = striped::open(route.clone(), self.connector.clone());
            opening.begin(async move {
                let mut channel = opened.await?;
                let context = channel.context().clone();
                let read = Offer::read(&mut channel);
                context.limit("the listener's offer", read).await??;
                Ok(channel)
            });
        }
    }

    fn lock_further(&self) -> std::sync::MutexGuard<'_, Option<Opening>> {
        (self.further.begun.lock()).unwrap_or_else(PoisonError::into_inner)
    }
}
