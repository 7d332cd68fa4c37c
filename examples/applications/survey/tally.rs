//! The command that computes histograms with a peer. One run evaluates the circuit once for each
//! question.

use std::{
    error::Error,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;
use transpute::{
    Bits, Config, Evaluation, InputError, Inputs, OutputPolicy, Party, Program, Results, Role,
};
use transpute_applications::{Answer, Usage, tell};
use transpute_examples::{Place, neighbours};

use crate::{
    error::TableError,
    file::{Shares, read_answers},
    histogram::{Bins, BinsError, TAG_BITS},
    table::Table,
};

/// Maximum number of AND gates in the circuit for one question. Compiling the circuit takes about
/// 100 bytes of memory per gate.
const MAX_AND_GATES: u64 = 1 << 22;

/// The bins to count.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Counted {
    /// Count the answers equal to each choice, numbered from 0
    #[arg(long, value_name = "CHOICES")]
    choices: Option<u64>,
    /// Count the answers below the first bound, between bounds, and from the last bound on
    #[arg(long, value_name = "BOUND,...", value_delimiter = ',')]
    bounds: Option<Vec<u32>>,
}

impl Counted {
    /// Returns the bins for answers of `width` bits.
    pub(crate) fn bins(&self, width: u32) -> Result<Bins, BinsError> {
        match (self.choices, &self.bounds) {
            (Some(choices), _) => Bins::choices(choices, width),
            (None, bounds) => Bins::ranges(bounds.clone().unwrap_or_default(), width),
        }
    }
}

/// Computes a histogram for each question, with the party that holds the other shares
#[derive(Args, Debug)]
pub(crate) struct HistogramArgs {
    /// This party's file of shares; without --role, the garbler's file and the evaluator's
    #[arg(required = true, num_args = 1..=2)]
    shares: Vec<PathBuf>,
    #[command(flatten)]
    counted: Counted,
    /// Plain answers to compare the histograms with, for trials
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
pub(crate) struct Tally {
    role: String,
    transport: String,
    variant: &'static str,
    answers: usize,
    questions: usize,
    #[serde(rename = "bars")]
    bins: Vec<String>,
    /// The counts of the bins, for each question.
    pub(crate) histograms: Vec<Vec<u64>>,
    /// Whether the histograms equal those of the plain answers. `None` if these were not given.
    correct: Option<bool>,
    /// Number of AND gates evaluated for all questions.
    and_gates: u64,
    /// Bytes of protocol frames.
    frame_bytes_sent: u64,
    frame_bytes_received: u64,
    /// Bytes sent to and received from the transport.
    bytes_sent: u64,
    bytes_received: u64,
    /// Time to read the shares and compile the circuit, in seconds.
    prepare_s: f64,
    /// Time from the established connection to the last histogram, in seconds.
    seconds: f64,
    /// Time since the start of the program, in seconds.
    total_s: f64,
    #[serde(flatten)]
    usage: Usage,
}

/// The state of a party before connecting.
struct Survey {
    bins: Bins,
    answers: usize,
    questions: usize,
    program: Arc<Program>,
    expected: Option<Vec<Vec<u64>>>,
}

/// The inputs of one party: its shares, with one evaluation for each question.
struct Questions(Shares);

impl Inputs for Questions {
    fn bits(&mut self, instance: u64) -> Result<Bits, InputError> {
        let Self(Shares { tag, table }) = self;
        let question = usize::try_from(instance)
            .ok()
            .filter(|&question| question < table.columns());
        let question = question.ok_or_else(|| format!("there is no question {instance}"))?;
        let mut bits = Bits::with_capacity(table.rows() * table.width() as usize + TAG_BITS);
        table.append_column(question, &mut bits);
        bits.extend([Bits::from_u128((*tag).into(), TAG_BITS)]);
        Ok(bits)
    }
}

/// Runs the command.
pub(crate) async fn histogram(args: &HistogramArgs) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    for tally in tally(args, started).await? {
        tell(&tally, args.json)?;
    }
    Ok(())
}

async fn tally(args: &HistogramArgs, started: Instant) -> Result<Vec<Tally>, Box<dyn Error>> {
    let Place { role, ends } = &args.place;
    match (role, &args.shares[..]) {
        (Some(role), [file]) => {
            let shares = Shares::open(file)?;
            let survey = Survey::of(args, &shares.table)?;
            let prepared = started.elapsed();
            let results = ends
                .run(survey.party(*role), Box::new(Questions(shares)))
                .await?;
            Ok(vec![survey.tally(&results, started, prepared)?])
        }
        (None, [garbler, evaluator]) => {
            let (garbler, evaluator) = (Shares::open(garbler)?, Shares::open(evaluator)?);
            let survey = Survey::of(args, &garbler.table)?;
            let prepared = started.elapsed();
            let [one, other] = [Role::Garbler, Role::Evaluator].map(|role| survey.party(role));
            let (listening, connecting) = neighbours(one, other).await?;
            let (one, other) = tokio::join!(
                listening.run_batch(Box::new(Questions(garbler))),
                connecting.run_batch(Box::new(Questions(evaluator))),
            );
            [one?, other?]
                .iter()
                .map(|results| survey.tally(results, started, prepared))
                .collect()
        }
        (Some(_), _) => Err("expected one file of shares with --role".into()),
        (None, _) => Err("expected two files of shares without --role".into()),
    }
}

