//! The flags of `transpute run`, and what of them can be checked before anything is read.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use transpute::{Config, OtChoice};

use crate::{
    failure::Failure,
    selection::By,
    terms::{Terms, parse_seconds},
};

#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("address").required(true).args(["listen", "connect"]),
    after_help = "\
Values:
  bits:0110...   one character per bit, the first for the first wire of the value
  hex:0f...      most significant digit first; the first wire is the least significant bit
  dec:-5         a decimal number, negative ones in two's complement
  @FILE          a file that holds one of these, or only 0 and 1; blanks do not count
Other users of this machine can see the arguments of a command: keep secrets in files.

Everything but addresses, inputs, keys and threads must be the same on both sides."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) terms: Terms,
    /// Wait for the peer at this address (host:port; port 0 lets the system choose)
    #[arg(long, value_name = "ADDR")]
    pub(super) listen: Option<String>,
    /// Connect to the peer at this address (host:port)
    #[arg(long, value_name = "ADDR")]
    pub(super) connect: Option<String>,
    /// Connecting, what chooses the transport, if that is auto [default: model]
    #[arg(long, value_name = "BY")]
    pub(super) chooser: Option<By>,
    /// Connecting, keep what is measured of paths in this file, and use what it has
    #[arg(long, value_name = "FILE")]
    pub(super) path_cache: Option<PathBuf>,
    /// A file with the inputs of many evaluations: a line for each, with N=VALUE for every value
    #[arg(long, value_name = "FILE", conflicts_with_all = ["inputs", "batch"])]
    pub(super) batch_file: Option<PathBuf>,
    /// How many times to evaluate, with the same inputs each time
    #[arg(long, value_name = "K")]
    pub(super) batch: Option<NonZeroU64>,
    /// Run so often, with the same inputs each time, on one standing connection; for peers that do the
    /// same, or `transpute serve`
    #[arg(long, value_name = "N", conflicts_with_all = ["batch_file", "threads"])]
    pub(super) repeat: Option<NonZeroU64>,
    /// How many runs may be under way at the same time, once the first is over
    #[arg(long, value_name = "K", default_value = "1", requires = "repeat")]
    pub(super) pipeline: NonZeroUsize,
    /// Oblivious transfer: auto, direct, iknp, softspoken-2, softspoken-4 or softspoken-8
    #[arg(long, default_value = "auto")]
    pub(super) ot: OtChoice,
    /// On how many threads to garble or evaluate a batch, besides one for the network
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN)]
    pub(super) threads: NonZeroUsize,
    /// How long to try again while the peer refuses connections, in seconds
    #[arg(long, value_name = "SECS", default_value = "5", value_parser = parse_seconds)]
    pub(super) patience: Duration,
    /// Tell on standard error what has been reached and when, for programs
    #[arg(long, hide = true)]
    pub(super) tell_phases: bool,
    /// Print one JSON object with the outputs and what happened
    #[arg(long)]
    pub(super) json: bool,
    /// Print outputs and errors only
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Args {
    /// Returns what the protocol is told.
    pub(super) fn config(&self, batch: u64) -> Config {
        Config {
            ot: self.ot,
            threads: self.threads,
            batch,
            ..self.terms.config()
        }
    }

    /// Says what is wrong with flags that can be checked before anything is read.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let chooser = ("--chooser", self.chooser.is_some());
        let path_cache = ("--path-cache", self.path_cache.is_some());
        self.terms.check(&[chooser, path_cache])?;
        let offer = ("--offer", self.terms.offer.is_some());
        let (idle, where_to) = match self.listen {
            Some(_) => (&[chooser, path_cache][..], "--connect"),
            None => (&[offer][..], "--listen"),
        };
        match idle.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(Failure::usage(format!(
                "{flag} goes with {where_to}: the party that connects chooses"
            ))),
            None => Ok(()),
        }
    }
}
