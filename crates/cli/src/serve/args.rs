//! The flags of `transpute serve`.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    time::Duration,
};

use transpute::serve::Limits;

use crate::{
    flags::{at_least_one, parse_address, parse_seconds},
    terms::PartyOptions,
};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  transpute serve --role garbler --circuit aes128 --input 0=@key.txt \\
      --identity alice.key --peer sha256:BOB --listen 0.0.0.0:7700

Peers connect with `transpute run --connect ADDR`, with or without `--repeat N`, and the same circuit, scheme and outputs.
Values are written as for `transpute run`; other users of this machine can see the arguments of a
command: keep secrets in files.

A peer over a limit of connections is told so and disconnected; runs over a limit wait. The first
SIGINT or SIGTERM lets runs under way finish and prints a summary, the second ends at once. What goes
wrong with a peer is told and does not change the exit code.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) terms: PartyOptions,
    /// Wait for peers at this address (host:port; port 0 lets the system choose)
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(super) listen: String,
    /// Maximum number of evaluations in one run
    #[arg(long, value_name = "K", default_value = "1", value_parser = at_least_one::<NonZeroU64>)]
    pub(super) max_batch: NonZeroU64,
    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value = "512", value_parser = at_least_one::<NonZeroUsize>)]
    max_connections: NonZeroUsize,
    /// Maximum number of connections per peer: per key or, in plaintext, per address
    #[arg(long, value_name = "N", default_value = "8", value_parser = at_least_one::<NonZeroUsize>)]
    max_per_peer: NonZeroUsize,
    /// Maximum number of concurrent runs; should be several times what one peer may have
    #[arg(long, value_name = "N", default_value = "128", value_parser = at_least_one::<NonZeroUsize>)]
    runs_at_once: NonZeroUsize,
    /// Maximum number of concurrent runs per connection
    #[arg(long, value_name = "N", default_value = "4", value_parser = at_least_one::<NonZeroUsize>)]
    runs_per_connection: NonZeroUsize,
    /// Close a connection after this time without a run
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    idle: Duration,
    /// Cut a connection whose runs have waited this long for the peer while almost nothing was
    /// transferred
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    stall: Duration,
    /// Cancel a run after this time
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = parse_seconds)]
    run_time: Duration,
    /// Time for active runs to complete after a signal to stop
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    drain: Duration,
    /// Print a JSON object for each run and one at the end, or the error, each on one line
    #[arg(long)]
    pub(super) json: bool,
    /// Print outputs and errors only
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Args {
    pub(super) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.max_connections = self.max_connections.get();
        limits.max_per_peer = self.max_per_peer.get();
        limits.runs_at_once = self.runs_at_once.get();
        limits.runs_per_connection = self.runs_per_connection.get();
        limits.idle = self.idle;
        limits.stall = self.stall;
        limits.run_time = self.run_time;
        limits.drain = self.drain;
        limits
    }
}
