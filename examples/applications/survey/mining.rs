//! Finding frequent itemsets on a connection: level by level, each in circuits of bounded size.

use std::{collections::VecDeque, error::Error, sync::Arc, time::Instant};

use serde::Serialize;
use transpute::{
    Bits, Config, Connection, InputSplit, OutputPolicy, Party, Program, Role, driver::Running,
};

use crate::{
    apriori::{Itemset, groups, larger, singles},
    file::Shares,
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
pub(crate) struct Level {
    pub(crate) size: usize,
    pub(crate) candidates: usize,
    pub(crate) frequent: usize,
    pub(crate) circuits: usize,
    pub(crate) and_gates: u64,
    pub(crate) seconds: f64,
}

/// How to look, the same on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) threshold: u64,
    pub(crate) opened: Opened,
    pub(crate) largest: usize,
    pub(crate) most: usize,
}

/// Makes a party for a connection. How many circuits there will be is not known: the transport is chosen for some
/// of the size of the first.
pub(crate) fn party(role: Role, table: &Table, search: Search) -> Result<Party, Box<dyn Error>> {
    let first = singles(table.columns() as u32);
    let groups = groups(&first, table.rows(), GATES_OF_A_CIRCUIT);
    let group = groups.first().copied().unwrap_or_default();
    let circuit = circuit(group, table.rows(), search.threshold, search.opened)?;
    let party = Party::new(role, Arc::new(Program::compile(&circuit)));
    Ok((party.garbler_inputs([0, 1])).expect_runs(CIRCUITS_EXPECTED, AT_ONCE as u64))
}

fn too_many(sets: usize, most: usize) -> String {
    format!("{sets} candidates of one size, more than {most}: raise --support or --most")
}

impl Frequent {
    /// Numbers items as people do.
    pub(crate) fn numbered_from_1(self) -> Self {
        let items = self.items.into_iter().map(|item| item + 1).collect();
        Self { items, ..self }
    }
}

/// One party's part: what it has, and the peer it counts with.
pub(crate) struct Miner<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) role: Role,
    pub(crate) shares: &'a Shares,
    pub(crate) search: Search,
}

impl Miner<'_> {
    /// Counts level after level; returns the frequent sets.
    pub(crate) async fn mine(&mut self) -> Result<(Vec<Frequent>, Vec<Level>), Box<dyn Error>> {
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
