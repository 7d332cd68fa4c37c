//! `transpute link`: measures the throughput of a transport between two machines, without a
//! computation.

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
    /// Wait for clients and serve their transfers, several at a time
    Serve(serve::Args),
    /// Transfer bytes to or from a server, and report the throughput
    Send(send::Args),
    /// List the transports, with one line for each
    #[command(after_help = "Example:\n  transpute link transports")]
    Transports,
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::serve(args),
        Command::Send(args) => send::send(&args),
        Command::Transports => list(),
    }
}

/// Prints the name and the description of `auto` and of each transport.
fn list() -> Result<(), Failure> {
    let registry = registry();
    let mut lines = vec![(Auto::NAME, Auto::default().describe())];
    lines.extend((registry.iter()).map(|transport| (transport.name(), transport.describe())));
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    output::print(|out| {
        for (name, text) in &lines {
            writeln!(out, "{name:width$}  {text}")?;
        }
        Ok(())
    })
}

/// The options that both sides must set alike.
#[derive(clap::Args)]
pub(crate) struct LinkArgs {
    /// The transport, with optional settings: tcp, tcp:cc=bbr, tcp-striped:n=4,cc=bbr; or auto
    #[arg(
        long, value_name = "NAME[:KEY=VALUE,...]", default_value = "tcp",
        value_parser = |text: &str| parse_transport(text).map(|choice| choice.to_string()),
    )]
    transport: String,
    /// The key file of this side's identity
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// The fingerprint of the other side's key; may be repeated to accept one of several
    #[arg(long = "peer", value_name = "FINGERPRINT")]
    peers: Vec<Fingerprint>,
    /// For benchmarks: encrypt without authenticating the peer. Both sides must use it
    #[arg(long, conflicts_with_all = ["identity", "peers", "plaintext"])]
    unpinned: bool,
    /// For benchmarks: neither encrypt nor authenticate. Both sides must use it
    #[arg(long, conflicts_with_all = ["identity", "peers"])]
    plaintext: bool,
    /// Print one JSON object per transfer, or the error, each on one line
    #[arg(long)]
    json: bool,
}

impl LinkArgs {
    /// Returns the protection of the link.
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

    /// Returns the name of the transport for reports. For `auto`, this is the chosen transport,
    /// otherwise the text of the option.
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

/// Returns the transport that `text` names. `auto` chooses for the workload `work`, if it is given.
pub(crate) fn transport(
    text: &str,
    work: Option<Workload>,
) -> Result<Arc<dyn Transport>, TransportError> {
    if text == Auto::NAME {
        let mut auto = Auto::default();
        auto.workload = work.unwrap_or(auto.workload);
        return Ok(Arc::new(auto));
    }
    registry().get(text)
}

/// Converts an error of establishing the link to a failure of the command.
pub(crate) fn before_link(error: TransportError) -> Failure {
    Error::from(error).into()
}

/// Converts an error on an established link to a failure of the command.
pub(crate) fn on_link(error: TransportError) -> Failure {
    Error::from(SessionError::Link(Box::new(error))).into()
}

/// Maximum time without progress on a link. After this time, the transfer fails.
const IDLE: Duration = Duration::from_secs(30);

/// Maximum number of bytes of a transfer.
const MAX_BYTES: u64 = 1 << 40;

/// Maximum number of round trips of a transfer.
const MAX_ROUNDS: u64 = 1_000_000;
