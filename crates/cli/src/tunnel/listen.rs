//! `transpute tunnel listen`: the side that waits for links.

use tokio::task::JoinSet;
use transpute::transport::{Link, Listener};
use transpute_tunnel::{Tunnel, TunnelSet, TunnelSide};

use super::{TunnelArgs, failure, until_interrupted};
use crate::{failure::Failure, flags::parse_address, link::before_link, output};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  transpute tunnel listen --identity alice.key --peer sha256:BOB --listen 0.0.0.0:7700 \\
      --allow 5432 --allow 22")]
pub(crate) struct Args {
    #[command(flatten)]
    tunnel: TunnelArgs,
    /// The address to listen on (host:port; port 0 lets the system choose)
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    listen: String,
}

/// Maximum number of links at the same time. Further peers wait.
const MAX_LINKS: usize = 64;

pub(crate) fn listen(args: &Args) -> Result<(), Failure> {
    let transport = args.tunnel.transport()?;
    let security = args.tunnel.protection.security()?;
    crate::block_on(async {
        let tunnels = TunnelSet::default();
        let mut links = JoinSet::new();
        let listening = async {
            args.tunnel.forward(&tunnels).await?;
            let listener =
                (transport.listen(&args.listen, &security).await).map_err(before_link)?;
            output::note(format!("listening on {}", listener.local_address()));
            accept(args, listener, &tunnels, &mut links).await
        };
        until_interrupted(listening).await?;
        tunnels.close();
        while links.join_next().await.is_some() {}
        Ok(())
    })
}

/// Accepts links until the listening socket fails.
async fn accept(
    args: &Args,
    mut listener: Box<dyn Listener>,
    tunnels: &TunnelSet,
    links: &mut JoinSet<()>,
) -> Result<(), Failure> {
    let mut number: u64 = 0;
    loop {
        tokio::select! {
            Some(_) = links.join_next(), if !links.is_empty() => {}
            link = listener.accept(), if links.len() < MAX_LINKS => {
                number += 1;
                links.spawn(serve(args, number, link.map_err(before_link)?, tunnels));
            }
        }
    }
}

/// Starts a tunnel over a link. The returned future completes when the tunnel has ended.
fn serve(
    args: &Args,
    number: u64,
    link: Link,
    tunnels: &TunnelSet,
) -> impl Future<Output = ()> + use<> {
    let info = link.info();
    let (peer, transport) = (&info.peer_address, info.transport);
    output::note(format!(
        "link {number}: connected from {peer} over {transport}"
    ));
    let (tunnel, task) = Tunnel::start(link, TunnelSide::Listener, args.tunnel.config());
    tunnels.add(tunnel);
    async move {
        if let Err(error) = task.wait().await
            && let Some((.., message)) = failure(error).parts()
        {
            output::note(format!("link {number}: ended: {message}"));
        }
    }
}
