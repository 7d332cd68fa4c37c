//! The command line.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use transpute::{Choice, Fingerprint, Identity, Role};
use zeroize::Zeroizing;

use crate::{
    company::{Company, Place, Venue},
    crowd::{Order, Played, play},
    demo,
    failure::Failure,
    keys, pieces,
    round::{FEWEST, MOST, Members},
    server::{Limits, Plan, Server},
    statistics, transports,
};

/// Private benchmarking of key figures: companies learn statistics of a figure, and nobody learns another's.
#[derive(Parser)]
#[command(name = "benchmarking")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Be one of the two servers, for one round
    Server(Box<ServerArgs>),
    /// Be a company: upload a figure and print the results
    Company(CompanyArgs),
    /// Be many companies, and compare what they learn with a plain computation
    Companies(CompaniesArgs),
    /// Make keys for everybody in a folder, to try it out
    Keys(KeysArgs),
    /// Run two servers and companies with random figures in this program
    Demo(DemoArgs),
}

#[derive(Args)]
struct ServerArgs {
    /// Which of the two: garbler or evaluator
    #[arg(long)]
    role: Role,
    /// The name of the round, the same for everybody
    #[arg(long)]
    round: String,
    /// The companies that may take part: a file with a fingerprint at the start of each line
    #[arg(long, value_name = "FILE")]
    companies: PathBuf,
    /// How many companies must take part at least; half of them unless given, and never fewer than three
    #[arg(long, value_name = "N")]
    least: Option<usize>,
    /// This server's key (made with `transpute id new FILE`)
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// The other server's fingerprint
    #[arg(long, value_name = "FINGERPRINT")]
    other: Fingerprint,
    /// Where companies connect to this server
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,
    /// For the computation: where the garbler's server listens and the evaluator's connects
    #[arg(long, value_name = "HOST:PORT")]
    between: String,
    /// Where companies connect to the garbler's server; for the evaluator's
    #[arg(long, value_name = "HOST:PORT", required_if_eq("role", "evaluator"))]
    garbler: Option<String>,
    /// How long to wait for the other server, and then for companies
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    deadline: Duration,
    /// Transport of the companies' links: tcp or quic
    #[arg(long, default_value = "tcp")]
    transport: String,
    /// Transport of the computation
    #[arg(long, default_value = "auto")]
    computation: Choice,
    /// Print what is known of the round as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct VenueArgs {
    /// The name of the round
    #[arg(long, default_value = "trial")]
    round: String,
    /// The garbler's server
    #[arg(long, value_name = "HOST:PORT")]
    garbler: String,
    /// The evaluator's server
    #[arg(long, value_name = "HOST:PORT")]
    evaluator: String,
    /// Transport of the links to the servers: tcp or quic
    #[arg(long, default_value = "tcp")]
    transport: String,
    /// How long to wait for results
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    patience: Duration,
}

#[derive(Args)]
struct CompanyArgs {
    /// The figure: a whole number below 2^32, or @FILE with one
    figure: String,
    #[command(flatten)]
    venue: VenueArgs,
    /// The fingerprint of the garbler's server
    #[arg(long, value_name = "FINGERPRINT")]
    garbler_is: Fingerprint,
    /// The fingerprint of the evaluator's server
    #[arg(long, value_name = "FINGERPRINT")]
    evaluator_is: Fingerprint,
    /// This company's key (made with `transpute id new FILE`)
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct CompaniesArgs {
    #[command(flatten)]
    venue: VenueArgs,
    /// The folder with keys, as `keys` makes it
    #[arg(long, value_name = "FOLDER")]
    keys: PathBuf,
    /// How many companies
    #[arg(long, value_name = "N")]
    count: usize,
    /// Whether all upload at once or each when the servers have the upload before
    #[arg(long, value_enum, default_value_t = Order::Concurrent)]
    order: Order,
    /// A file with their figures, one in each line; random ones unless given
    #[arg(long, value_name = "FILE")]
    figures: Option<PathBuf>,
    /// Print what came of it as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct KeysArgs {
    /// The folder
    folder: PathBuf,
    /// How many companies
    #[arg(long, value_name = "N")]
    companies: usize,
}

#[derive(Args)]
struct DemoArgs {
    /// How many companies
    #[arg(long, value_name = "N", default_value_t = 45)]
    companies: usize,
    /// Whether all upload at once or each when the servers have the upload before
    #[arg(long, value_enum, default_value_t = Order::Concurrent)]
    order: Order,
    /// Transport of the companies' links: tcp or quic
    #[arg(long, default_value = "tcp")]
    transport: String,
    /// Print what came of it as JSON
    #[arg(long)]
    json: bool,
}

/// What a program that plays many companies says.
#[derive(Serialize)]
struct CrowdReport {
    companies: usize,
    order: Order,
    /// What was learnt is what a plain computation gives; else this is not printed.
    correct: bool,
    /// From the first connection until the servers had all uploads.
    uploaded_ms: f64,
    /// From the first connection until all companies had their results.
    elapsed_ms: f64,
    /// What computing them in the open takes.
    plain_us: f64,
    results: statistics::Report,
}

/// Does what the command line says.
///
/// # Errors
/// Any [`Failure`].
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
    make_room(members.len())?;
    let role = args.role;
    let server = Server::bind(Plan {
        role,
        round: args.round,
        members,
        least: args.least,
        identity: Arc::new(Identity::load(&args.identity)?),
        other: args.other,
        listen: args.listen,
        between: args.between,
        garbler: args.garbler,
        transport: args.transport,
        computation: args.computation,
        limits: Limits::of(args.deadline),
    })
    .await?;
    eprintln!("{role}: listening for companies at {}", server.address());
    if let Some(address) = server.between() {
        eprintln!("{role}: listening for the other server at {address}");
    }
    let report = server.run().await?;
    print(args.json, &report, || {
        format!("{role}: {} companies have their results", report.companies)
    })
}

