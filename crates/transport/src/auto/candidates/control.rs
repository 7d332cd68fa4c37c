//! The control connection, which is begun twice where the listener is not next door: a lost packet of its handshakes costs two
//! round trips and more, a second connection next to nothing. The one that is up first stays. The other one is closed in the
//! middle of its handshake.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use super::{Inner, is_named, no_offer};
use crate::{
    Tcp, TransportError,
    auto::{ControlReport, Offer},
    tcp::{Channel, Route, UNSENT_LIMIT, request},
};

/// A listener that has not answered by then is far enough away for the processor time of another handshake to be worth less than a
/// lost packet costs.
const NEXT_DOOR: Duration = Duration::from_millis(3);

/// Next door handshakes are over by then, unless they lost something.
const PATIENCE: Duration = Duration::from_millis(15);

/// What is said on it is said by one at a time.
pub(super) type Shared = Arc<Mutex<Option<Channel>>>;

impl Inner {
    pub(super) async fn open_control(&self) -> Result<(ControlReport, Shared), TransportError> {
        let route = Route::find(&self.address, self.options.tcp).await?;
        if !self.connector.encrypts() {
            // What was opened counts as a peer.
            return self.try_control(&route).await;
        }
        let (opened, _) = request::open(|| self.try_control(&route), self.is_late()).await?;
        Ok(opened)
    }

    /// Waits until a second connection is worth beginning.
    async fn is_late(&self) {
        tokio::time::sleep(NEXT_DOOR).await;
        if self.answered.borrow().is_some() {
            tokio::time::sleep(PATIENCE - NEXT_DOOR).await;
        }
    }

    async fn try_control(&self, route: &Route) -> Result<(ControlReport, Shared), TransportError> {
        let began = Instant::now();
        let (socket, context) = route.open(UNSENT_LIMIT).await?;
        self.further.found(context.peer);
        let took = began.elapsed();
        self.answered.send_if_modified(|answered| {
            let is_first = answered.is_none();
            answered.get_or_insert(took);
            is_first
        });
        let mut channel = self.connector.authenticate(socket, context.clone()).await?;
        let offer = match channel.message() {
            _ if is_named(&channel) => Offer::only(channel.transport().unwrap_or_default()),
            Some(message) => Offer::decode(message).await?,
            None if channel.is_encrypted() => return Err(no_offer()),
            None => {
                let read = Offer::read(&mut channel);
                context.limit("the listener's offer", read).await??
            }
        };
        let report = ControlReport {
            info: channel.info(Tcp::NAME),
            offer,
            path: channel.socket().probe().sample(),
            after: self.started.elapsed(),
        };
        Ok((report, Arc::new(Mutex::new(Some(channel)))))
    }
}
