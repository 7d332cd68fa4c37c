//! The links of a listener that may get further stripes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{io::AsyncWriteExt, sync::watch};

use super::{
    TcpStriped,
    growth::Growth,
    join::{Binding, ID, JOINED, Join},
};
use crate::{
    CongestionControl, Fingerprint, HandshakeError, Link, TransportError,
    tcp::{Channel, adopt},
};

/// The links of a listener that further stripes may join. All handshakes of the listener share this
/// set.
#[derive(Clone)]
pub(crate) struct Groups {
    links: Arc<watch::Sender<HashMap<[u8; ID], Group>>>,
    transport: TcpStriped,
    patience: Duration,
}

/// A link that does not have all its stripes yet.
struct Group {
    count: u8,
    peer: Option<Fingerprint>,
    first: Binding,
    /// Bit `i` is set if stripe `i` has joined.
    joined: u32,
    growth: Growth,
    congestion_control: Option<CongestionControl>,
}

impl Groups {
    /// Makes an empty set. Stripes may join a link for `patience` after its stripe 0.
    pub(crate) fn new(transport: TcpStriped, patience: Duration) -> Self {
        Self {
            links: Arc::default(),
            transport,
            patience,
        }
    }

    /// Returns whether further stripes may join any link.
    pub(super) fn is_growing(&self) -> bool {
        !self.links.borrow().is_empty()
    }

    /// Waits until no link can get further stripes. Cancel-safe.
    pub(super) async fn complete(&self) {
        // `wait_for` cannot fail, because `self` holds the sender.
        let _ = self.links.subscribe().wait_for(HashMap::is_empty).await;
    }

    /// Makes a new link from stripe 0. Adds any other stripe to its link, and returns `None`.
    ///
    /// # Errors
    /// Returns [`HandshakeError::NotTranspute`] if the stripe does not belong to a link of this
    /// listener.
    pub(crate) async fn add(
        &self,
        join: &Join,
        channel: Channel,
        congestion_control: Option<CongestionControl>,
    ) -> Result<Option<Link>, TransportError> {
        match join.index {
            0 => (self.begin(join, channel, congestion_control)).map(Some),
            _ => self.extend(join, channel).await.map(|()| None),
        }
    }

    fn begin(
        &self,
        join: &Join,
        channel: Channel,
        congestion_control: Option<CongestionControl>,
    ) -> Result<Link, TransportError> {
        let first = Binding::of(&channel, &join.id)?;
        if !first.verify(&first, join) {
            return Err(misfit("its tag is not that of its TLS session"));
        }
        let peer = channel.info(TcpStriped::NAME).peer_fingerprint;
        let (link, growth) = self.transport.begin(channel, |reader| reader);
        if join.count == 1 {
            return Ok(link);
        }
        let ended = growth.link_ended();
        let group = Group {
            count: join.count,
            peer,
            first,
            joined: 1,
            growth,
            congestion_control,
        };
        let mut is_new = false;
        self.links.send_modify(|links| {
            is_new = !links.contains_key(&join.id);
            if is_new {
                links.insert(join.id, group);
            }
        });
        if !is_new {
            return Err(misfit("its link has begun already"));
        }
        let (groups, id) = (self.clone(), join.id);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(groups.patience, ended).await;
            groups.links.send_modify(|links| drop(links.remove(&id)));
        });
        Ok(link)
    }

    /// Adds a stripe to its link. Waits for stripe 0, which the network may have delayed.
    async fn extend(&self, join: &Join, mut channel: Channel) -> Result<(), TransportError> {
        let binding = Binding::of(&channel, &join.id)?;
        let peer = channel.info(TcpStriped::NAME).peer_fingerprint;
        let context = channel.context().clone();
        let mut links = self.links.subscribe();
        let begun = async {
            let _ = links.wait_for(|links| links.contains_key(&join.id)).await;
        };
        context.limit("the first stripe of its link", begun).await?;
        let mut admitted = Err("its link has ended");
        self.links.send_modify(|links| {
            if let Some(group) = links.get_mut(&join.id) {
                admitted = group.admit(peer, &binding, join);
                if group.is_complete() {
                    links.remove(&join.id);
                }
            }
        });
        let (growth, congestion_control) = admitted.map_err(misfit)?;
        adopt(&channel, congestion_control);
        let joined = async {
            channel.write_all(&[JOINED]).await?;
            channel.flush().await
        };
        (context.limit("a stripe to join", joined).await?).map_err(TransportError::from_io)?;
        growth.add(join.index, channel);
        Ok(())
    }
}

impl Group {
    fn is_complete(&self) -> bool {
        self.joined.count_ones() == u32::from(self.count)
    }

    /// Checks that a stripe belongs to this link and that its number is unused.
    fn admit(
        &mut self,
        peer: Option<Fingerprint>,
        binding: &Binding,
        join: &Join,
    ) -> Result<(Growth, Option<CongestionControl>), &'static str> {
        // The shift is below 32: `Join::decode` has checked the number.
        let bit = 1_u32 << join.index;
        if join.count != self.count || self.joined & bit != 0 {
            return Err("its number does not fit the other stripes of its link");
        }
        if peer != self.peer || !binding.verify(&self.first, join) {
            return Err("it was not opened by the peer that opened the first one");
        }
        self.joined |= bit;
        Ok((self.growth.clone(), self.congestion_control))
    }
}

fn misfit(reason: &'static str) -> TransportError {
    TransportError::Handshake(HandshakeError::NotTranspute {
        evidence: format!("a stripe was rejected: {reason}"),
    })
}
