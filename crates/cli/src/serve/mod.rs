//! `transpute serve`: a party that serves many peers at once.

mod args;
mod report;

use std::{
    pin::pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Instant,
};

use transpute::{
    Bits, Config, Inputs, Party,
    serve::{News, Request, Service, Stopper},
    session::{Decline, Repeat},
    transport::Throttle,
};

pub(crate) use args::Args;
use report::{End, RunLine};

use crate::{failure::Failure, inputs::Wanted, interrupt::interrupted, output};

pub(crate) fn serve(args: &Args) -> Result<(), Failure> {
    args.terms.check()?;
    let party = args.terms.party()?;
    let inputs = (args.terms).bits(&Wanted::of(args.terms.role, party.split()?))?;
    let party = party.config(Config {
        batch: args.max_batch.get(),
        ..args.terms.config()
    });
    raise_file_limit(args);
    let stopper = Arc::new(OnceLock::new());
    let teller = Teller {
        inputs,
        is_json: args.json,
        is_quiet: args.quiet,
        stopper: stopper.clone(),
        failure: Arc::default(),
        turned: Mutex::default(),
        declined: Mutex::default(),
    };
    crate::block_on_threads(until_stopped(args, party, teller, stopper))
}

/// Serves until a signal comes and the runs under way are over, or another signal comes.
async fn until_stopped(
    args: &Args,
    party: Party,
    teller: Teller,
    stopper: Arc<OnceLock<Stopper>>,
) -> Result<(), Failure> {
    let failure = teller.failure.clone();
    let mut serving = pin!(async {
        let listening = party.listen(&args.listen).await?;
        let server = listening.serve(teller, args.limits())?;
        let (begun, memory) = (Instant::now(), server.memory());
        // Set once, here.
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
            // First, so that the handlers are there before it says that it listens.
            biased;
            code = interrupted() => match stopper.get().filter(|stopper| !stopper.is_stopped()) {
                Some(stopper) => {
                    if !args.quiet {
                        output::note("finishing what is under way");
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

/// Gives every run the same inputs, and tells what happens.
struct Teller {
    inputs: Bits,
    is_json: bool,
    is_quiet: bool,
    stopper: Arc<OnceLock<Stopper>>,
    /// Why nothing can be told any more.
    failure: Arc<Mutex<Option<Failure>>>,
    /// Limits the lines about rejected peers and about declined runs, which a peer can cause at any rate.
    turned: Mutex<Throttle>,
    declined: Mutex<Throttle>,
}

impl Service for Teller {
    async fn input(&self, _: &Request) -> Result<Box<dyn Inputs>, Decline> {
        Ok(Box::new(Repeat(self.inputs.clone())))
    }

    fn hear(&self, news: News<'_>) {
        if let Err(failure) = self.tell(news) {
            // Nobody reads the results: no use to go on.
            let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(failure);
            if let Some(stopper) = self.stopper.get() {
                stopper.stop();
            }
        }
    }
}

impl Teller {
    fn tell(&self, news: News<'_>) -> Result<(), Failure> {
        if let News::Ended(request, outcome) = &news {
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
        let (peer, text) = match news {
            News::Joined(peer) => {
                let link = &peer.link;
                let text = format!(
                    "connected from {} over {}",
                    link.peer_address, link.transport
                );
                (peer, text)
            }
            News::Turned(peer, why) => match throttled(&self.turned, Instant::now()) {
                Some(more) => (peer, format!("turned away: {why}{more}")),
                None => return Ok(()),
            },
            News::Declined(peer, why) => match throttled(&self.declined, Instant::now()) {
                Some(more) => (peer, format!("a run was declined: {why}{more}")),
                None => return Ok(()),
            },
            News::Left(peer, departure) => (peer, departure.to_string()),
            _ => return Ok(()),
        };
        let id = peer.id();
        output::note(format!("connection {} ({id}): {text}", peer.connection));
        Ok(())
    }
}

/// Returns what a line says about events that were not shown before it, or `None` if the line is not to be shown itself.
fn throttled(throttle: &Mutex<Throttle>, now: Instant) -> Option<String> {
    let mut throttle = throttle.lock().unwrap_or_else(PoisonError::into_inner);
    throttle.admit(now).map(|hidden| match hidden {
        0 => String::new(),
        hidden => format!(" ({} more like this not shown)", output::grouped(hidden)),
    })
}

/// Lets this process have as many files open as the system allows, and says so if that is too few.
#[cfg(unix)]
fn raise_file_limit(args: &Args) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// Those that are open besides one for each connection.
    const OTHERS: u64 = 64;
    let mut limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        limit = raised;
    }
    let wanted = args.limits().max_connections as u64 + OTHERS;
    if let Some(files) = limit.current.filter(|files| *files < wanted) {
        output::note(format!(
            "warning: {files} files may be open, too few for {} connections: see `ulimit -n`",
            args.limits().max_connections
        ));
    }
}

#[cfg(not(unix))]
fn raise_file_limit(_: &Args) {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_tell_how_many_were_not_shown_before_them() {
        let (throttle, start) = (Mutex::default(), Instant::now());
        let shown = (0..1000).filter(|_| throttled(&throttle, start).is_some());
        let hidden = 1000 - shown.count();
        assert!(hidden > 900, "{hidden}");
        let later = throttled(&throttle, start + Duration::from_secs(3600));
        assert_eq!(later, Some(format!(" ({hidden} more like this not shown)")));
    }
}
