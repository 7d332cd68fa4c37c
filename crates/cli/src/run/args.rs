//! The options of `transpute run`, and the checks of options that read no files.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use transpute::{Config, TransportChoice, session::OtChoice};

use crate::{
    failure::Failure,
    flags::{
        MANY_RUNS, PROTOCOL, TRANSPORT, at_least_one, parse_address, parse_seconds, warn_unused,
    },
    selection::By,
    terms::PartyOptions,
};

#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("address").required(true).args(["listen", "connect"]),
    after_help = "\
Example:
  transpute run --role evaluator --circuit aes128 --input 1=hex:00112233445566778899aabbccddeeff \\
      --identity bob.key --peer sha256:ALICE --connect alice.example:7700

Values:
  bits:0110...   one character per bit, the first for the first wire of the value
  hex:0f...      most significant digit first; the first wire is the least significant bit
  dec:-5         a decimal number, negative ones in two's complement
  @FILE          a file that holds one of these, or only 0 and 1; blanks are ignored
  @-             the same from standard input
Other users of this machine can see the arguments of a command: keep secrets in files.

Everything but addresses, inputs, keys and threads must be the same on both sides."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) terms: PartyOptions,
    /// Wait for the peer at this address (host:port; port 0 lets the system choose)
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(super) listen: Option<String>,
    /// Connect to the peer at this address (host:port)
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(super) connect: Option<String>,
    /// The method by which the connecting party chooses the transport, with --transport auto
    /// [default: rule]
    #[arg(long, value_name = "BY", help_heading = TRANSPORT)]
    pub(super) chooser: Option<By>,
    /// A file with the inputs of many evaluations: one line each, with [N=]VALUE for every value
    #[arg(long, value_name = "FILE", conflicts_with_all = ["inputs", "batch"], help_heading = MANY_RUNS)]
    pub(super) batch_file: Option<PathBuf>,
    /// Number of evaluations in the run, all with the same inputs [default: 1]
    #[arg(long, value_name = "K", value_parser = at_least_one::<NonZeroU64>, help_heading = MANY_RUNS)]
    pub(super) batch: Option<NonZeroU64>,
    /// Number of runs on one connection, all with the same inputs. The peer must give the same
    /// number, or be `transpute serve`
    #[arg(
        long, value_name = "N", conflicts_with = "batch_file",
        value_parser = at_least_one::<NonZeroU64>, help_heading = MANY_RUNS,
    )]
    pub(super) repeat: Option<NonZeroU64>,
    /// Number of runs of --repeat at the same time, after the first [default: 1]. The lower number
    /// of the two sides limits both
    #[arg(long, value_name = "K", value_parser = at_least_one::<NonZeroUsize>, help_heading = MANY_RUNS)]
    pipeline: Option<NonZeroUsize>,
    /// Oblivious transfer: auto, direct, iknp, softspoken-2, softspoken-4 or softspoken-8
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = PROTOCOL)]
    pub(super) ot: OtChoice,
    /// Number of threads that garble or evaluate a batch [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>, help_heading = MANY_RUNS)]
    threads: Option<NonZeroUsize>,
    /// Time for which a refused connection is tried again, in seconds
    #[arg(
        long, value_name = "SECS", default_value = "5", value_parser = parse_seconds,
        help_heading = TRANSPORT,
    )]
    pub(super) patience: Duration,
    /// Print phases and their times on standard error, for programs
    #[arg(long, hide = true)]
    pub(super) tell_phases: bool,
    /// Print one JSON object with the outputs and the report, or with the error
    #[arg(long)]
    pub(super) json: bool,
    /// Print outputs and errors only
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Args {
    /// Returns the protocol settings of a run with `batch` evaluations.
    pub(super) fn config(&self, batch: u64) -> Config {
        let mut config = self.terms.config();
        config.ot = self.ot;
        config.threads = self.threads.unwrap_or(NonZeroUsize::MIN);
        config.batch = batch;
        config
    }

    /// Returns the maximum number of concurrent runs of `--repeat`.
    pub(super) fn pipeline(&self) -> usize {
        self.pipeline.map_or(1, NonZeroUsize::get)
    }

    /// Returns an error if options contradict each other. Reads no files. Prints warnings about
    /// options without effect, unless `--quiet` is given.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.terms.check()?;
        if self.connect.is_some() && self.terms.offer.is_some() {
            // With only a warning, the transport of the run could be one that --offer excludes.
            return Err(Failure::usage(
                "--offer contradicts --connect: only the party that listens restricts the transports",
            ));
        }
        if !self.quiet {
            self.warn();
        }
        Ok(())
    }

    /// Prints warnings about options without effect.
    fn warn(&self) {
        let chooses = match (&self.connect, &self.terms.transport) {
            (Some(_), TransportChoice::Auto) => None,
            (Some(_), TransportChoice::Named(_)) => Some("--transport auto"),
            (None, _) => Some("the party with --connect"),
        };
        if let Some(chooses) = chooses {
            warn_unused("--chooser", self.chooser.is_some(), chooses);
        }
        let threads = self.threads.is_some();
        match self.repeat {
            Some(_) => warn_unused("--threads", threads, "a run without --repeat"),
            None => warn_unused("--pipeline", self.pipeline.is_some(), "--repeat"),
        }
    }
}
