//! The command that finds frequent itemsets together with a peer.

use std::{error::Error, fmt::Write, path::PathBuf, time::Instant};

use clap::Args;
use serde::Serialize;
use transpute::{Connection, Role};
use transpute_applications::{Answer, Usage, part, tell};
use transpute_examples::{Place, neighbours};

use crate::{
    file::{Shares, read_answers},
    mining::{Frequent, Level, Miner, Search, party, plain},
    support::Opened,
};

/// Maximum number of transactions. One candidate must fit into one circuit.
const MAX_TRANSACTIONS: usize = 1 << 20;

/// Finds the sets of items that occur together in many transactions, with the party that holds the
/// other shares
#[derive(Args, Debug)]
pub(crate) struct ItemsetsArgs {
    /// This party's file of shares: zeros and ones, a column per item; without --role, the
    /// garbler's file and the evaluator's
    #[arg(required = true, num_args = 1..=2)]
    shares: Vec<PathBuf>,
    /// Minimum number of transactions of a frequent set; the same on both sides
    #[arg(long, value_name = "TRANSACTIONS", value_parser = clap::value_parser!(u64).range(1..))]
    support: u64,
    /// Open the supports of all candidates, not only whether they are frequent; the same on both
    /// sides
    #[arg(long)]
    supports: bool,
    /// Maximum size of sets; the same on both sides
    #[arg(long, value_name = "ITEMS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    largest: u32,
    /// Maximum number of candidates of one size; more end the computation
    #[arg(long, value_name = "SETS", default_value_t = 100_000)]
    most: usize,
    /// Plain transactions to compare the result with, for trials
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Print the results as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// The results and costs of a party.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    role: String,
    transport: String,
    transactions: usize,
    items: usize,
    support: u64,
    pub(crate) frequent: Vec<Frequent>,
    levels: Vec<Level>,
    /// Whether the sets equal those of the plain transactions. `None` if these were not given.
    correct: Option<bool>,
    /// Number of candidates of all sizes.
    candidates: usize,
    and_gates: u64,
    /// Number of bytes sent over the transport. `bytes_received` is the number received.
    bytes_sent: u64,
    bytes_received: u64,
    /// Time from the established connection to the last frequent set, in seconds. It includes the
    /// compilation of circuits.
    seconds: f64,
    /// Time since the start of the program, in seconds.
    total_s: f64,
    #[serde(flatten)]
    usage: Usage,
}

/// Runs the command.
pub(crate) async fn itemsets(args: &ItemsetsArgs) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    for found in find(args, started).await? {
        tell(&found, args.json)?;
    }
    Ok(())
}

async fn find(args: &ItemsetsArgs, started: Instant) -> Result<Vec<Found>, Box<dyn Error>> {
    let search = Search {
        threshold: args.support,
        opened: match args.supports {
            true => Opened::Support,
            false => Opened::Frequent,
        },
        largest: args.largest as usize,
        max_candidates: args.most,
    };
    let Place { role, ends } = &args.place;
    let expected = match &args.expect {
        Some(file) => Some(plain(&read_answers(file, 1, 2)?, &search)?),
        None => None,
    };
    let finish = |outcome: Result<Found, Box<dyn Error>>| -> Result<Found, Box<dyn Error>> {
        let mut found = outcome?;
        found.correct = expected
            .as_ref()
            .map(|expected| *expected == found.frequent);
        found.total_s = started.elapsed().as_secs_f64();
        Ok(found)
    };
    match (role, &args.shares[..]) {
        (Some(role), [file]) => {
            let shares = transactions(file)?;
            let connection = ends.open(party(*role, &shares.table, search)?).await?;
            Ok(vec![finish(
                mine(connection, *role, &shares, search).await,
            )?])
        }
        (None, [garbler, evaluator]) => {
            let (garbler, evaluator) = (transactions(garbler)?, transactions(evaluator)?);
            let one = party(Role::Garbler, &garbler.table, search)?;
            let other = party(Role::Evaluator, &evaluator.table, search)?;
            let (listening, connecting) = neighbours(one, other).await?;
            let (one, other) = tokio::join!(listening.open(), connecting.open());
            let (one, other) = tokio::join!(
                mine(one?, Role::Garbler, &garbler, search),
                mine(other?, Role::Evaluator, &evaluator, search),
            );
            Ok(vec![finish(one)?, finish(other)?])
        }
        (Some(_), _) => Err("expected one file of shares with --role".into()),
        (None, _) => Err("expected two files of shares without --role".into()),
    }
}

fn transactions(file: &std::path::Path) -> Result<Shares, Box<dyn Error>> {
    let shares = Shares::open(file)?;
    let (rows, width) = (shares.table.rows(), shares.table.width());
    match (rows, width) {
        (0..=MAX_TRANSACTIONS, 1) => Ok(shares),
        (_, 1) => {
            Err(format!("expected at most {MAX_TRANSACTIONS} transactions, found {rows}").into())
        }
        _ => Err(format!("expected shares of 1 bit per item, found {width}").into()),
    }
}

/// Finds the frequent sets as one party.
async fn mine(
    connection: Connection,
    role: Role,
    shares: &Shares,
    search: Search,
) -> Result<Found, Box<dyn Error>> {
    let started = Instant::now();
    let (transactions, items) = (shares.table.rows(), shares.table.columns());
    let mut miner = Miner {
        connection: &connection,
        role,
        shares,
        search,
    };
    let (frequent, levels) = match miner.mine().await {
        Ok(found) => found,
        Err(error) => return Err(part(connection, error).await),
    };
    let seconds = started.elapsed().as_secs_f64();
    let transport = connection.link().transport.to_owned();
    let stats = connection.stats();
    connection.close().await?;
    Ok(Found {
        role: role.to_string(),
        transport,
        transactions,
        items,
        support: search.threshold,
        frequent: frequent
            .into_iter()
            .map(Frequent::numbered_from_1)
            .collect(),
        correct: None,
        candidates: levels.iter().map(|level| level.candidates).sum(),
        and_gates: levels.iter().map(|level| level.and_gates).sum(),
        levels,
        bytes_sent: stats.bytes_sent(),
        bytes_received: stats.bytes_received(),
        seconds,
        total_s: 0.0,
        usage: Usage::now(),
    })
}

impl Answer for Found {
    const WRONG: &'static str = "the frequent sets differ from those of the plain transactions";

    fn correct(&self) -> Option<bool> {
        self.correct
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Frequent { items, support } in &self.frequent {
            let items: Vec<String> = items.iter().map(u32::to_string).collect();
            let support = support.map_or(String::new(), |support| format!(": {support}"));
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{{{}}}{support}", items.join(", "));
        }
        for level in &self.levels {
            let _ = writeln!(
                text,
                "sets of {}: {} frequent of {} candidates, {} AND gates in {} circuits, {:.2} s",
                level.size,
                level.frequent,
                level.candidates,
                level.and_gates,
                level.circuits,
                level.seconds,
            );
        }
        let _ = writeln!(
            text,
            "{}: {} bytes sent and {} received in {:.2} s, over {}",
            self.role, self.bytes_sent, self.bytes_received, self.seconds, self.transport,
        );
        text
    }
}
