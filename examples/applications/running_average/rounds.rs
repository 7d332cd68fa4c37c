//! The rounds of both parties on one connection.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;
use transpute::{
    Bits, Config, Connection, InputSplit, Party, Program, Role,
    driver::{DriverOptions, RunOutcome},
    session::ConnectionConfig,
};
use transpute_applications::{Answer, Usage, part};

use crate::circuit::{Opened, circuit, distances_to_bits, sum_to_bits, sums_from_bits};

/// Silence after which the peer counts as lost: on a path that loses one packet of ten, a TCP that waits twice as
/// long after each loss may well be silent for some seconds.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// What both parties know of the rounds beforehand.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    count: usize,
    batch: usize,
    opened: Opened,
    program: Arc<Program>,
    /// The last batch, where it is shorter.
    rest: Option<Arc<Program>>,
}

/// What a party has in the end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    party: &'static str,
    transport: String,
    rounds: usize,
    batch: usize,
    opened: Opened,
    /// What the server knows: the sum of all distances, in metres.
    pub(crate) sum: Option<u64>,
    /// And their average.
    pub(crate) average: Option<f64>,
    /// The running sums that the server has seen.
    #[serde(skip)]
    pub(crate) sums: Vec<u64>,
    /// Whether all of them are as they should be, if that is known.
    pub(crate) correct: Option<bool>,
    and_gates: u64,
    /// Bytes handed to and from the transport.
    bytes_sent: u64,
    bytes_received: u64,
    /// Connecting and authenticating.
    connect_s: f64,
    /// All rounds.
    seconds: f64,
    /// From the start of the program.
    total_s: f64,
    /// How long batches took: half of them less than this, and the longest.
    batch_median_s: f64,
    batch_longest_s: f64,
    #[serde(flatten)]
    usage: Usage,
}

impl Rounds {
    /// Prepares `count` rounds in batches of so many.
    pub(crate) fn new(count: usize, batch: usize, opened: Opened) -> Result<Self, Box<dyn Error>> {
        let batch = batch.min(count);
        let compile = |rounds| -> Result<_, Box<dyn Error>> {
            Ok(Arc::new(Program::compile(&circuit(rounds, opened)?)))
        };
        Ok(Self {
            count,
            batch,
            opened,
            program: compile(batch)?,
            rest: match count % batch {
                0 => None,
                rounds => Some(compile(rounds)?),
            },
        })
    }

    /// Makes the party that has this role: the device garbles, the server evaluates.
    pub(crate) fn party(&self, role: Role) -> Party {
        Party::new(role, self.program.clone())
            .expect_runs(self.batches(), 1)
            .connection_config(ConnectionConfig {
                garbles: role == Role::Garbler,
                ..ConnectionConfig::default()
            })
            .driver_options(DriverOptions {
                silence_limit: SILENCE_LIMIT,
                ..DriverOptions::default()
            })
    }

    fn batches(&self) -> u64 {
        self.count.div_ceil(self.batch) as u64
    }

    /// Returns the circuit of a batch of so many rounds.
    fn program(&self, rounds: usize) -> &Arc<Program> {
        match &self.rest {
            Some(rest) if rounds != self.batch => rest,
            _ => &self.program,
        }
    }

    /// Returns the running sums that the server sees of distances.
    pub(crate) fn plain(&self, distances: &[u32]) -> Vec<u64> {
        let mut sum = 0;
        let sums = distances.iter().map(|&distance| {
            sum += u64::from(distance);
            sum
        });
        let sums: Vec<u64> = sums.collect();
        match self.opened {
            Opened::Round => sums,
            Opened::Batch => sums
                .chunks(self.batch)
                .filter_map(|batch| batch.last().copied())
                .collect(),
        }
    }
}

/// The device's part: its distance in each round.
pub(crate) async fn device(
    connection: Connection,
    rounds: &Rounds,
    distances: &[u32],
    started: Instant,
) -> Result<Outcome, Box<dyn Error>> {
    let mut clock = Clock::start();
    match contribute(&connection, rounds, distances, &mut clock).await {
        Ok(()) => finish("device", connection, rounds, Vec::new(), clock, started).await,
        Err(error) => Err(part(connection, error).await),
    }
}