impl Survey {
    fn of(args: &HistogramArgs, table: &Table) -> Result<Self, Box<dyn Error>> {
        let bins = args.counted.bins(table.width())?;
        let expected = args.expect.as_deref().map(|file| plain(file, &bins, table));
        let expected = expected.transpose()?;
        let program = program(&bins, table.rows())?;
        Ok(Self {
            bins,
            answers: table.rows(),
            questions: table.columns(),
            program,
            expected,
        })
    }

    fn party(&self, role: Role) -> Party {
        party(role, self.program.clone(), self.questions)
    }

    fn tally(
        &self,
        results: &Results,
        started: Instant,
        prepared: Duration,
    ) -> Result<Tally, Box<dyn Error>> {
        let histograms: Vec<Vec<u64>> = (results.evaluations.iter())
            .map(|evaluation| self.read(evaluation))
            .collect::<Result<_, _>>()?;
        let report = &results.report;
        Ok(Tally {
            role: report.role.to_string(),
            transport: report.link.transport.to_owned(),
            variant: match self.bins {
                Bins::Choices(_) => "equality",
                Bins::Ranges { .. } => "range",
            },
            answers: self.answers,
            questions: self.questions,
            bins: (0..histograms.first().map_or(0, Vec::len))
                .map(|bin| self.bins.name(bin))
                .collect(),
            correct: self
                .expected
                .as_ref()
                .map(|expected| *expected == histograms),
            histograms,
            and_gates: report.and_gates * report.batch,
            frame_bytes_sent: report.session.bytes_sent,
            frame_bytes_received: report.session.bytes_received,
            bytes_sent: report.path.bytes_sent,
            bytes_received: report.path.bytes_received,
            prepare_s: prepared.as_secs_f64(),
            seconds: report.until_output().as_secs_f64(),
            total_s: started.elapsed().as_secs_f64(),
            usage: Usage::now(),
        })
    }

    fn read(&self, evaluation: &Evaluation) -> Result<Vec<u64>, &'static str> {
        let numbers: Option<Vec<u64>> = (evaluation.outputs.iter())
            .map(|bits| u64::try_from(bits.to_u128()?).ok())
            .collect();
        match numbers.as_deref().and_then(<[u64]>::split_last) {
            Some((1, counts)) => (self.bins)
                .histogram(counts, self.answers as u64)
                .ok_or("the counts do not match the number of answers"),
            Some(_) => Err("the peer has shares of a different table"),
            None => Err("the circuit has no outputs"),
        }
    }
}

/// Computes the histograms of plain answers.
fn plain(file: &std::path::Path, bins: &Bins, table: &Table) -> Result<Vec<Vec<u64>>, TableError> {
    let answers = read_answers(file, bins.width(), 1 << bins.width())?;
    let columns = 0..answers.columns().min(table.columns());
    Ok(columns.map(|column| bins.plain(&answers, column)).collect())
}

/// Compiles the circuit for one question with this number of answers.
pub(crate) fn program(bins: &Bins, answers: usize) -> Result<Arc<Program>, Box<dyn Error>> {
    match bins.and_gates(answers as u64) {
        0..=MAX_AND_GATES => Ok(Arc::new(Program::compile(&bins.circuit(answers)?))),
        gates => Err(format!(
            "a question needs {gates} AND gates, at most {MAX_AND_GATES} are supported: count fewer answers at a time"
        )
        .into()),
    }
}

/// Returns a party for one run with an evaluation for each of `questions` questions.
pub(crate) fn party(role: Role, program: Arc<Program>, questions: usize) -> Party {
    let mut config = Config::default();
    config.batch = questions as u64;
    config.output = OutputPolicy::Both;
    Party::new(role, program)
        .garbler_inputs([0, 1])
        .config(config)
}

impl Answer for Tally {
    const WRONG: &'static str = "the histograms differ from those of the plain answers";

    fn correct(&self) -> Option<bool> {
        self.correct
    }

    fn text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for (number, histogram) in self.histograms.iter().enumerate() {
            let bins: Vec<String> = (self.bins.iter().zip(histogram))
                .map(|(name, height)| format!("{name}: {height}"))
                .collect();
            // Writing into a string cannot fail.
            let _ = writeln!(text, "question {}: {}", number + 1, bins.join(", "));
        }
        let _ = writeln!(
            text,
            "{}: {} AND gates, {} bytes sent and {} received, {:.2} s from connected to output, over {}",
            self.role,
            self.and_gates,
            self.bytes_sent,
            self.bytes_received,
            self.seconds,
            self.transport,
        );
        text
    }
}
