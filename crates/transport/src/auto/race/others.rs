//! The attempts of transports of other crates, each at a port of its own.

use super::{Offer, Race, Stage};
use crate::auto::{SetupReport, others};

impl Race {
    /// Begins the attempts that the listener offers. Dropping the race abandons them.
    pub(super) fn begin_others(&mut self, offer: &Offer) {
        let Some((host, _)) = self.address.rsplit_once(':') else {
            return;
        };
        let host = host.to_owned();
        for transport in std::mem::take(&mut self.others) {
            let name = transport.name();
            let Some(port) = offer.port(name) else {
                continue;
            };
            self.progress.others.insert(name, Stage::Pending);
            let (address, security) = (format!("{host}:{port}"), self.security.clone());
            let started = self.started;
            let opening = async move {
                let link = transport.connect(&address, &security).await?;
                others::check(&link, &security)?;
                Ok((link, started.elapsed()))
            };
            self.open(name, opening, move |race, (link, after)| {
                let path = link.stats().snapshot().path;
                let report = SetupReport {
                    path,
                    after,
                    is_complete: true,
                };
                race.progress.set_stage(name, Stage::Up(Box::new(report)));
                race.links.insert(name, link);
            });
        }
    }
}
