//! The command line of the program.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use transpute::{Fingerprint, Identity, Role, TransportChoice};
use zeroize::Zeroizing;

use crate::{
    company::{Company, RoundConfig, ServerAddress},
    demo,
    failure::Failure,
    keys, packing,
    round::{MAX_COMPANIES, MIN_COMPANIES, Members},
    server::{Server, ServerConfig, Timeouts},
    simulation::{Order, Simulated, simulate},
    statistics, transports,
};

/// Private benchmarking: companies learn statistics of a key figure but no other company's figure.
#[derive(Parser)]
#[command(name = "benchmarking")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one of the two servers for one round
    Server(Box<ServerArgs>),
    /// Upload the figure of a company and print the results
    Company(CompanyArgs),
    /// Run many companies and compare their results with a plain computation
    Companies(CompaniesArgs),
    /// Create keys for all parties in a folder, for trials
    Keys(KeysArgs),
    /// Run both servers and companies with random figures in this process
    Demo(DemoArgs),
}

#[derive(Args)]
struct ServerArgs {
    /// Role of this server: garbler or evaluator
    #[arg(long)]
    role: Role,
    /// Name of the round, the same for all parties
    #[arg(long)]
    round: String,
    /// File of the companies that may take part, with a fingerprint at the start of each line
    #[arg(long, value_name = "FILE")]
    companies: PathBuf,
    /// Minimum number of companies; never fewer than three [default: half of the list]
    #[arg(long, value_name = "N")]
    least: Option<usize>,
    /// Key file of this server (made with `transpute id new FILE`)
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// Fingerprint of the other server
    #[arg(long, value_name = "FINGERPRINT")]
    other: Fingerprint,
    /// Address on which this server accepts companies
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,
    /// Address of the computation: the garbler's server listens on it, the evaluator's connects to
    /// it
    #[arg(long, value_name = "HOST:PORT")]
    between: String,
    /// Address on which the garbler's server accepts companies; required for the evaluator's server
    #[arg(long, value_name = "HOST:PORT", required_if_eq("role", "evaluator"))]
    garbler: Option<String>,
    /// Time to wait for the other server, and again for the companies
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    deadline: Duration,
    /// Transport of the companies' connections: tcp or quic
    #[arg(long, default_value = "tcp")]
    transport: String,
    /// Transport of the computation
    #[arg(long, default_value = "auto")]
    computation: TransportChoice,
    /// Print a summary of the round as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct RoundArgs {
    /// Name of the round
    #[arg(long, default_value = "trial")]
    round: String,
    /// Address of the garbler's server
    #[arg(long, value_name = "HOST:PORT")]
    garbler: String,
    /// Address of the evaluator's server
    #[arg(long, value_name = "HOST:PORT")]
    evaluator: String,
    /// Transport of the connections to the servers: tcp or quic
    #[arg(long, default_value = "tcp")]
    transport: String,
    /// Time to wait for the results
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    patience: Duration,
}

#[derive(Args)]
struct CompanyArgs {
    /// The figure: a whole number below 2^32, or @FILE with one
    figure: String,
    #[command(flatten)]
    round_config: RoundArgs,
    /// Fingerprint of the garbler's server
    #[arg(long, value_name = "FINGERPRINT")]
    garbler_is: Fingerprint,
    /// Fingerprint of the evaluator's server
    #[arg(long, value_name = "FINGERPRINT")]
    evaluator_is: Fingerprint,
    /// Key file of this company (made with `transpute id new FILE`)
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct CompaniesArgs {
    #[command(flatten)]
    round_config: RoundArgs,
    /// Folder of keys, created by `keys`
    #[arg(long, value_name = "FOLDER")]
    keys: PathBuf,
    /// Number of companies
    #[arg(long, value_name = "N")]
    count: usize,
    /// Upload all at once, or each company after the upload of the one before
    #[arg(long, value_enum, default_value_t = Order::Concurrent)]
    order: Order,
    /// File with one figure per line [default: random figures]
    #[arg(long, value_name = "FILE")]
    figures: Option<PathBuf>,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct KeysArgs {
    /// Folder of the keys
    folder: PathBuf,
    /// Number of companies
    #[arg(long, value_name = "N")]
    companies: usize,
}

#[derive(Args)]
struct DemoArgs {
    /// Number of companies
    #[arg(long, value_name = "N", default_value_t = 45)]
    companies: usize,
    /// Upload all at once, or each company after the upload of the one before
    #[arg(long, value_enum, default_value_t = Order::Concurrent)]
    order: Order,
    /// Transport of the companies' connections: tcp or quic
    #[arg(long, default_value = "tcp")]
    transport: String,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

/// The summary of a round with many companies in one process, printed as JSON.
#[derive(Serialize)]
struct SimulationReport {
    companies: usize,
    order: Order,
    /// Always true: a wrong result ends the program with an error.
    correct: bool,
    /// Time from the first connection until both servers had all uploads.
    uploaded_ms: f64,
    /// Time from the first connection until all companies had their results.
    elapsed_ms: f64,
    /// Time to compute the same statistics in the clear.
    plain_us: f64,
    results: statistics::Report,
}

/// Runs the command.
///
/// # Errors
/// Returns [`Failure`] of the command.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Server(args) => server(*args).await,
        Command::Company(args) => company(args).await,
        Command::Companies(args) => companies(args).await,
        Command::Keys(args) => {
            check_count(args.companies)?;
            keys::make(&args.folder, args.companies)
        }
        Command::Demo(args) => demo(args).await,
    }
}

async fn server(args: ServerArgs) -> Result<(), Failure> {
    let members = Members::open(&args.companies)?;
    raise_file_limit(members.len())?;
    let role = args.role;
    let server = Server::bind(ServerConfig {
        role,
        round: args.round,
        members,
        min_companies: args.least,
        identity: Arc::new(Identity::load(&args.identity)?),
        other: args.other,
        listen: args.listen,
        between: args.between,
        garbler: args.garbler,
        transport: args.transport,
        computation: args.computation,
        limits: Timeouts::of(args.deadline),
    })
    .await?;
    eprintln!("{role}: listening for companies at {}", server.address());
    if let Some(address) = server.between() {
        eprintln!("{role}: listening for the other server at {address}");
    }
    let report = server.run().await?;
    print(args.json, &report, || {
        format!("{role}: {} companies received results", report.companies)
    })
}

async fn company(args: CompanyArgs) -> Result<(), Failure> {
    let given = Zeroizing::new(args.figure);
    let figure = match given.strip_prefix('@') {
        Some(file) => Zeroizing::new(read(Path::new(file))?),
        None => given,
    };
    let figure = parse(&figure).map_err(Failure::Usage)?;
    let round_config = args
        .round_config
        .round_config(args.garbler_is, args.evaluator_is)?;
    let company = Company::new(Identity::load(&args.identity)?, figure);
    let (accepted, mut hearing) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        if (hearing.recv().await.and(hearing.recv().await)).is_some() {
            eprintln!("both servers have the upload; waiting for results");
        }
    });
    let (results, links) = company.take_part(&round_config, accepted).await?;
    let results = results.report();
    print(args.json, &results, || results.to_string())?;
    links.close().await;
    Ok(())
}

