//! `transpute serve`: a server for many peers.

mod args;
mod report;

use std::{
    pin::pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Instant,
};

use transpute::{
    Bits, Inputs, Party,
    serve::{Request, ServerEvent, Service, Stopper},
    session::{Decline, Repeat},
    transport::Throttle,
};

pub(crate) use args::Args;
use report::{End, RunLine};

use crate::{failure::Failure, file_limit, inputs::Wanted, interrupt::interrupted, output};

pub(crate) fn serve(args: &Args) -> Result<(), Failure> {
    args.terms.check()?;
    let party = args.terms.party()?;
    let inputs = (args.terms).bits(&Wanted::of(args.terms.role, party.split()?))?;
    let mut config = args.terms.config();
    config.batch = args.max_batch.get();
    let party = party.config(config);
    raise_file_limit(args);
    let stopper = Arc::new(OnceLock::new());
    let reporter = Reporter {
        inputs,
        is_json: args.json,
        is_quiet: args.quiet,
        stopper: stopper.clone(),
        failure: Arc::default(),
        rejected: Mutex::default(),
        declined: Mutex::default(),
    };
    crate::block_on_threads(until_stopped(args, party, reporter, stopper))
}

/// Serves until a signal arrives and the active runs have ended, or a second signal arrives.
async fn until_stopped(
    args: &Args,
    party: Party,
    reporter: Reporter,
    stopper: Arc<OnceLock<Stopper>>,
) -> Result<(), Failure> {
    let failure = reporter.failure.clone();
    let mut serving = pin!(async {
        let listening = party.listen(&args.listen).await?;
        let server = listening.serve(reporter, args.limits())?;
        let (begun, memory) = (Instant::now(), server.memory());
        // `set` fails only on a second call, and this is the only call.
        let _ = stopper.set(server.stopper());
        if !args.quiet {
            output::note(format!("listening on {}", server.local_address()));
            output::note(format!(
                "up to {} MiB for {} connections",
                output::grouped(memory.total >> 20),
                args.limits().max_connections,
            ));
        }
        let summary = server.run().await?;
        let end = End::new(&summary, memory, begun.elapsed());
        if args.json {
            output::print_json(&end)?;
        } else if !args.quiet {
            output::note(end.text());
        }
        Ok::<_, Failure>(())
    });
    loop {
        tokio::select! {
            // `biased` polls `interrupted` first. So the signal handlers are installed before the
            // server prints "listening on".
            biased;
            code = interrupted() => match stopper.get().filter(|stopper| !stopper.is_stopped()) {
                Some(stopper) => {
                    if !args.quiet {
                        output::note("finishing active runs");
                    }
                    stopper.stop();
                }
                None => return Err(Failure::Silent(code)),
            },
            served = &mut serving => {
                let failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
                return failure.map_or(served, Err);
            }
        }
    }
}

/// The service of `transpute serve`: it gives every run the same inputs and prints server events.
struct Reporter {
    inputs: Bits,
    is_json: bool,
    is_quiet: bool,
    stopper: Arc<OnceLock<Stopper>>,
    /// The first error when writing to standard output or standard error. Such an error stops the
    /// server.
    failure: Arc<Mutex<Option<Failure>>>,
    /// Limits the rate of printed lines about rejected peers, because peers determine how many are
    /// rejected.
    rejected: Mutex<Throttle>,
    /// Limits the rate of printed lines about declined runs.
    declined: Mutex<Throttle>,
}

impl Service for Reporter {
    async fn input(&self, _: &Request) -> Result<Box<dyn Inputs>, Decline> {
        Ok(Box::new(Repeat(self.inputs.clone())))
    }

    fn on_event(&self, event: ServerEvent<'_>) {
        if let Err(failure) = self.print(event) {
            // The results of further runs could not be printed, so the server stops.
            let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(failure);
            if let Some(stopper) = self.stopper.get() {
                stopper.stop();
            }
        }
    }
}

impl Reporter {
    fn print(&self, event: ServerEvent<'_>) -> Result<(), Failure> {
        if let ServerEvent::RunEnded(request, outcome) = &event {
            let line = RunLine::new(request, outcome);
            if self.is_json {
                return output::print_json(&line);
            }
            if !self.is_quiet {
                output::note(line.text());
            }
            let (connection, run) = (request.peer.connection, request.number);
            if let Ok(outcome) = outcome {
                return output::print(|out| {
                    for (number, evaluation) in outcome.evaluations.iter().enumerate() {
                        let prefix = match request.batch {
                            1 => format!("connection {connection} run {run} "),
                            _ => format!("connection {connection} run {run} evaluation {number} "),
                        };
                        output::write_values(out, &prefix, &evaluation.outputs)?;
                    }
                    Ok(())
                });
            }
            return Ok(());
        }
        if self.is_quiet {
            return Ok(());
        }
        let (peer, text) = match event {
            ServerEvent::Connected(peer) => {
                let link = &peer.link;
                let text = format!(
                    "connected from {} over {}",
                    link.peer_address, link.transport
                );
                (peer, text)
            }
            ServerEvent::Rejected(peer, why) => match throttled(&self.rejected, Instant::now()) {
                Some(more) => (peer, format!("rejected: {why}{more}")),
                None => return Ok(()),
            },
            ServerEvent::Declined(peer, why) => match throttled(&self.declined, Instant::now()) {
                Some(more) => (peer, format!("a run was declined: {why}{more}")),
                None => return Ok(()),
            },
            ServerEvent::Disconnected(peer, departure) => (peer, departure.to_string()),
            _ => return Ok(()),
        };
        let id = peer.id();
        output::note(format!("connection {} ({id}): {text}", peer.connection));
        Ok(())
    }
}

/// Decides whether a line may be printed now. Returns `None` if not. Otherwise returns a text to
/// append to the line: the number of lines suppressed since the last printed one, or nothing.
fn throttled(throttle: &Mutex<Throttle>, now: Instant) -> Option<String> {
    let mut throttle = throttle.lock().unwrap_or_else(PoisonError::into_inner);
    throttle.admit(now).map(|hidden| match hidden {
        0 => String::new(),
        hidden => format!(" ({} more like this not shown)", output::grouped(hidden)),
    })
}

/// Raises the limit of open files to the maximum that the system allows. Warns if the maximum is
/// less than `--max-connections` needs.
fn raise_file_limit(args: &Args) {
    /// Number of file descriptors reserved for purposes other than connections of peers.
    const OTHERS: u64 = 64;
    let wanted = args.limits().max_connections as u64 + OTHERS;
    if let Some(files) = file_limit::raise().filter(|files| *files < wanted) {
        output::note(format!(
            "warning: the limit of {files} open files is too low for {} connections: see `ulimit -n`",
            args.limits().max_connections
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_counts_the_suppressed_ones_before_it() {
        let (throttle, start) = (Mutex::default(), Instant::now());
        let shown = (0..1000).filter(|_| throttled(&throttle, start).is_some());
        let hidden = 1000 - shown.count();
        assert!(hidden > 900, "{hidden}");
        let later = throttled(&throttle, start + Duration::from_secs(3600));
        assert_eq!(later, Some(format!(" ({hidden} more like this not shown)")));
    }
}
