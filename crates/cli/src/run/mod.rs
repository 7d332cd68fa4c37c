//! `transpute run`: one party of a computation.

mod args;
mod path;
mod phases;
mod repeat;
mod report;

use std::{
    future::pending,
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use tokio::sync::oneshot;
use transpute::{
    Bits, Inputs, Party,
    session::{OtPlan, Repeat},
};

pub(crate) use args::Args;
pub(crate) use report::RunReport;

use crate::{
    batch::{BatchError, BatchFile},
    failure::{Failure, FailureKind},
    inputs::Wanted,
    interrupt::unless_interrupted,
    output, progress,
};

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    // All options and inputs are checked before the connection is opened, cheapest checks first.
    args.check()?;
    let mut party = (args.terms.party()?)
        .patience(args.patience)
        .chooser(args.chooser.unwrap_or_default().chooser(None));
    let program = party.program().clone();
    let split = party.split()?;
    let evaluator_bits = split.evaluator_bits() as u64;
    let given = given(&args, Wanted::of(args.terms.role, split))?;
    let batch = given.batch();
    check_ot(&args, evaluator_bits, batch)?;
    party = party.config(args.config(batch));
    let inputs: Box<dyn Inputs> = match (given, args.repeat) {
        (Given::Same(bits, _), Some(count)) => return repeat::run(&args, party, &bits, count),
        (Given::Same(bits, _), None) => Box::new(Repeat(bits)),
        (Given::File(file), _) => Box::new(file),
    };
    let connected = Arc::new(OnceLock::new());
    let noted = connected.clone();
    let meeting = meet(&args, party, inputs, batch, noted);
    let results = crate::block_on(unless_interrupted(meeting))?;
    let report = RunReport::new(&args, &program, &results, connected.get().copied());
    if args.json {
        return output::print_json(&report);
    }
    if !args.quiet {
        output::note(report.summary());
    }
    output::print(|out| {
        for (number, evaluation) in results.evaluations.iter().enumerate() {
            let prefix = match results.evaluations.len() {
                1 => String::new(),
                _ => format!("evaluation {number} "),
            };
            output::write_values(out, &prefix, &evaluation.outputs)?;
        }
        Ok(())
    })
}

/// The source of the inputs of a run.
enum Given {
    /// The same input bits for every evaluation, and the number of evaluations.
    Same(Bits, u64),
    /// The file of `--batch-file`, with the inputs of each evaluation.
    File(BatchFile),
}

impl Given {
    fn batch(&self) -> u64 {
        match self {
            Self::Same(_, batch) => *batch,
            Self::File(file) => file.count(),
        }
    }
}

fn given(args: &Args, wanted: Wanted) -> Result<Given, Failure> {
    let Some(path) = &args.batch_file else {
        let batch = args.batch.map_or(1, u64::from);
        return Ok(Given::Same(args.terms.bits(&wanted)?, batch));
    };
    if wanted.values().next().is_none() {
        return Err(Failure::usage(format!(
            "--batch-file: the {} has no input values; say with --batch how many evaluations \
             there are",
            args.terms.role
        )));
    }
    let file = BatchFile::open(path, wanted).map_err(batch_failure)?;
    Ok(Given::File(file))
}

fn batch_failure(error: BatchError) -> Failure {
    Failure::new(FailureKind::File, error.to_string()).because(error)
}

/// Connects to the peer or listens for it, and runs the computation. Sets `connected` to the time
/// at which the session starts, after the connection is established.
async fn meet(
    args: &Args,
    party: Party,
    inputs: Box<dyn Inputs>,
    batch: u64,
    connected: Arc<OnceLock<SystemTime>>,
) -> Result<transpute::Results, Failure> {
    let (tell, started) = oneshot::channel();
    let told = connected.clone();
    let party = party.on_progress(move |progress| {
        // This is called once, immediately before the session starts. The session measures its
        // times from here.
        let _ = connected.set(SystemTime::now());
        // An error is ignored: it means that the receiver, which shows the progress, was dropped.
        let _ = tell.send(progress);
    });
    let failed = |error| Failure::of_run(error, &args.terms.circuit);
    let run = async {
        match (&args.listen, &args.connect) {
            (Some(address), _) => {
                let listening = party.listen(address).await?;
                if !args.quiet {
                    output::note(format!("listening on {}", listening.local_address()));
                }
                listening.run_batch(inputs).await.map_err(failed)
            }
            (None, Some(address)) => {
                (party.connect(address).run_batch(inputs).await).map_err(failed)
            }
            (None, None) => Err(Failure::usage("--listen or --connect is needed")),
        }
    };
    let bar = async {
        if args.tell_phases {
            phases::tell(started, told).await
        } else if args.quiet || args.json {
            pending().await
        } else {
            progress::show(started, batch).await
        }
    };
    tokio::select! {
        results = run => results,
        never = bar => match never {},
    }
}

fn check_ot(args: &Args, evaluator_bits: u64, batch: u64) -> Result<(), Failure> {
    let Some(count) = evaluator_bits.checked_mul(batch) else {
        return Err(Failure::usage("--batch: too many input bits in all"));
    };
    match OtPlan::new(args.ot, args.terms.base_ot, count) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage("--ot").because(error)),
    }
}
