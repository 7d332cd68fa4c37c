//! The approach that divides or averages with a garbled circuit.

use std::{
    error::Error,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use transpute::{Bits, Circuit, OutputPolicy, Party, Results, Role};
use transpute_examples::{Place, neighbours};

use crate::{
    circuit,
    division::{Division, Quotient},
};

/// The result and costs of a party.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    /// The quotient.
    pub(crate) quotient: Quotient,
    /// Time from the start of connecting or listening to the established link.
    pub(crate) connect: Duration,
    /// Time from the established link to the quotient.
    pub(crate) online: Duration,
    /// The full results of the run.
    pub(crate) results: Results,
}

/// Runs one party, or both in this process. Returns the results of each.
///
/// # Errors
/// Returns errors of arguments, key files, the connection and the protocol.
pub(crate) async fn divide(
    place: &Place,
    circuit: &Circuit,
    division: Division,
    input: impl Fn(Role) -> Bits,
) -> Result<Vec<(Role, Finished)>, Box<dyn Error>> {
    let started = Instant::now();
    let finished = |link: &OnceLock<Duration>, results: Results| {
        let outputs = results
            .evaluations
            .first()
            .map_or(&[][..], |first| &first.outputs);
        let quotient = circuit::read_quotient(outputs, division);
        Ok::<_, Box<dyn Error>>(Finished {
            quotient: quotient.ok_or("the outputs do not match the circuit")?,
            connect: link.get().copied().unwrap_or_default(),
            online: results.report.until_output(),
            results,
        })
    };
    if let Some(role) = place.role {
        let (party, link) = party(circuit, role, started);
        let results = place.ends.run(party, Box::new(vec![input(role)])).await?;
        return Ok(vec![(role, finished(&link, results)?)]);
    }
    let (garbler, garblers_link) = party(circuit, Role::Garbler, started);
    let (evaluator, evaluators_link) = party(circuit, Role::Evaluator, started);
    let (listening, connecting) = neighbours(garbler, evaluator).await?;
    let (garbler, evaluator) = tokio::join!(
        listening.run(input(Role::Garbler)),
        connecting.run(input(Role::Evaluator)),
    );
    Ok(vec![
        (Role::Garbler, finished(&garblers_link, garbler?)?),
        (Role::Evaluator, finished(&evaluators_link, evaluator?)?),
    ])
}

/// Returns a party, and a cell that receives the time from `started` to its established link.
fn party(circuit: &Circuit, role: Role, started: Instant) -> (Party, Arc<OnceLock<Duration>>) {
    let link = Arc::new(OnceLock::new());
    let there = link.clone();
    let party = match role {
        Role::Garbler => Party::garbler(circuit),
        Role::Evaluator => Party::evaluator(circuit),
    };
    let party = party.output_to(OutputPolicy::Both).on_progress(move |_| {
        // `set` cannot fail, because this callback is called only once.
        let _ = there.set(started.elapsed());
    });
    (party, link)
}
