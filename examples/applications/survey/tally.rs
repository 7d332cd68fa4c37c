//! Counting histograms with a peer: one evaluation for each question, all in one batch.

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
    histogram::{Bars, BarsError, TAG_BITS},
    table::Table,
};

/// The most AND gates of one question: a party holds the program of a question whole, and about a hundred bytes
/// for each gate while it is compiled.
const MAX_AND_GATES: u64 = 1 << 22;

/// What is counted of answers.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Counted {
    /// Count the answers equal to each of so many choices, numbered from 0
    #[arg(long, value_name = "CHOICES")]
    choices: Option<u64>,
    /// Count the numbers below the first bound, between each two, and from the last on
    #[arg(long, value_name = "BOUND,...", value_delimiter = ',')]
    bounds: Option<Vec<u32>>,
}

impl Counted {
    /// Returns the bars, of answers of `width` bits.
    pub(crate) fn bars(&self, width: u32) -> Result<Bars, BarsError> {
        match (self.choices, &self.bounds) {
            (Some(choices), _) => Bars::choices(choices, width),
            (None, bounds) => Bars::ranges(bounds.clone().unwrap_or_default(), width),
        }
    }
}

/// Counts a histogram for each question, with the party that holds the other shares.
#[derive(Args, Debug)]
pub(crate) struct HistogramArgs {
    /// This party's file of shares; without --role, the garbler's and the evaluator's
    #[arg(required = true, num_args = 1..=2)]
    shares: Vec<PathBuf>,
    #[command(flatten)]
    counted: Counted,
    /// Plain answers to compare the histograms with: for trials
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Print one JSON object in a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// What a party has in the end.
#[derive(Debug, Serialize)]
pub(crate) struct Tally {
    role: String,
    transport: String,
    variant: &'static str,
    answers: usize,
    questions: usize,
    bars: Vec<String>,
    /// For each question the height of each bar.
    pub(crate) histograms: Vec<Vec<u64>>,
    /// Whether they are those of the plain answers, if these were given.
    correct: Option<bool>,
    /// Of all questions.
    and_gates: u64,
    /// Bytes of protocol frames.
    frame_bytes_sent: u64,
    frame_bytes_received: u64,
    /// Bytes handed to and from the transport.
    bytes_sent: u64,
    bytes_received: u64,
    /// Reading shares and compiling the circuit.
    prepare_s: f64,
    /// From both parties being connected until the last histogram.
    seconds: f64,
    /// From the start of the program.
    total_s: f64,
    #[serde(flatten)]
    usage: Usage,
}

/// What both parties hold in common before they meet.
struct Survey {
    bars: Bars,
    answers: usize,
    questions: usize,
    program: Arc<Program>,
    expected: Option<Vec<Vec<u64>>>,
}

/// One party's answers to a question after the other.
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
        (Some(_), _) => Err("a party alone has one file of shares".into()),
        (None, _) => Err("two parties have two files of shares; --role runs one of them".into()),
    }
}

impl Survey {
    fn of(args: &HistogramArgs, table: &Table) -> Result<Self, Box<dyn Error>> {
        let bars = args.counted.bars(table.width())?;
        let expected = args.expect.as_deref().map(|file| plain(file, &bars, table));
        let expected = expected.transpose()?;
        let program = program(&bars, table.rows())?;
        Ok(Self {
            bars,
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
            variant: match self.bars {
                Bars::Choices(_) => "equality",
                Bars::Ranges { .. } => "range",
            },
            answers: self.answers,
            questions: self.questions,
            bars: (0..histograms.first().map_or(0, Vec::len))
                .map(|bar| self.bars.name(bar))
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
            Some((1, counts)) => (self.bars)
                .histogram(counts, self.answers as u64)
                .ok_or("the counts are not those of so many answers"),
            Some(_) => Err("the peer's shares are of another table"),
            None => Err("there are no counts"),
        }
    }
}

/// Makes the histograms of plain answers.
fn plain(file: &std::path::Path, bars: &Bars, table: &Table) -> Result<Vec<Vec<u64>>, TableError> {
    let answers = read_answers(file, bars.width(), 1 << bars.width())?;
    let columns = 0..answers.columns().min(table.columns());
    Ok(columns.map(|column| bars.plain(&answers, column)).collect())
}

/// Compiles the circuit of a question with so many answers.
pub(crate) fn program(bars: &Bars, answers: usize) -> Result<Arc<Program>, Box<dyn Error>> {
    match bars.and_gates(answers as u64) {
        0..=MAX_AND_GATES => Ok(Arc::new(Program::compile(&bars.circuit(answers)?))),
        gates => Err(format!(
            "a question needs {gates} AND gates, more than {MAX_AND_GATES}: count fewer answers at a time"
        )
        .into()),
    }
}

/// Makes a party that counts so many questions.
pub(crate) fn party(role: Role, program: Arc<Program>, questions: usize) -> Party {
    let config = Config {
        batch: questions as u64,
        output: OutputPolicy::Both,
        ..Config::default()
    };
    Party::new(role, program)
        .garbler_inputs([0, 1])
        .config(config)
}

impl Answer for Tally {
    const WRONG: &'static str = "the histograms are not those of the plain answers";

    fn correct(&self) -> Option<bool> {
        self.correct
    }

    fn text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for (number, histogram) in self.histograms.iter().enumerate() {
            let bars: Vec<String> = (self.bars.iter().zip(histogram))
                .map(|(name, height)| format!("{name}: {height}"))
                .collect();
            // Writing into a string cannot fail.
            let _ = writeln!(text, "question {}: {}", number + 1, bars.join(", "));
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
