//! Finding frequent itemsets with a peer: level by level, each in circuits of bounded size.

use std::{
    collections::VecDeque, error::Error, fmt::Write, path::PathBuf, sync::Arc, time::Instant,
};

use clap::Args;
use serde::Serialize;
use transpute::{
    Bits, Config, Connection, InputSplit, OutputPolicy, Party, Program, Role, Running,
};
use transpute_examples::{Place, Usage, neighbours, part};

use crate::{
    apriori::{Itemset, groups, larger, singles},
    file::{Shares, read_answers},
    histogram::TAG_BITS,
    support::{Opened, circuit, items},
    table::Table,
};

/// About how many AND gates a circuit has: each is held whole, in a hundred bytes for each gate.
const GATES_OF_A_CIRCUIT: usize = 500_000;

/// Circuits that are computed at a time; the next one is compiled meanwhile.
const AT_ONCE: usize = 2;

/// For how many circuits the transport is chosen.
const CIRCUITS_EXPECTED: u64 = 8;

/// The most transactions: one candidate is one circuit at least.
const MAX_TRANSACTIONS: usize = 1 << 20;

/// Finds the sets of items that are together in many transactions, with the party that holds the other
/// shares.
#[derive(Args, Debug)]
pub(crate) struct ItemsetsArgs {
    /// This party's file of shares, of zeros and ones with a column for each item; without --role, the garbler's and the
    /// evaluator's
    #[arg(required = true, num_args = 1..=2)]
    shares: Vec<PathBuf>,
    /// In how many transactions a set is at least to be frequent; the same on both sides
    #[arg(long, value_name = "TRANSACTIONS", value_parser = clap::value_parser!(u64).range(1..))]
    support: u64,
    /// Open the supports of all candidates, not only which are frequent; the same on both sides
    #[arg(long)]
    supports: bool,
    /// The largest sets to look for; the same on both sides
    #[arg(long, value_name = "ITEMS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    largest: u32,
    /// The most candidates of one size; more end the computation
    #[arg(long, value_name = "SETS", default_value_t = 100_000)]
    most: usize,
    /// The plain transactions to compare the result with: for trials
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Print one JSON object in a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// What is known of a frequent set.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Frequent {
    /// By number, from 1.
    pub(crate) items: Vec<u32>,
    /// Where supports are opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) support: Option<u64>,
}

/// What was counted of sets of one size.
#[derive(Clone, Debug, Serialize)]
struct Level {
    size: usize,
    candidates: usize,
    frequent: usize,
    circuits: usize,
    and_gates: u64,
    seconds: f64,
}

/// What a party has in the end.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    role: String,
    transport: String,
    transactions: usize,
    items: usize,
    support: u64,
    pub(crate) frequent: Vec<Frequent>,
    levels: Vec<Level>,
    /// Whether the frequent sets are those of the plain transactions, if these were given.
    correct: Option<bool>,
    /// Of all levels.
    candidates: usize,
    and_gates: u64,
    /// Bytes handed to and from the transport.
    bytes_sent: u64,
    bytes_received: u64,
    /// From both parties being connected until the last set was known, compiling included.
    seconds: f64,
    /// From the start of the program.
    total_s: f64,
    #[serde(flatten)]
    usage: Usage,
}

/// How to look, the same on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) threshold: u64,
    pub(crate) opened: Opened,
    pub(crate) largest: usize,
    pub(crate) most: usize,
}

/// Runs the command.
pub(crate) async fn itemsets(args: &ItemsetsArgs) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    for found in find(args, started).await? {
        match args.json {
            true => println!("{}", serde_json::to_string(&found)?),
            false => print!("{}", found.text()),
        }
        if found.correct == Some(false) {
            return Err("the frequent sets are not those of the plain transactions".into());
        }
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
        most: args.most,
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
        (Some(_), _) => Err("a party alone has one file of shares".into()),
        (None, _) => Err("two parties have two files of shares; --role runs one of them".into()),
    }
}

fn transactions(file: &std::path::Path) -> Result<Shares, Box<dyn Error>> {
    let shares = Shares::open(file)?;
    let (rows, width) = (shares.table.rows(), shares.table.width());
    match (rows, width) {
        (0..=MAX_TRANSACTIONS, 1) => Ok(shares),
        (_, 1) => {
            Err(format!("{rows} transactions; at most {MAX_TRANSACTIONS} are counted").into())
        }
        _ => Err(format!("transactions are shared in 1 bit for each item, not {width}").into()),
    }
}

/// Makes a party for a connection. How many circuits there will be is not known: the transport is chosen for some
/// of the size of the first.
fn party(role: Role, table: &Table, search: Search) -> Result<Party, Box<dyn Error>> {
    let first = singles(table.columns() as u32);
    let groups = groups(&first, table.rows(), GATES_OF_A_CIRCUIT);
    let group = groups.first().copied().unwrap_or_default();
    let circuit = circuit(group, table.rows(), search.threshold, search.opened)?;
    let party = Party::new(role, Arc::new(Program::compile(&circuit)));
    Ok((party.garbler_inputs([0, 1])).expect_runs(CIRCUITS_EXPECTED, AT_ONCE as u64))
}

/// One party's part.
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

fn too_many(sets: usize, most: usize) -> String {
    format!("{sets} candidates of one size, more than {most}: raise --support or --most")
}

impl Frequent {
    /// Numbers items as people do.
    fn numbered_from_1(self) -> Self {
        let items = self.items.into_iter().map(|item| item + 1).collect();
        Self { items, ..self }
    }
}

