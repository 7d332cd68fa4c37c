//! The search for frequent itemsets over a connection. It proceeds by size of the sets, in circuits
//! of bounded size.

use std::{collections::VecDeque, error::Error, sync::Arc, time::Instant};

use serde::Serialize;
use transpute::{
    Bits, Config, Connection, InputSplit, OutputPolicy, Party, Program, Role, driver::Running,
};

use crate::{
    apriori::{Itemset, candidates_from, groups, single_items},
    file::Shares,
    histogram::TAG_BITS,
    support::{Opened, circuit, items},
    table::Table,
};

/// Approximate maximum number of AND gates of a circuit. It limits the memory of a party to about
/// 50 MB.
const CIRCUIT_GATES: usize = 500_000;

/// Number of circuits that are evaluated concurrently, while the next one is compiled.
const CONCURRENT_CIRCUITS: usize = 2;

/// Number of runs that is assumed when the transport is chosen, because the true number of circuits
/// is not known in advance.
const EXPECTED_CIRCUITS: u64 = 8;

/// A frequent set.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Frequent {
    /// The items, numbered from 1.
    pub(crate) items: Vec<u32>,
    /// The number of transactions with all items. `None` if only frequency is opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) support: Option<u64>,
}

/// The statistics of the sets of one size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Level {
    pub(crate) size: usize,
    pub(crate) candidates: usize,
    pub(crate) frequent: usize,
    pub(crate) circuits: usize,
    pub(crate) and_gates: u64,
    pub(crate) seconds: f64,
}

/// The parameters of the search, equal on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) threshold: u64,
    pub(crate) opened: Opened,
    pub(crate) largest: usize,
    pub(crate) max_candidates: usize,
}

/// Returns a party for the search. Its transport is chosen for [`EXPECTED_CIRCUITS`] runs of the
/// first circuit.
pub(crate) fn party(role: Role, table: &Table, search: Search) -> Result<Party, Box<dyn Error>> {
    let first = single_items(table.columns() as u32);
    let groups = groups(&first, table.rows(), CIRCUIT_GATES);
    let group = groups.first().copied().unwrap_or_default();
    let circuit = circuit(group, table.rows(), search.threshold, search.opened)?;
    let party = Party::new(role, Arc::new(Program::compile(&circuit)));
    Ok((party.garbler_inputs([0, 1])).expect_runs(EXPECTED_CIRCUITS, CONCURRENT_CIRCUITS as u64))
}

fn too_many(sets: usize, max_candidates: usize) -> String {
    format!(
        "expected at most {max_candidates} candidates of one size, found {sets}: raise --support or --most"
    )
}

impl Frequent {
    /// Converts item numbers that start at 0 to item numbers that start at 1.
    pub(crate) fn numbered_from_1(self) -> Self {
        let items = self.items.into_iter().map(|item| item + 1).collect();
        Self { items, ..self }
    }
}

/// One party of the search.
pub(crate) struct Miner<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) role: Role,
    pub(crate) shares: &'a Shares,
    pub(crate) search: Search,
}

impl Miner<'_> {
    /// Searches the sets of one item, then of two, and so on. Returns the frequent sets, and the
    /// statistics of each size.
    pub(crate) async fn mine(&mut self) -> Result<(Vec<Frequent>, Vec<Level>), Box<dyn Error>> {
        let (mut frequent, mut levels) = (Vec::new(), Vec::new());
        // The cast is lossless, because a table has at most 4,096 columns.
        let mut candidates = single_items(self.shares.table.columns() as u32);
        while !candidates.is_empty() {
            let (found, level) = self.level(&candidates).await?;
            levels.push(level);
            let sets: Vec<Itemset> = found.iter().map(|one| one.items.clone()).collect();
            frequent.extend(found);
            if levels.len() == self.search.largest {
                break;
            }
            let max_candidates = self.search.max_candidates;
            candidates = candidates_from(&sets, max_candidates)
                .map_err(|sets| too_many(sets, max_candidates))?;
        }
        Ok((frequent, levels))
    }

    /// Computes with the peer which candidates of one size are frequent, and returns these.
    async fn level(
        &mut self,
        candidates: &[Itemset],
    ) -> Result<(Vec<Frequent>, Level), Box<dyn Error>> {
        let started = Instant::now();
        let groups = groups(candidates, self.shares.table.rows(), CIRCUIT_GATES);
        let mut running_circuits = VecDeque::new();
        let (mut frequent, mut and_gates) = (Vec::new(), 0);
        let circuits = groups.len();
        let mut waiting = groups.into_iter();
        loop {
            while running_circuits.len() < CONCURRENT_CIRCUITS
                && let Some(group) = waiting.next()
            {
                let program = self.compile(group).await?;
                and_gates += program.and_count();
                running_circuits.push_back((group, program.clone(), self.call(group, program)?));
            }
            let Some((group, program, running)) = running_circuits.pop_front() else {
                break;
            };
            let outputs = running.await?.outputs;
            let bits = outputs.first().ok_or("the circuit has no output")?;
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

    /// Compiles the circuit for a group of candidates, on a thread that may block.
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
        let mut config = Config::default();
        config.output = OutputPolicy::Both;
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
        let numbers = numbers.ok_or("an output has more than 128 bits")?;
        let Some((1, supports)) = numbers.split_last() else {
            return Err("the peer has shares of a different table".into());
        };
        Ok((group.iter().zip(supports))
            .filter_map(|(set, &opened)| self.search.frequent(set, u64::try_from(opened).ok()?))
            .collect())
    }
}

impl Search {
    /// Returns the set if it is frequent. `opened` is the value that the circuit opened for it.
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

/// Finds the frequent sets of plain transactions, with items numbered from 1.
pub(crate) fn plain(table: &Table, search: &Search) -> Result<Vec<Frequent>, Box<dyn Error>> {
    let mut frequent = Vec::new();
    let mut candidates = single_items(table.columns() as u32);
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
        candidates = candidates_from(&sets, search.max_candidates)
            .map_err(|sets| too_many(sets, search.max_candidates))?;
    }
    Ok(frequent)
}
