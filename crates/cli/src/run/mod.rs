//! `transpute run`: one party of a computation.

mod args;
mod repeat;
mod report;

use std::{
    future::pending,
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use tokio::sync::oneshot;
use transpute::{Config, Inputs, OtPlan, Party, Repeat, Scheme, garble::Params};

pub(crate) use args::{Args, InputText, ValueNumbers, parse_offer, parse_seconds, parse_transport};
pub(crate) use report::RunReport;

use crate::{
    batch::{BatchError, BatchFile},
    failure::{Failure, Kind},
    inputs::{InputProblem, Wanted},
    interrupt::unless_interrupted,
    output, progress, source,
};

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    // The cheapest checks first: nobody should wait for a peer to learn of a typing error.
    args.protection.check()?;
    args.check_choice()?;
    check_rekey_period(args.scheme, args.rekey_period)?;
    let cache = args.program_cache.as_deref();
    let program = Arc::new(source::program("--circuit", &args.circuit, cache)?);
    let mut party = (args.protection)
        .protect(Party::new(args.role, program.clone()))?
        .transport(args.transport.clone())
        .patience(args.patience)
        .machine(args.machine.speed())
        .chooser(args.chooser.unwrap_or_default().chooser(None));
    if let Some(file) = &args.path_cache {
        party = party.path_cache(file);
    }
    if let Some(offer) = &args.offer {
        party = party.offer(offer.clone());
    }
    if let Some(numbers) = &args.garbler_inputs {
        party = party.garbler_inputs(numbers.0.clone());
    }
    let split = party.split()?;
    let evaluator_bits = split.evaluator_bits() as u64;
    let (inputs, batch) = inputs(&args, Wanted::of(args.role, split))?;
    check_ot(&args, evaluator_bits, batch)?;
    party = party.config(Config {
        batch,
        ..args.config()
    });
    if let Some(count) = args.repeat {
        return repeat::run(&args, party, count);
    }
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

/// Says what is wrong with input values on the command line.
pub(crate) fn input_failure(problem: InputProblem) -> Failure {
    let kind = match &problem {
        InputProblem::Value { source, .. } if source.is_in_file() => Kind::File,
        _ => Kind::Usage,
    };
    Failure::new(kind, "--input").because(problem)
}

/// Returns where the inputs come from, and of how many evaluations.
fn inputs(args: &Args, wanted: Wanted) -> Result<(Box<dyn Inputs>, u64), Failure> {
    let Some(path) = &args.batch_file else {
        let bits = wanted
            .read(args.inputs.iter().map(InputText::as_str))
            .map_err(input_failure)?;
        let batch = args.batch.map_or(1, u64::from);
        return Ok((Box::new(Repeat(bits)), batch));
    };
    if wanted.values().next().is_none() {
        return Err(Failure::usage(format!(
            "--batch-file: the {} has no input values; say with --batch how many evaluations \
             there are",
            args.role
        )));
    }
    let file = BatchFile::open(path, wanted).map_err(batch_failure)?;
    let count = file.count();
    Ok((Box::new(file), count))
}

fn batch_failure(error: BatchError) -> Failure {
    Failure::new(Kind::File, error.to_string()).because(error)
}

/// Connects or listens, and computes. Notes when both parties were connected.
async fn meet(
    args: &Args,
    party: Party,
    inputs: Box<dyn Inputs>,
    batch: u64,
    connected: Arc<OnceLock<SystemTime>>,
) -> Result<transpute::Results, Failure> {
    let (tell, started) = oneshot::channel();
    let party = party.on_progress(move |progress| {
        // Called once, right before the session starts: the zero of its moments.
        let _ = connected.set(SystemTime::now());
        // Nobody listens where there is no bar to show.
        let _ = tell.send(progress);
    });
    let run = async {
        match (&args.listen, &args.connect) {
            (Some(address), _) => {
                let listening = party.listen(address).await?;
                if !args.quiet {
                    output::note(format!("listening on {}", listening.local_address()));
                }
                Ok(listening.run_batch(inputs).await?)
            }
            (None, Some(address)) => Ok(party.connect(address).run_batch(inputs).await?),
            (None, None) => Err(Failure::usage("--listen or --connect is needed")),
        }
    };
    let bar = async {
        if args.quiet || args.json {
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

/// Says what is wrong with a re-key period.
pub(crate) fn check_rekey_period(scheme: Scheme, rekey_period: u32) -> Result<(), Failure> {
    let params = Params {
        scheme,
        rekey_period,
        start: [0; 16],
        nonce: 0,
        input_seed: [0; 16],
    };
    (params.validate()).map_err(|error| Failure::usage("--rekey-period").because(error))
}

fn check_ot(args: &Args, evaluator_bits: u64, batch: u64) -> Result<(), Failure> {
    let Some(count) = evaluator_bits.checked_mul(batch) else {
        return Err(Failure::usage("--batch: too many input bits in all"));
    };
    match OtPlan::new(args.ot, args.base_ot, count) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage("--ot").because(error)),
    }
}
