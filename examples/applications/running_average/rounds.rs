//! Runs all rounds of a party over one connection, batch by batch.

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

/// Time without a message from the peer after which the connection is closed. With 10 % packet
/// loss, TCP may deliver nothing for several seconds, because its retransmission timeout doubles
/// with each loss.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The parameters and circuits of the rounds, which both parties share.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    count: usize,
    batch: usize,
    opened: Opened,
    program: Arc<Program>,
    /// The circuit of the last batch, if that batch has fewer rounds than the others.
    rest: Option<Arc<Program>>,
}

/// The results and costs of a party.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    party: &'static str,
    transport: String,
    rounds: usize,
    batch: usize,
    opened: Opened,
    /// The sum of all distances in metres, which only the server learns.
    pub(crate) sum: Option<u64>,
    /// The average distance in metres, which only the server learns.
    pub(crate) average: Option<f64>,
    /// The running sums that the server has learned.
    #[serde(skip)]
    pub(crate) sums: Vec<u64>,
    /// Whether `sums` are the expected ones. `None` if the distances are not known to this process.
    pub(crate) correct: Option<bool>,
    and_gates: u64,
    /// Number of bytes that this party sent. `bytes_received` is the number that it received.
    bytes_sent: u64,
    bytes_received: u64,
    /// Time to connect and authenticate, in seconds.
    connect_s: f64,
    /// Time of all rounds, in seconds, without connecting.
    seconds: f64,
    /// Time since the start of the program.
    total_s: f64,
    /// Median time of a batch, in seconds. `batch_longest_s` is the maximum.
    batch_median_s: f64,
    batch_longest_s: f64,
    #[serde(flatten)]
    usage: Usage,
}

impl Rounds {
    /// Compiles the circuits for `count` rounds in batches of `batch` rounds. The last batch may
    /// have fewer rounds.
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

    /// Returns the party with this role. The device garbles, and the server evaluates.
    pub(crate) fn party(&self, role: Role) -> Party {
        let mut config = ConnectionConfig::default();
        config.garbles = role == Role::Garbler;
        let mut options = DriverOptions::default();
        options.idle_timeout = IDLE_TIMEOUT;
        Party::new(role, self.program.clone())
            .expect_runs(self.batches(), 1)
            .connection_config(config)
            .driver_options(options)
    }

    fn batches(&self) -> u64 {
        self.count.div_ceil(self.batch) as u64
    }

    /// Returns the compiled circuit for a batch of `rounds` rounds.
    fn program(&self, rounds: usize) -> &Arc<Program> {
        match &self.rest {
            Some(rest) if rounds != self.batch => rest,
            _ => &self.program,
        }
    }

    /// Computes the running sums that the server learns if the device has these distances.
    pub(crate) fn expected_sums(&self, distances: &[u32]) -> Vec<u64> {
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

/// Runs the device, which contributes a distance in each round.
pub(crate) async fn device(
    connection: Connection,
    rounds: &Rounds,
    distances: &[u32],
    started: Instant,
) -> Result<Outcome, Box<dyn Error>> {
    let mut progress = Progress::start();
    match contribute(&connection, rounds, distances, &mut progress).await {
        Ok(()) => finish("device", connection, rounds, Vec::new(), progress, started).await,
        Err(error) => Err(part(connection, error).await),
    }
}

async fn contribute(
    connection: &Connection,
    rounds: &Rounds,
    distances: &[u32],
    progress: &mut Progress,
) -> Result<(), Box<dyn Error>> {
    for batch in distances.chunks(rounds.batch) {
        let program = rounds.program(batch.len());
        let bits = distances_to_bits(batch);
        progress.record(
            program,
            &run(connection, Role::Garbler, program, bits).await?,
        );
    }
    Ok(())
}

/// Runs the statistics server, which keeps and learns the running sum.
pub(crate) async fn server(
    connection: Connection,
    rounds: &Rounds,
    started: Instant,
) -> Result<Outcome, Box<dyn Error>> {
    let mut progress = Progress::start();
    match keep(&connection, rounds, &mut progress).await {
        Ok(sums) => finish("server", connection, rounds, sums, progress, started).await,
        Err(error) => Err(part(connection, error).await),
    }
}

async fn keep(
    connection: &Connection,
    rounds: &Rounds,
    progress: &mut Progress,
) -> Result<Vec<u64>, Box<dyn Error>> {
    let (mut sums, mut sum) = (Vec::new(), 0);
    let mut left = rounds.count;
    while left > 0 {
        let batch = left.min(rounds.batch);
        let program = rounds.program(batch);
        let outcome = run(connection, Role::Evaluator, program, sum_to_bits(sum)).await?;
        let bits = outcome.outputs.first().ok_or("a batch has no output")?;
        let new = sums_from_bits(bits).ok_or("a batch has an incomplete sum")?;
        sum = *new.last().ok_or("a batch has no sum")?;
        sums.extend(new);
        progress.record(program, &outcome);
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

/// The time of each completed batch, and the number of AND gates of all completed batches.
struct Progress {
    started: Instant,
    batches: Vec<Duration>,
    and_gates: u64,
}

impl Progress {
    fn start() -> Self {
        Self {
            started: Instant::now(),
            batches: Vec::new(),
            and_gates: 0,
        }
    }

    fn record(&mut self, program: &Program, outcome: &RunOutcome) {
        self.batches.push(outcome.elapsed);
        self.and_gates += program.and_count();
    }
}

async fn finish(
    party: &'static str,
    connection: Connection,
    rounds: &Rounds,
    sums: Vec<u64>,
    progress: Progress,
    started: Instant,
) -> Result<Outcome, Box<dyn Error>> {
    let seconds = progress.started.elapsed().as_secs_f64();
    let (link, stats) = (connection.link().clone(), connection.stats());
    connection.close().await?;
    let mut batches = progress.batches;
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
        and_gates: progress.and_gates,
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
    const WRONG: &'static str = "the sums differ from those of the distances";

    fn correct(&self) -> Option<bool> {
        self.correct
    }

    fn text(&self) -> String {
        let average = match (self.average, self.sum) {
            (Some(average), Some(sum)) => format!("average {average:.1} m, {sum} m in total\n"),
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