async fn contribute(
    connection: &Connection,
    rounds: &Rounds,
    distances: &[u32],
    clock: &mut Clock,
) -> Result<(), Box<dyn Error>> {
    for batch in distances.chunks(rounds.batch) {
        let program = rounds.program(batch.len());
        let bits = distances_to_bits(batch);
        clock.note(
            program,
            &run(connection, Role::Garbler, program, bits).await?,
        );
    }
    Ok(())
}

/// The statistics server's part: the running sum, which it learns anew.
pub(crate) async fn server(
    connection: Connection,
    rounds: &Rounds,
    started: Instant,
) -> Result<Outcome, Box<dyn Error>> {
    let mut clock = Clock::start();
    match keep(&connection, rounds, &mut clock).await {
        Ok(sums) => finish("server", connection, rounds, sums, clock, started).await,
        Err(error) => Err(part(connection, error).await),
    }
}

async fn keep(
    connection: &Connection,
    rounds: &Rounds,
    clock: &mut Clock,
) -> Result<Vec<u64>, Box<dyn Error>> {
    let (mut sums, mut sum) = (Vec::new(), 0);
    let mut left = rounds.count;
    while left > 0 {
        let batch = left.min(rounds.batch);
        let program = rounds.program(batch);
        let outcome = run(connection, Role::Evaluator, program, sum_to_bits(sum)).await?;
        let bits = outcome.outputs.first().ok_or("a batch gave no sum")?;
        let new = sums_from_bits(bits).ok_or("a batch gave no whole sum")?;
        sum = *new.last().ok_or("a batch gave no sum")?;
        sums.extend(new);
        clock.note(program, &outcome);
        left -= batch;
    }
    Ok(sums)
}

async fn run(
    connection: &Connection,
    role: Role,
    program: &Arc<Program>,
    input: Bits,
) -> Result<RunOutcome, Box<dyn Error>> {
    let split = InputSplit::first_to_garbler(program.input_widths());
    let handle = connection.handle();
    let running = handle.run(
        role,
        program.clone(),
        split,
        Config::default(),
        Box::new(vec![input]),
    );
    Ok(running.await?)
}

/// What rounds took so far.
struct Clock {
    started: Instant,
    batches: Vec<Duration>,
    and_gates: u64,
}

impl Clock {
    fn start() -> Self {
        Self {
            started: Instant::now(),
            batches: Vec::new(),
            and_gates: 0,
        }
    }

    fn note(&mut self, program: &Program, outcome: &RunOutcome) {
        self.batches.push(outcome.elapsed);
        self.and_gates += program.and_count();
    }
}

async fn finish(
    party: &'static str,
    connection: Connection,
    rounds: &Rounds,
    sums: Vec<u64>,
    clock: Clock,
    started: Instant,
) -> Result<Outcome, Box<dyn Error>> {
    let seconds = clock.started.elapsed().as_secs_f64();
    let (link, stats) = (connection.link().clone(), connection.stats());
    connection.close().await?;
    let mut batches = clock.batches;
    batches.sort_unstable();
    let nth = |place: usize| batches.get(place).map_or(0.0, Duration::as_secs_f64);
    let sum = sums.last().copied();
    Ok(Outcome {
        party,
        transport: link.transport.to_owned(),
        rounds: rounds.count,
        batch: rounds.batch,
        opened: rounds.opened,
        sum,
        average: sum.map(|sum| sum as f64 / rounds.count as f64),
        sums,
        correct: None,
        and_gates: clock.and_gates,
        bytes_sent: stats.bytes_sent(),
        bytes_received: stats.bytes_received(),
        connect_s: (link.timings.connect + link.timings.handshake).as_secs_f64(),
        seconds,
        total_s: started.elapsed().as_secs_f64(),
        batch_median_s: nth(batches.len() / 2),
        batch_longest_s: nth(batches.len().saturating_sub(1)),
        usage: Usage::now(),
    })
}

impl Answer for Outcome {
    const WRONG: &'static str = "the sums are not those of the distances";

    fn correct(&self) -> Option<bool> {
        self.correct
    }

    fn text(&self) -> String {
        let average = match (self.average, self.sum) {
            (Some(average), Some(sum)) => format!("average {average:.1} m, {sum} m in all\n"),
            _ => String::new(),
        };
        format!(
            "{average}{}: {} rounds in batches of {} over {}: {:.3} s, {} bytes sent and {} received\n",
            self.party,
            self.rounds,
            self.batch,
            self.transport,
            self.seconds,
            self.bytes_sent,
            self.bytes_received,
        )
    }
}
