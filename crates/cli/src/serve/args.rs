//! The flags of `transpute serve`.

use std::{num::NonZeroU64, num::NonZeroUsize, path::PathBuf, time::Duration};

use transpute::{Choice, OutputPolicy, Role, Scheme, serve::Limits, transport::auto::Offer};

use crate::{
    failure::Failure,
    machine::MachineCache,
    protection::Protection,
    run::{InputText, ValueNumbers, parse_offer, parse_seconds, parse_transport},
};

#[derive(clap::Args)]
#[command(after_help = "\
Peers connect with `transpute run --connect ADDR --repeat N` and the same circuit, scheme and outputs.
Values are written as for `transpute run`; other users of this machine can see the arguments of a
command: keep secrets in files.

A peer over a limit of connections is told so and disconnected; runs over a limit wait. The first
SIGINT or SIGTERM lets runs under way finish and prints a summary, the second ends at once. What goes
wrong with a peer is told and does not change the exit code.")]
pub(crate) struct Args {
    /// This party's role: garbler or evaluator
    #[arg(long)]
    pub(super) role: Role,
    /// The circuit: a file, or the name of a built-in one (see `transpute circuit generate --list`)
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) circuit: String,
    /// Keep compiled circuits in this folder, and use what it has
    #[arg(long, value_name = "DIR")]
    pub(super) program_cache: Option<PathBuf>,
    /// An input value of this party, the same for every run; N is its number in the circuit; may be repeated
    #[arg(short, long = "input", value_name = "N=VALUE")]
    pub(super) inputs: Vec<InputText>,
    /// Wait for peers at this address (host:port; port 0 lets the system choose)
    #[arg(long, value_name = "ADDR")]
    pub(super) listen: String,
    #[command(flatten)]
    pub(super) protection: Protection,
    /// The garbling scheme: half-gates, fixed-key, prf or three-halves
    #[arg(long, default_value_t = Scheme::HalfGates)]
    pub(super) scheme: Scheme,
    /// The transport: auto, or a name with settings if wanted
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value_t = Choice::Auto, value_parser = parse_transport)]
    pub(super) transport: Choice,
    #[command(flatten)]
    pub(super) machine: MachineCache,
    /// The transports that peers may choose from, if that is auto [default: all]
    #[arg(long, value_name = "NAME,...", value_parser = parse_offer)]
    pub(super) offer: Option<Offer>,
    /// Who learns the outputs: evaluator, garbler or both
    #[arg(long, value_name = "WHO", default_value_t = OutputPolicy::Evaluator)]
    pub(super) output_to: OutputPolicy,
    /// Which input values are the garbler's: numbers with commas between, or none [default: 0]
    #[arg(long, value_name = "N,...")]
    pub(super) garbler_inputs: Option<ValueNumbers>,
    /// How many evaluations a peer may ask for in one run
    #[arg(long, value_name = "K", default_value = "1")]
    pub(super) max_batch: NonZeroU64,
    /// How many hash calls share an AES key in half-gates: a power of two up to 1048576
    #[arg(long, value_name = "P", default_value_t = 1)]
    pub(super) rekey_period: u32,
    /// The largest chunk of garbled tables: 64 to 1048576 bytes
    #[arg(
        long, value_name = "BYTES", default_value_t = 64 << 10,
        value_parser = clap::value_parser!(u32).range(64..=1 << 20),
    )]
    pub(super) chunk: u32,
    /// Do not check outputs against hashes from the garbler
    #[arg(long)]
    pub(super) no_output_check: bool,
    /// How many connections there may be
    #[arg(long, value_name = "N", default_value = "512")]
    max_connections: NonZeroUsize,
    /// How many of them may be of one peer: of one key or, in plaintext, one address
    #[arg(long, value_name = "N", default_value = "8")]
    max_per_peer: NonZeroUsize,
    /// How many runs may be computed at the same time in all: several times what one peer may have
    #[arg(long, value_name = "N", default_value = "128")]
    runs_at_once: NonZeroUsize,
    /// How many of them on one connection
    #[arg(long, value_name = "N", default_value = "4")]
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
    /// Print a JSON object for each run and one at the end, a line each
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

    /// Says what is wrong with flags that are of no use together.
    pub(super) fn check_choice(&self) -> Result<(), Failure> {
        let is_auto = self.transport == Choice::Auto;
        for (flag, is_given) in [
            ("--offer", self.offer.is_some()),
            ("--machine-cache", self.machine.is_given()),
        ] {
            if is_given && !is_auto {
                return Err(Failure::usage(format!("{flag} goes with --transport auto")));
            }
        }
        Ok(())
    }
}
