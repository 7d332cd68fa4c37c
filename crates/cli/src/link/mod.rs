//! `transpute link`: how fast a transport carries bytes between two machines, without any computation.

mod measure;
mod report;
mod send;
mod serve;
mod transfer;
mod wire;

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Subcommand;
use transpute::{
    Error, Fingerprint, Identity, SessionError, Transport, TransportError, auto::registry,
};
use transpute::{
    auto::Auto,
    select::Workload,
    transport::{LinkInfo, Security},
};

use crate::{failure::Failure, flags::parse_transport, id, output};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Wait for senders and answer them, one after the other or several at once
    Serve(serve::Args),
    /// Carry bytes to a server, or from it, and report how fast
    Send(send::Args),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::serve(args),
        Command::Send(args) => send::send(&args),
    }
}

/// What both sides must ask for alike.
#[derive(clap::Args)]
pub(crate) struct LinkArgs {
    /// The transport, with settings if wanted: tcp, tcp:cc=bbr, tcp-striped:n=4,cc=bbr; or auto
    #[arg(
        long, value_name = "NAME[:KEY=VALUE,...]", default_value = "tcp",
        value_parser = |text: &str| parse_transport(text).map(|choice| choice.to_string()),
    )]
    transport: String,
    /// The key file that proves who this side is
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// The fingerprint of the other side's key; repeated, any of them will do
    #[arg(long = "peer", value_name = "FINGERPRINT")]
    peers: Vec<Fingerprint>,
    /// Benchmarks only: encrypt, but to whoever it is. Both sides must ask for it
    #[arg(long, conflicts_with_all = ["identity", "peers", "plaintext"])]
    unpinned: bool,
    /// Benchmarks only: neither encrypt nor authenticate. Both sides must ask for it
    #[arg(long, conflicts_with_all = ["identity", "peers"])]
    plaintext: bool,
    /// Print one JSON object per transfer, or the error, on a line of its own
    #[arg(long)]
    json: bool,
}

impl LinkArgs {
    /// Returns the protection asked for.
    fn security(&self) -> Result<Security, Failure> {
        if self.plaintext {
            output::note("plaintext: neither encrypted nor authenticated; for benchmarks only");
            return Ok(Security::Plaintext);
        }
        if self.unpinned {
            output::note("unpinned: encrypted, but to whoever it is; for benchmarks only");
            let identity = Identity::generate()
                .map_err(|error| Failure::other("cannot make a key").because(error))?;
            return Ok(Security::Unpinned {
                identity: Arc::new(identity),
            });
        }
        match (&self.identity, self.peers.is_empty()) {
            (Some(file), false) => {
                let identity = Arc::new(id::load(file)?);
                Ok(Security::tls(identity, self.peers.clone()))
            }
            _ => Err(Failure::usage(
                "--identity FILE and --peer FINGERPRINT are needed, or --unpinned or --plaintext \
                 on both sides",
            )),
        }
    }

    /// Returns the transport as reports call it: as it was asked for, or the one that was chosen.
    fn name(&self, info: &LinkInfo) -> String {
        match &*self.transport {
            Auto::NAME => info.transport.to_owned(),
            asked => asked.to_owned(),
        }
    }

    fn protection(&self) -> &'static str {
        match (self.plaintext, self.unpinned) {
            (true, _) => "plaintext",
            (_, true) => "unpinned",
            _ => "pinned",
        }
    }

    fn find_transport(&self, work: Option<Workload>) -> Result<Arc<dyn Transport>, Failure> {
        transport(&self.transport, work).map_err(before_link)
    }
}

/// Finds a transport. Of `auto`, `work` is what it will be used for, if that is known.
fn transport(text: &str, work: Option<Workload>) -> Result<Arc<dyn Transport>, TransportError> {
    if text == Auto::NAME {
        let auto = Auto::default();
        let workload = work.unwrap_or(auto.workload);
        return Ok(Arc::new(Auto { workload, ..auto }));
    }
    registry().get(text)
}

/// What went wrong before there was a link.
fn before_link(error: TransportError) -> Failure {
    Error::from(error).into()
}

/// What went wrong on a link.
fn on_link(error: TransportError) -> Failure {
    Error::from(SessionError::Link(Box::new(error))).into()
}

/// How long nothing may happen on a link.
const IDLE: Duration = Duration::from_secs(30);

/// The most bytes of a transfer.
const MAX_BYTES: u64 = 1 << 40;

/// The most round trips of a transfer.
const MAX_ROUNDS: u64 = 1_000_000;
