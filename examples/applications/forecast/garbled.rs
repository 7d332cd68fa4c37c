//! Computing with a garbled circuit.

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

/// What a party has in the end.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    /// The quotient.
    pub(crate) quotient: Quotient,
    /// From the start of connecting, or of waiting for the peer, until there was a link.
    pub(crate) connect: Duration,
    /// From the link until the quotient was known.
    pub(crate) online: Duration,
    /// The rest of what is known of the run.
    pub(crate) results: Results,
}

/// Computes a quotient with a peer, or both parties here; returns what each of them learned.
///
/// # Errors
/// Any of a bad combination of arguments, a bad key file, the connection or the protocol.
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
            quotient: quotient.ok_or("other outputs than the circuit has")?,
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

/// Makes a party that takes down when it has a link.
fn party(circuit: &Circuit, role: Role, started: Instant) -> (Party, Arc<OnceLock<Duration>>) {
    let link = Arc::new(OnceLock::new());
    let there = link.clone();
    let party = match role {
        Role::Garbler => Party::garbler(circuit),
        Role::Evaluator => Party::evaluator(circuit),
    };
    let party = party.output_to(OutputPolicy::Both).on_progress(move |_| {
        // It is called once.
        let _ = there.set(started.elapsed());
    });
    (party, link)
}
