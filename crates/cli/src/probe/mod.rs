//! `transpute probe`: measures the path to a peer and shows which transports would be chosen.

mod respond;

use std::path::PathBuf;

use serde::Serialize;
use transpute::{
    Error,
    auto::{Auto, Probed},
    select::Model,
    transport::{Security, auto::Offer},
};

use crate::{
    explanation::Explanation,
    failure::Failure,
    flags::{parse_address, parse_offer, warn_unused},
    interrupt::unless_interrupted,
    model::{failure, load},
    output,
    protection::Protection,
    selection::By,
    workload::{Asked, Named},
};

#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("side").required(true).args(["address", "listen"]),
    after_help = "\
Example:
  transpute probe --identity alice.key --peer sha256:BOB bob.example:7700

The peer listens with `transpute run --listen`, which goes on waiting for its own peer, or with `transpute probe --listen`. Nothing \
is computed, and no circuit is told to the peer. Both sides use --transport auto, the default."
)]
pub(crate) struct Args {
    /// The address of the peer (host:port)
    #[arg(value_name = "ADDR", value_parser = parse_address)]
    address: Option<String>,
    /// Let peers measure the path to this address (host:port) until interrupted
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    listen: Option<String>,
    /// With --listen, exit after the first peer
    #[arg(long)]
    once: bool,
    /// With --listen, the transports to choose from [default: all]
    #[arg(long, value_name = "NAME,...", value_parser = parse_offer)]
    offer: Option<Offer>,
    #[command(flatten)]
    protection: Protection,
    /// Circuits, as for `transpute run`
    #[arg(
        short,
        long,
        alias = "circuits",
        value_name = "NAME|FILE,...",
        default_value = "aes128,sha256,mincut",
        value_delimiter = ','
    )]
    circuit: Vec<String>,
    #[command(flatten)]
    asked: Asked,
    /// The method of the choice
    #[arg(long, value_name = "BY", default_value = "rule")]
    chooser: By,
    /// The model file [default: the built-in model]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Print one JSON object with the path and the choice, or the error
    #[arg(long)]
    json: bool,
}

/// The JSON object that `transpute probe --json` prints.
#[derive(Serialize)]
struct Answer {
    address: String,
    /// Duration of the measurement, in milliseconds.
    probe_ms: f64,
    #[serde(flatten)]
    explanation: Explanation,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match (&args.address, &args.listen) {
        (Some(_), _) if args.offer.is_some() => Err(Failure::usage(
            "--offer contradicts an address to connect to: only the side with --listen restricts the transports",
        )),
        (Some(address), _) => {
            warn_unused("--once", args.once, "--listen");
            probe(args, address)
        }
        (None, Some(address)) => respond::respond(args, address),
        // Unreachable: the command-line parser requires an address or --listen.
        (None, None) => Err(Failure::usage("an address or --listen is needed")),
    }
}

fn probe(args: &Args, address: &str) -> Result<(), Failure> {
    let security = args.protection.security()?;
    let model: Option<Model> = (args.model.as_deref())
        .map(|file| load(Some(file)))
        .transpose()?;
    let chooser = args.chooser.chooser(model);
    let is_encrypted = !args.protection.plaintext;
    let named = (args.circuit.iter())
        .map(|name| Named::load("--circuit", name, &args.asked, is_encrypted))
        .collect::<Result<Vec<_>, Failure>>()?;
    let probed = measure(address, &security)?;
    let workloads = (args.circuit.iter().zip(named))
        .map(|(name, named)| Ok((name.clone(), named.workload(&probed.path)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let explanation = Explanation::new(&*chooser, &probed.path, workloads, &probed.candidates)
        .map_err(failure)?;
    let answer = Answer {
        address: address.to_owned(),
        probe_ms: probed.took.as_secs_f64() * 1e3,
        explanation,
    };
    if args.json {
        return output::print_json(&answer);
    }
    output::print(|out| {
        write!(out, "{}", answer.explanation)?;
        writeln!(out, "measured within {:.1} ms", answer.probe_ms)
    })
}

/// Measures the path to a peer.
pub(crate) fn measure(address: &str, security: &Security) -> Result<Probed, Failure> {
    let auto = Auto::default();
    let probing =
        async { (auto.probe(address, security).await).map_err(|error| Error::from(error).into()) };
    crate::block_on(unless_interrupted(probing))
}
