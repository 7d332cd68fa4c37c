//! `transpute tunnel connect`: the side that connects.

use std::time::Duration;

use tokio::time::Instant;
use transpute::transport::retry_connect;
use transpute_tunnel::{Tunnel, TunnelSet, TunnelSide};

use super::{TunnelArgs, failure, until_interrupted};
use crate::{failure::Failure, flags::parse_address, link::before_link, output};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  transpute tunnel connect --identity bob.key --peer sha256:ALICE --connect alice.example:7700 \\
      --forward 5432=5432 --forward 2222=22")]
pub(crate) struct Args {
    #[command(flatten)]
    tunnel: TunnelArgs,
    /// The address of a `transpute tunnel listen` (host:port)
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    connect: String,
    /// Time for which a refused connection is tried again, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    patience: u64,
}

pub(crate) fn connect(args: &Args) -> Result<(), Failure> {
    let transport = args.tunnel.transport()?;
    let security = args.tunnel.protection.security()?;
    crate::block_on(async {
        let tunnels = TunnelSet::default();
        let connecting = async {
            args.tunnel.forward(&tunnels).await?;
            let deadline = Instant::now() + Duration::from_secs(args.patience);
            let dial = || transport.connect(&args.connect, &security);
            retry_connect(deadline, dial).await.map_err(before_link)
        };
        let Some(link) = until_interrupted(connecting).await? else {
            return Ok(());
        };
        let info = link.info();
        let (peer, transport) = (&info.peer_address, info.transport);
        output::note(format!("connected to {peer} over {transport}"));
        let (tunnel, task) = Tunnel::start(link, TunnelSide::Connector, args.tunnel.config());
        tunnels.add(tunnel.clone());
        let ended = task.wait();
        tokio::pin!(ended);
        let lost = async { (&mut ended).await.map_err(failure) };
        if until_interrupted(lost).await?.is_none() {
            tunnel.close();
            // The tunnel ends because of this side, so its last error does not matter.
            let _ = ended.await;
        }
        Ok(())
    })
}