struct Miner<'a> {
    connection: &'a Connection,
    role: Role,
    shares: &'a Shares,
    search: Search,
}

impl Miner<'_> {
    /// Counts level after level; returns the frequent sets.
    async fn mine(&mut self) -> Result<(Vec<Frequent>, Vec<Level>), Box<dyn Error>> {
        let (mut frequent, mut levels) = (Vec::new(), Vec::new());
        // A table has at most 4,096 columns.
        let mut candidates = singles(self.shares.table.columns() as u32);
        while !candidates.is_empty() {
            let (found, level) = self.level(&candidates).await?;
            levels.push(level);
            let sets: Vec<Itemset> = found.iter().map(|one| one.items.clone()).collect();
            frequent.extend(found);
            if levels.len() == self.search.largest {
                break;
            }
            let most = self.search.most;
            candidates = larger(&sets, most).map_err(|sets| too_many(sets, most))?;
        }
        Ok((frequent, levels))
    }

    /// Counts candidates of one size; returns the frequent ones.
    async fn level(
        &mut self,
        candidates: &[Itemset],
    ) -> Result<(Vec<Frequent>, Level), Box<dyn Error>> {
        let started = Instant::now();
        let groups = groups(candidates, self.shares.table.rows(), GATES_OF_A_CIRCUIT);
        let mut under_way = VecDeque::new();
        let (mut frequent, mut and_gates) = (Vec::new(), 0);
        let circuits = groups.len();
        let mut waiting = groups.into_iter();
        loop {
            while under_way.len() < AT_ONCE
                && let Some(group) = waiting.next()
            {
                let program = self.compile(group).await?;
                and_gates += program.and_count();
                under_way.push_back((group, program.clone(), self.call(group, program)?));
            }
            let Some((group, program, running)) = under_way.pop_front() else {
                break;
            };
            let outputs = running.await?.outputs;
            let bits = outputs.first().ok_or("there is no output")?;
            frequent.extend(self.read(group, &program.split_outputs(bits))?);
        }
        let level = Level {
            size: candidates.first().map_or(0, Vec::len),
            candidates: candidates.len(),
            frequent: frequent.len(),
            circuits,
            and_gates,
            seconds: started.elapsed().as_secs_f64(),
        };
        Ok((frequent, level))
    }

    /// Compiles the circuit of some candidates beside what is under way.
    async fn compile(&self, group: &[Itemset]) -> Result<Arc<Program>, Box<dyn Error>> {
        let (group, transactions) = (group.to_vec(), self.shares.table.rows());
        let Search {
            threshold, opened, ..
        } = self.search;
        let compiling = tokio::task::spawn_blocking(move || {
            circuit(&group, transactions, threshold, opened)
                .map(|circuit| Program::compile(&circuit))
        });
        Ok(Arc::new(compiling.await??))
    }

    fn call(&self, group: &[Itemset], program: Arc<Program>) -> Result<Running, Box<dyn Error>> {
        let split = InputSplit::new(program.input_widths(), &[0, 1])?;
        let config = Config {
            output: OutputPolicy::Both,
            ..Config::default()
        };
        let mut bits = Bits::new();
        for item in items(group) {
            self.shares.table.append_column(item as usize, &mut bits);
        }
        bits.extend([Bits::from_u128(self.shares.tag.into(), TAG_BITS)]);
        let handle = self.connection.handle();
        Ok(handle.run(self.role, program, split, config, Box::new(vec![bits])))
    }

    fn read(&self, group: &[Itemset], outputs: &[Bits]) -> Result<Vec<Frequent>, Box<dyn Error>> {
        let numbers: Option<Vec<u128>> = outputs.iter().map(Bits::to_u128).collect();
        let numbers = numbers.ok_or("a support of more than 128 bits")?;
        let Some((1, supports)) = numbers.split_last() else {
            return Err("the peer's shares are of another table".into());
        };
        Ok((group.iter().zip(supports))
            .filter_map(|(set, &opened)| self.search.frequent(set, u64::try_from(opened).ok()?))
            .collect())
    }
}

impl Search {
    /// Judges a set by what was opened of it.
    pub(crate) fn frequent(&self, set: &[u32], opened: u64) -> Option<Frequent> {
        let (is_frequent, support) = match self.opened {
            Opened::Frequent => (opened == 1, None),
            Opened::Support => (opened >= self.threshold, Some(opened)),
        };
        is_frequent.then(|| Frequent {
            items: set.to_vec(),
            support,
        })
    }
}

/// Finds frequent sets in plain transactions, items numbered from 1.
pub(crate) fn plain(table: &Table, search: &Search) -> Result<Vec<Frequent>, Box<dyn Error>> {
    let mut frequent = Vec::new();
    let mut candidates = singles(table.columns() as u32);
    for _ in 0..search.largest {
        let mut found = Vec::new();
        for set in &candidates {
            let has_all = |row: &&[u32]| set.iter().all(|&item| row[item as usize] == 1);
            let support = table.iter().filter(has_all).count() as u64;
            if support >= search.threshold {
                let support = (search.opened == Opened::Support).then_some(support);
                let items = set.clone();
                found.push(Frequent { items, support });
            }
        }
        let sets: Vec<Itemset> = found.iter().map(|one| one.items.clone()).collect();
        frequent.extend(found.into_iter().map(Frequent::numbered_from_1));
        candidates = larger(&sets, search.most).map_err(|sets| too_many(sets, search.most))?;
    }
    Ok(frequent)
}

impl Found {
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
