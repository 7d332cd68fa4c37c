//! `transpute probe --listen`: lets peers measure the path to this party.

use transpute::{
    Error,
    auto::registry,
    transport::{
        Listener as _,
        auto::{AutoListener, Offer},
    },
};

use super::Args;
use crate::{failure::Failure, interrupt::unless_interrupted, output};

/// Listens on `address`, and prints a line for each peer that measures the path. With `--once`,
/// returns after the first peer. The listener limits the number of concurrent peers and the time
/// of each.
pub(super) fn respond(args: &Args, address: &str) -> Result<(), Failure> {
    let security = args.protection.security()?;
    let offer = (args.offer.clone()).unwrap_or_else(|| Offer::of_registry(&registry()));
    let failed = |error| Failure::from(Error::from(error));
    let responding = async {
        let mut listener = AutoListener::bind_among(address, &security, offer, &registry())
            .await
            .map_err(failed)?;
        output::note(format!("listening on {}", listener.local_address()));
        loop {
            match listener.next_visit().await.map_err(failed)? {
                None => output::note("measured by a peer"),
                Some(accepted) => output::note(format!(
                    "{} wanted to compute; there is nothing here but a path",
                    accepted.link.info().peer_address
                )),
            }
            if args.once {
                return Ok(());
            }
        }
    };
    crate::block_on(unless_interrupted(responding))
}
