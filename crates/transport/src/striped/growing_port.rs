//! A listening port that also accepts further connections of links that were returned to the user.
//!
//! A listener accepts connections only while its user waits for a link. The further connections of
//! a link arrive after the user has received the link. The user may then no longer wait, or may
//! have dropped the listener. So a task accepts connections while any link can grow.

use std::{collections::VecDeque, sync::Arc};

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::groups::Groups;
use crate::{
    TransportError,
    listening::PortListener,
    tcp::{ConnectionHandler, Port},
};

/// Maximum number of new links that wait for the user of the listener. At this number, the task
/// stops, and further connections wait in the kernel.
const MAX_READY: usize = 16;

/// A port whose links can grow. The handler returns `None` for a connection that is not a new link,
/// such as a further stripe.
pub(crate) struct GrowingPort<G: ConnectionHandler> {
    core: Arc<Mutex<Core<G>>>,
    local: String,
}

struct Core<G: ConnectionHandler> {
    port: Port<G>,
    groups: Groups,
    ready: VecDeque<Result<G::Handled, TransportError>>,
    /// True while a task accepts connections in the background.
    has_task: bool,
}

impl<G: ConnectionHandler> GrowingPort<G> {
    pub(crate) fn new(port: Port<G>, groups: Groups) -> Self {
        Self {
            local: port.local_address(),
            core: Arc::new(Mutex::new(Core {
                port,
                groups,
                ready: VecDeque::new(),
                has_task: false,
            })),
        }
    }
}

#[async_trait]
impl<G: ConnectionHandler> PortListener<G::Handled> for GrowingPort<G> {
    fn local_address(&self) -> String {
        self.local.clone()
    }

    async fn next(&mut self) -> Result<G::Handled, TransportError> {
        let mut core = self.core.lock().await;
        let next = loop {
            if let Some(ready) = core.ready.pop_front() {
                break ready;
            }
            let accepted = core.port.next_handled().await;
            core.ready.extend(accepted.transpose());
        };
        if core.groups.is_growing() && !core.has_task {
            core.has_task = true;
            tokio::spawn(accept_further(Arc::clone(&self.core)));
        }
        next
    }
}

/// Accepts connections in the background while a link can grow. It releases the lock after each
/// connection, so that [`GrowingPort::next`] can accept connections instead.
async fn accept_further<G: ConnectionHandler>(shared: Arc<Mutex<Core<G>>>) {
    loop {
        let mut guard = shared.lock().await;
        let core = &mut *guard;
        if Arc::strong_count(&shared) == 1 {
            // The listener was dropped.
            core.ready.clear();
        }
        let accepted = tokio::select! {
            accepted = core.port.next_handled() => accepted,
            () = core.groups.complete() => Ok(None),
        };
        let has_failed = accepted.is_err();
        core.ready.extend(accepted.transpose());
        if has_failed || core.ready.len() >= MAX_READY || !core.groups.is_growing() {
            core.has_task = false;
            return;
        }
    }
}
