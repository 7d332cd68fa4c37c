//! A listening port that goes on taking connections while a link lacks stripes.
//!
//! A listener takes up connections only while somebody waits for a link. But the further stripes of a link come when that
//! link has been handed out, and nobody may wait for another one, or the listener may be gone. So the port is looked after
//! in the background as long as a link grows, and no longer.

use std::{collections::VecDeque, io};

use tokio::{runtime::Handle, sync::oneshot, task::JoinHandle};

use super::groups::Groups;
use crate::{
    TransportError,
    tcp::{Greeter, Port},
};

/// Links that come up while nobody waits for one; further ones wait in the kernel.
const MOST_READY: usize = 16;

/// What a listener makes of the connections that it has greeted.
pub(crate) trait Host: Send + 'static {
    type Greeter: Greeter;
    /// What the listener keeps with a stripe.
    type Note: Send + 'static;
    /// What is handed out.
    type Visit: Send + 'static;

    fn receive(
        &self,
        guest: <Self::Greeter as Greeter>::Guest,
        groups: &mut Groups<Self::Note>,
    ) -> Option<Self::Visit>;
}

/// A port whose links may grow.
pub(crate) struct Gatherer<H: Host> {
    place: Place<H>,
    local: String,
}

enum Place<H: Host> {
    Here(Box<Core<H>>),
    /// In the background, until it is called back; gone if that was lost.
    Away(
        JoinHandle<Option<Box<Core<H>>>>,
        Option<oneshot::Sender<()>>,
    ),
    /// Only while it is moved.
    Nowhere,
}

struct Core<H: Host> {
    port: Port<H::Greeter>,
    groups: Groups<H::Note>,
    host: H,
    ready: VecDeque<Result<H::Visit, TransportError>>,
}

impl<H: Host> Gatherer<H> {
    pub(crate) fn new(port: Port<H::Greeter>, groups: Groups<H::Note>, host: H) -> Self {
        Self {
            local: port.local_address(),
            place: Place::Here(Box::new(Core {
                port,
                groups,
                host,
                ready: VecDeque::new(),
            })),
        }
    }

    pub(crate) fn local_address(&self) -> String {
        self.local.clone()
    }

    /// Waits for the next one to hand out. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<H::Visit, TransportError> {
        self.fetch().await?;
        let mut held = Held::of(self)?;
        match &mut held.core {
            Some(core) => core.next().await,
            // It is taken out only when this is dropped.
            None => std::future::pending().await,
        }
    }

    /// Takes the port back from the background. Cancel-safe.
    async fn fetch(&mut self) -> Result<(), TransportError> {
        let recalled = Recalled(&mut self.place);
        let Place::Away(task, recall) = &mut *recalled.0 else {
            return Ok(());
        };
        if let Some(recall) = recall.take() {
            // It has come back by itself otherwise.
            let _ = recall.send(());
        }
        match task.await {
            Ok(Some(core)) => {
                *recalled.0 = Place::Here(core);
                Ok(())
            }
            // The runtime is shutting down, or there is a bug.
            _ => {
                *recalled.0 = Place::Nowhere;
                drop(recalled);
                Err(self.lost())
            }
        }
    }

    fn lost(&self) -> TransportError {
        TransportError::Accept {
            address: self.local.clone(),
            source: io::ErrorKind::NotConnected.into(),
        }
    }
}

/// Sends the port into the background.
fn away<H: Host>(
    runtime: &Handle,
    core: impl Future<Output = Option<Box<Core<H>>>> + Send + 'static,
) -> Place<H> {
    let (recall, recalled) = oneshot::channel();
    let task = runtime.spawn(async move { Some(core.await?.look_after(recalled).await) });
    Place::Away(task, Some(recall))
}

/// Sends a port back that was called from the background, should nobody wait for it any more.
struct Recalled<'a, H: Host>(&'a mut Place<H>);

impl<H: Host> Drop for Recalled<'_, H> {
    fn drop(&mut self) {
        if matches!(self.0, Place::Away(_, None))
            && let Ok(runtime) = Handle::try_current()
            && let Place::Away(task, _) = std::mem::replace(self.0, Place::Nowhere)
        {
            *self.0 = away(&runtime, async move { task.await.ok().flatten() });
        }
    }
}

/// The port while somebody waits; it goes to the background afterwards if a link grows.
struct Held<'a, H: Host> {
    core: Option<Box<Core<H>>>,
    home: &'a mut Place<H>,
}

impl<'a, H: Host> Held<'a, H> {
    fn of(gatherer: &'a mut Gatherer<H>) -> Result<Self, TransportError> {
        match std::mem::replace(&mut gatherer.place, Place::Nowhere) {
            Place::Here(core) => Ok(Self {
                core: Some(core),
                home: &mut gatherer.place,
            }),
            _ => Err(gatherer.lost()),
        }
    }
}

impl<H: Host> Drop for Held<'_, H> {
    fn drop(&mut self) {
        let Some(core) = self.core.take() else {
            return;
        };
        *self.home = match Handle::try_current() {
            Ok(runtime) if core.groups.is_growing() => {
                away(&runtime, std::future::ready(Some(core)))
            }
            _ => Place::Here(core),
        };
    }
}

impl<H: Host> Core<H> {
    async fn next(&mut self) -> Result<H::Visit, TransportError> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return ready;
            }
            // Both branches are cancel-safe, and nothing is awaited outside of them.
            tokio::select! {
                guest = self.port.next() => self.receive(guest),
                () = self.groups.expired() => {}
            }
        }
    }

    fn receive(&mut self, guest: Result<<H::Greeter as Greeter>::Guest, TransportError>) {
        match guest {
            Ok(guest) => {
                let visit = self.host.receive(guest, &mut self.groups);
                self.ready.extend(visit.map(Ok));
            }
            Err(error) => {
                // No stripe can come any more.
                self.groups.clear();
                self.ready.push_back(Err(error));
            }
        }
    }

    /// Takes connections while a link grows, until somebody waits for the next link again.
    async fn look_after(mut self: Box<Self>, recalled: oneshot::Receiver<()>) -> Box<Self> {
        let mut recalled = Some(recalled);
        while self.groups.is_growing() {
            let recall = async {
                match &mut recalled {
                    Some(recalled) => recalled.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                recall = recall => match recall {
                    Ok(()) => return self,
                    // The listener is gone: nobody wants other links.
                    Err(_) => recalled = None,
                },
                guest = self.port.next(), if self.ready.len() < MOST_READY => self.receive(guest),
                () = self.groups.expired() => {}
            }
            if recalled.is_none() {
                self.ready.clear();
            }
        }
        self
    }
}
