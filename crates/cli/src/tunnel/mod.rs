//! `transpute tunnel`: forwards connections of other programs over one link.

mod connect;
mod listen;

use std::sync::Arc;

use clap::Subcommand;
use transpute::{
    Transport,
    select::{End, Workload},
};
use transpute_tunnel::{Forward, ForwardRule, TunnelAddress, TunnelConfig, TunnelError, TunnelSet};

use crate::{
    failure::{Failure, FailureKind},
    file_limit,
    flags::{TRANSPORT, parse_transport},
    interrupt::interrupted,
    link::{before_link, on_link, transport},
    output,
    protection::Protection,
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Wait for links of the far side, and forward connections over the most recent one
    Listen(listen::Args),
    /// Connect to the far side, and forward connections until the link is lost
    Connect(connect::Args),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Listen(args) => listen::listen(&args),
        Command::Connect(args) => connect::connect(&args),
    }
}

/// The options of both sides.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("purpose").required(true).multiple(true).args(["forwards", "allow"]))]
struct TunnelArgs {
    /// Listen on LOCAL, and connect to REMOTE from the far side; may be repeated. Each is
    /// HOST:PORT, PORT on 127.0.0.1, or unix:PATH. The far side must allow REMOTE
    #[arg(long = "forward", value_name = "LOCAL=REMOTE")]
    forwards: Vec<ForwardRule>,
    /// Let the far side connect to REMOTE from here; may be repeated
    #[arg(long, value_name = "REMOTE")]
    allow: Vec<TunnelAddress>,
    /// The transport, with optional settings: tcp, tcp:cc=bbr, tcp-striped:n=4,cc=bbr; or auto
    #[arg(
        long, value_name = "NAME[:KEY=VALUE,...]", default_value = "auto", help_heading = TRANSPORT,
        value_parser = |text: &str| parse_transport(text).map(|choice| choice.to_string()),
    )]
    transport: String,
    #[command(flatten)]
    protection: Protection,
}

/// Number of bytes for which `auto` chooses a transport. A tunnel does not know what it will carry,
/// and a slow transport costs the most if it is much.
const ASSUMED_BYTES: u64 = 1 << 30;

impl TunnelArgs {
    fn transport(&self) -> Result<Arc<dyn Transport>, Failure> {
        let work = Workload::transfer(End::Connector, ASSUMED_BYTES);
        transport(&self.transport, Some(work)).map_err(before_link)
    }

    fn config(&self) -> TunnelConfig {
        let mut config = TunnelConfig::default();
        config.allow = self.allow.clone();
        config
    }

    /// Listens on all local addresses, and forwards their connections over the newest of `tunnels`.
    async fn forward(&self, tunnels: &TunnelSet) -> Result<(), Failure> {
        file_limit::raise();
        let mut forwards = Vec::new();
        for rule in &self.forwards {
            forwards.push(Forward::bind(rule.clone()).await.map_err(failure)?);
        }
        for forward in forwards {
            let ForwardRule { local, remote, .. } = forward.rule();
            output::note(format!("forwarding {local} to {remote} of the far side"));
            tokio::spawn(forward.serve(tunnels.clone()));
        }
        Ok(())
    }
}

/// Runs `work` until it completes or a signal arrives. Returns `None` after a signal, which is the
/// normal end of a tunnel.
async fn until_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<T>, Failure> {
    tokio::select! {
        // As in `unless_interrupted`, the signal handlers exist before the work starts.
        biased;
        _ = interrupted() => Ok(None),
        result = work => result.map(Some),
    }
}

/// Converts the error of a tunnel to a failure of the command.
fn failure(error: TunnelError) -> Failure {
    let kind = match error {
        TunnelError::Link(error) => return on_link(error),
        TunnelError::Bind { .. } | TunnelError::NotATunnel { .. } => FailureKind::Peer,
        TunnelError::Version { .. } => FailureKind::Disagreement,
        _ => FailureKind::Protocol,
    };
    Failure::new(kind, error.to_string()).because(error)
}
