//! The routing of received datagrams to links.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use transpute_rudp::{Id, is_set_up, receiver};

use super::link::Shared;

/// The links of a socket.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) all: Vec<Arc<Shared>>,
    /// The link of a connector. It is the only link of its socket.
    sole: Option<Arc<Shared>>,
    /// Links by the connector's address and an id that set-up packets carry. An entry exists as
    /// long as its link, so that a late copy of a first packet does not start another link.
    set_up: HashMap<(SocketAddr, Id), Arc<Shared>>,
    /// Links by the connector's address, until they have keys for data packets.
    keyless: HashMap<SocketAddr, Arc<Shared>>,
    /// Links by the id that data packets carry.
    data: HashMap<u32, Arc<Shared>>,
}

impl Routes {
    pub(super) fn find(&self, from: SocketAddr, datagram: &[u8]) -> Option<Arc<Shared>> {
        if let Some(sole) = &self.sole {
            return Some(Arc::clone(sole));
        }
        if is_set_up(datagram) {
            return self.set_up.get(&(from, receiver(datagram)?)).cloned();
        }
        let id = u32::from_le_bytes(datagram.get(1..5)?.try_into().ok()?);
        self.data
            .get(&id)
            .or_else(|| self.keyless.get(&from))
            .cloned()
    }

    pub(super) fn add(&mut self, link: &Arc<Shared>, is_sole: bool) {
        self.all.push(Arc::clone(link));
        if is_sole {
            self.sole = Some(Arc::clone(link));
            return;
        }
        let (from, ids) = link.set_up_route();
        for id in ids.into_iter().flatten() {
            self.set_up.insert((from, id), Arc::clone(link));
        }
        self.keyless.insert(from, Arc::clone(link));
    }

    /// Registers the id of a link for data packets. Returns `false` if another link has the same
    /// id.
    pub(super) fn register(&mut self, link: &Arc<Shared>) -> bool {
        let Some(id) = link.data_id() else {
            return true;
        };
        self.keyless.retain(|_, other| !Arc::ptr_eq(other, link));
        let held = self.data.entry(id).or_insert_with(|| Arc::clone(link));
        Arc::ptr_eq(held, link)
    }

    pub(super) fn forget_ended(&mut self) {
        self.all.retain(|link| !link.is_over());
        self.sole.take_if(|link| link.is_over());
        self.set_up.retain(|_, link| !link.is_over());
        self.keyless.retain(|_, link| !link.is_over());
        self.data.retain(|_, link| !link.is_over());
    }
}
