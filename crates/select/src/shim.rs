//! A race over the connections of today, until the transports have their own.

use std::{sync::Arc, time::{Duration, Instant}};
use transpute_transport::{
    Link, Security, TransportError,
    auto::{AutoOptions, Candidates, Decision, Pick, Policy, Progress, Stage},
};

pub(crate) struct Connections {
    pub(crate) tcp: bool,
    pub(crate) quic: bool,
    pub(crate) rudp: bool,
}

pub(crate) struct Won {
    pub(crate) link: Link,
    pub(crate) progress: Progress,
    pub(crate) pick: Pick,
    pub(crate) failed: Vec<(Pick, String)>,
}

fn stage<R>(result: Result<R, TransportError>) -> Stage<R> {
    match result {
        Ok(report) => Stage::Up(report),
        Err(error) => Stage::Failed(Arc::new(error)),
    }
}

fn begin(wants: &Connections) -> Progress {
    let pending = |wanted| wanted;
    let mut p = Progress::default();
    if pending(wants.tcp || wants.rudp) { p.tcp = Stage::Pending; }
    if pending(wants.quic) { p.quic = Stage::Pending; }
    if pending(wants.rudp) { p.rudp = Stage::Pending; }
    p
}

async fn next(c: &Candidates, p: &mut Progress, started: Instant) {
    tokio::select! {
        biased;
        r = c.rudp_both_ways(), if p.rudp.is_pending() => p.rudp = stage(r),
        r = c.control(), if p.tcp.is_pending() => p.tcp = stage(r),
        r = c.quic(), if p.quic.is_pending() => p.quic = stage(r),
    }
    if let Some(up) = p.tcp.up() { p.offer = Some(up.offer.clone()); p.tcp_rtt = Some(up.rtt()); }
    if let Some(up) = p.quic.up() { p.offer = Some(up.offer.clone()); }
    p.elapsed = started.elapsed();
}

pub(crate) async fn race(address: &str, security: &Security, options: AutoOptions, wants: Connections, policy: &dyn Policy) -> Result<Won, TransportError> {
    let started = Instant::now();
    let mut c = Candidates::connect(address, security, options)?;
    let (mut p, mut failed) = (begin(&wants), Vec::new());
    loop {
        if !(p.tcp.is_pending() || p.quic.is_pending() || p.rudp.is_pending()) && p.tcp.up().is_none() && p.quic.up().is_none() && p.rudp.up().is_none() {
            return Err(TransportError::ClosedDuringHandshake);
        }
        if let Decision::Pick(pick) = policy.decide(&p) {
            let up = match pick { Pick::Quic => p.quic.up().is_some(), Pick::Rudp => p.rudp.up().is_some(), _ => p.tcp.up().is_some() };
            if up {
                match c.pick(&pick, Vec::new()).await {
                    Ok(link) => return Ok(Won { link, progress: p, pick, failed }),
                    Err(unpicked) => {
                        failed.push((pick, unpicked.error.to_string()));
                        let e = Stage::Failed(Arc::new(unpicked.error));
                        match pick { Pick::Quic => p.quic = Stage::Absent, Pick::Rudp => p.rudp = Stage::Absent, _ => p.tcp = e }
                        c = *unpicked.candidates;
                        continue;
                    }
                }
            }
        }
        next(&c, &mut p, started).await;
    }
}

pub(crate) async fn probe(address: &str, security: &Security, mut options: AutoOptions, wants: Connections) -> Result<Progress, TransportError> {
    let started = Instant::now();
    options.takes_named = false;
    options.udp_patience = Duration::from_secs(1);
    let c = Candidates::connect(address, security, options)?;
    let mut p = begin(&wants);
    while p.tcp.is_pending() || p.quic.is_pending() || p.rudp.is_pending() {
        next(&c, &mut p, started).await;
    }
    Ok(p)
}