async fn companies(args: CompaniesArgs) -> Result<(), Failure> {
    check_count(args.count)?;
    raise_file_limit(2 * args.count)?;
    let figures = match &args.figures {
        Some(file) => figures(file, args.count)?,
        None => random_figures(args.count)?,
    };
    let identities = keys::companies(&args.keys, args.count)?;
    let garbler = keys::server(&args.keys, Role::Garbler)?;
    let evaluator = keys::server(&args.keys, Role::Evaluator)?;
    let round_config = args.round_config.round_config(garbler, evaluator)?;
    let companies = identities.into_iter().zip(figures).collect();
    let simulated = simulate(&round_config, companies, args.order).await?;
    tell(&simulated, args.order, args.json)
}

async fn demo(args: DemoArgs) -> Result<(), Failure> {
    check_count(args.companies)?;
    raise_file_limit(4 * args.companies)?;
    let figures = random_figures(args.companies)?;
    let (simulated, _) = demo::run(&figures, args.order, &args.transport).await?;
    tell(&simulated, args.order, args.json)
}

fn tell(simulated: &Simulated, order: Order, json: bool) -> Result<(), Failure> {
    let results = simulated.statistics.report();
    let millis = |duration: Duration| (duration.as_secs_f64() * 1e5).round() / 100.0;
    let report = SimulationReport {
        companies: simulated.statistics.companies(),
        order,
        correct: true,
        uploaded_ms: millis(simulated.uploaded),
        elapsed_ms: millis(simulated.elapsed),
        plain_us: simulated.plain.as_secs_f64() * 1e6,
        results,
    };
    print(json, &report, || {
        format!(
            "{}\nequal to a plain computation; the uploads took {:.0} ms, all results {:.0} ms",
            report.results, report.uploaded_ms, report.elapsed_ms
        )
    })
}

impl RoundArgs {
    fn round_config(
        self,
        garbler: Fingerprint,
        evaluator: Fingerprint,
    ) -> Result<RoundConfig, Failure> {
        let transport = transports::named(&self.transport);
        let place = |address, fingerprint| ServerAddress {
            address,
            fingerprint,
        };
        Ok(RoundConfig {
            round: self.round,
            garbler: place(self.garbler, garbler),
            evaluator: place(self.evaluator, evaluator),
            transport: transport.map_err(|source| Failure::Link {
                peer: "this company",
                source,
            })?,
            timeout: self.patience,
        })
    }
}

fn check_count(companies: usize) -> Result<(), Failure> {
    if (MIN_COMPANIES..=MAX_COMPANIES).contains(&companies) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "expected {MIN_COMPANIES} to {MAX_COMPANIES} companies, found {companies}"
    )))
}

#[cfg(unix)]
use crate::descriptors::raise_file_limit;

#[cfg(not(unix))]
fn raise_file_limit(_links: usize) -> Result<(), Failure> {
    Ok(())
}

fn random_figures(count: usize) -> Result<Vec<u32>, Failure> {
    let random = |_| Ok(u32::from_be_bytes(*packing::random()?));
    (0..count).map(random).collect()
}

fn figures(path: &Path, count: usize) -> Result<Vec<u32>, Failure> {
    let wrong = |problem| Failure::Content {
        path: path.to_owned(),
        problem,
    };
    let text = read(path)?;
    let figures: Result<Vec<u32>, String> = text.lines().map(parse).collect();
    let figures = figures.map_err(wrong)?;
    if figures.len() != count {
        return Err(wrong(format!(
            "expected {count} figures, found {}",
            figures.len()
        )));
    }
    Ok(figures)
}

fn parse(figure: &str) -> Result<u32, String> {
    // The error message does not contain the text, because a mistyped figure may reveal the figure.
    (figure.trim().parse()).map_err(|_| "expected a whole number from 0 to 4294967295".into())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|source| Failure::File {
        path: path.to_owned(),
        source,
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if (0.1..=1e6).contains(&seconds) => Ok(duration),
        _ => Err("expected 0.1 to 1000000 seconds".into()),
    }
}

fn print<T: Serialize>(
    json: bool,
    report: &T,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let text = match json {
        true => serde_json::to_string(report).map_err(|_| Failure::Broken)?,
        false => text(),
    };
    println!("{text}");
    Ok(())
}