async fn company(args: CompanyArgs) -> Result<(), Failure> {
    let given = Zeroizing::new(args.figure);
    let figure = match given.strip_prefix('@') {
        Some(file) => Zeroizing::new(read(Path::new(file))?),
        None => given,
    };
    let figure = parse(&figure).map_err(Failure::Usage)?;
    let venue = args.venue.venue(args.garbler_is, args.evaluator_is)?;
    let company = Company::new(Identity::load(&args.identity)?, figure);
    let (accepted, mut hearing) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        if (hearing.recv().await.and(hearing.recv().await)).is_some() {
            eprintln!("both servers have the upload; waiting for results");
        }
    });
    let (results, parting) = company.take_part(&venue, accepted).await?;
    let results = results.report();
    print(args.json, &results, || results.to_string())?;
    parting.say_goodbye().await;
    Ok(())
}

async fn companies(args: CompaniesArgs) -> Result<(), Failure> {
    check_count(args.count)?;
    make_room(2 * args.count)?;
    let figures = match &args.figures {
        Some(file) => figures(file, args.count)?,
        None => random_figures(args.count)?,
    };
    let identities = keys::companies(&args.keys, args.count)?;
    let garbler = keys::server(&args.keys, Role::Garbler)?;
    let evaluator = keys::server(&args.keys, Role::Evaluator)?;
    let venue = args.venue.venue(garbler, evaluator)?;
    let companies = identities.into_iter().zip(figures).collect();
    let played = play(&venue, companies, args.order).await?;
    tell(&played, args.order, args.json)
}

async fn demo(args: DemoArgs) -> Result<(), Failure> {
    check_count(args.companies)?;
    make_room(4 * args.companies)?;
    let figures = random_figures(args.companies)?;
    let (played, _) = demo::run(&figures, args.order, &args.transport).await?;
    tell(&played, args.order, args.json)
}

fn tell(played: &Played, order: Order, json: bool) -> Result<(), Failure> {
    let results = played.statistics.report();
    let millis = |duration: Duration| (duration.as_secs_f64() * 1e5).round() / 100.0;
    let report = CrowdReport {
        companies: played.statistics.companies(),
        order,
        correct: true,
        uploaded_ms: millis(played.uploaded),
        elapsed_ms: millis(played.elapsed),
        plain_us: played.plain.as_secs_f64() * 1e6,
        results,
    };
    print(json, &report, || {
        format!(
            "{}\nas by a plain computation; the uploads took {:.0} ms, all results {:.0} ms",
            report.results, report.uploaded_ms, report.elapsed_ms
        )
    })
}

impl VenueArgs {
    fn venue(self, garbler: Fingerprint, evaluator: Fingerprint) -> Result<Venue, Failure> {
        let transport = transports::named(&self.transport);
        let place = |address, fingerprint| Place {
            address,
            fingerprint,
        };
        Ok(Venue {
            round: self.round,
            garbler: place(self.garbler, garbler),
            evaluator: place(self.evaluator, evaluator),
            transport: transport.map_err(|source| Failure::Link {
                whom: "this company",
                source,
            })?,
            patience: self.patience,
        })
    }
}

fn check_count(companies: usize) -> Result<(), Failure> {
    if (FEWEST..=MOST).contains(&companies) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "expected {FEWEST} to {MOST} companies, got {companies}"
    )))
}

#[cfg(unix)]
use crate::descriptors::make_room;

#[cfg(not(unix))]
fn make_room(_links: usize) -> Result<(), Failure> {
    Ok(())
}

fn random_figures(count: usize) -> Result<Vec<u32>, Failure> {
    let random = |_| Ok(u32::from_be_bytes(*pieces::random()?));
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
            "expected {count} figures, got {}",
            figures.len()
        )));
    }
    Ok(figures)
}

fn parse(figure: &str) -> Result<u32, String> {
    // The text is left out: a figure with a slip of the pen is as secret as one without.
    (figure.trim().parse()).map_err(|_| "a figure is a whole number from 0 to 4294967295".into())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|source| Failure::File {
        path: path.to_owned(),
        source,
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is wanted")?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if (0.1..=1e6).contains(&seconds) => Ok(duration),
        _ => Err("from 0.1 to 1000000 seconds are possible".into()),
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
