//! The flags of `transpute serve`.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    time::Duration,
};

use transpute::serve::Limits;

use crate::{
    flags::{at_least_one, parse_address, parse_seconds},
    terms::Terms,
};

#[derive(clap::Args)]
#[command(after_help = "\
Peers connect with `transpute run --connect ADDR`, with or without `--repeat N`, and the same circuit, scheme and outputs.
Values are written as for `transpute run`; other users of this machine can see the arguments of a
command: keep secrets in files.

A peer over a limit of connections is told so and disconnected; runs over a limit wait. The first
SIGINT or SIGTERM lets runs under way finish and prints a summary, the second ends at once. What goes
wrong with a peer is told and does not change the exit code.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) terms: Terms,
    /// Wait for peers at this address (host:port; port 0 lets the system choose)
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(super) listen: String,
    /// How many evaluations a peer may ask for in one run
    #[arg(long, value_name = "K", default_value = "1", value_parser = at_least_one::<NonZeroU64>)]
    pub(super) max_batch: NonZeroU64,
    /// How many connections there may be
    #[arg(long, value_name = "N", default_value = "512", value_parser = at_least_one::<NonZeroUsize>)]
    max_connections: NonZeroUsize,
    /// How many of them may be of one peer: of one key or, in plaintext, one address
    #[arg(long, value_name = "N", default_value = "8", value_parser = at_least_one::<NonZeroUsize>)]
    max_per_peer: NonZeroUsize,
    /// How many runs may be computed at the same time in all: several times what one peer may have
    #[arg(long, value_name = "N", default_value = "128", value_parser = at_least_one::<NonZeroUsize>)]
    runs_at_once: NonZeroUsize,
    /// How many of them on one connection
    #[arg(long, value_name = "N", default_value = "4", value_parser = at_least_one::<NonZeroUsize>)]
    runs_per_connection: NonZeroUsize,
    /// Close a connection after so long without a run
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    idle: Duration,
    /// Cut a connection whose runs wait for the peer so long, while it carries next to nothing
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    stall: Duration,
    /// Give a run up after so long
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = parse_seconds)]
    run_time: Duration,
    /// Told to end, wait so long for runs under way
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    drain: Duration,
    /// Print a JSON object for each run and one at the end, or the error, a line each
    #[arg(long)]
    pub(super) json: bool,
    /// Print outputs and errors only
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Args {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            max_connections: self.max_connections.get(),
            max_per_peer: self.max_per_peer.get(),
            runs_at_once: self.runs_at_once.get(),
            runs_per_connection: self.runs_per_connection.get(),
            idle: self.idle,
            stall: self.stall,
            run_time: self.run_time,
            drain: self.drain,
            ..Limits::default()
        }
    }
}
