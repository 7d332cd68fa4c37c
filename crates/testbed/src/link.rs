//! Measures an emulated path with the kernel's TCP and UDP.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde::Serialize;
use transpute_netem::{
    lab::{Lab, Side},
    model::PathCounters,
    scenario::Scenario,
};

use crate::{
    flow::{self, Flows},
    runner::RunError,
};

pub use crate::flow::{EchoReport, FlowReport};

const ECHOES: u32 = 50;

/// The measured properties of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// The configured conditions of the path.
    pub scenario: Scenario,
    /// Round trips of small UDP datagrams on the idle path.
    pub echo: EchoReport,
    /// Measurements of one TCP flow from party A to party B.
    pub up: FlowReport,
    /// Counters of packets from A to B during the flow in `up`.
    pub up_packets: PathCounters,
    /// Measurements of one TCP flow from party B to party A.
    pub down: FlowReport,
    /// Counters of packets from B to A during the flow in `down`.
    pub down_packets: PathCounters,
    /// Number of packets that the emulator dropped because it was too slow. A large number means
    /// that this machine is too slow for the scenario.
    pub overruns: u64,
}

/// Measures the round-trip time, then one TCP flow in each direction for `duration`. Each of the
/// three measurements has a new path.
///
/// # Errors
/// Returns [`RunError`] if the path cannot be emulated or a measurement fails.
pub fn measure(
    scenario: &Scenario,
    duration: Duration,
    cancel: &AtomicBool,
) -> Result<LinkReport, RunError> {
    let mut overruns = 0;
    let echo = echoes(scenario, cancel)?;
    let mut bulk = |from| -> Result<(FlowReport, [PathCounters; 2]), RunError> {
        // Each measurement has its own path, so that counters and queues start empty.
        let mut lab = Lab::start(scenario)?;
        let mut flows = Flows::default();
        let receiver = flows.start(&lab, from, None).map_err(failed)?;
        let report = flow::receive(receiver, duration, cancel).map_err(failed)?;
        let counters = lab.counters();
        overruns += lab.overruns()?.iter().sum::<u64>();
        Ok((report, counters))
    };
    let (up, [up_packets, _]) = bulk(Side::A)?;
    let (down, [_, down_packets]) = bulk(Side::B)?;
    if cancel.load(Ordering::Relaxed) {
        return Err(RunError::Cancelled);
    }
    Ok(LinkReport {
        scenario: scenario.clone(),
        echo,
        up,
        up_packets,
        down,
        down_packets,
        overruns,
    })
}

fn echoes(scenario: &Scenario, cancel: &AtomicBool) -> Result<EchoReport, RunError> {
    let lab = Lab::start(scenario)?;
    let server = lab.udp(Side::A, 0).map_err(failed)?;
    let port = server.local_addr().map_err(failed)?.port();
    let client = lab.udp(Side::B, 0).map_err(failed)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let echoing = thread::spawn(move || flow::echo(&server, &stopped));
    // Twice the round-trip time leaves room for jitter, and a second for a busy machine.
    let patience = Duration::from_secs_f64(scenario.rtt_ms() * 2.0 / 1e3 + 1.0);
    let address = SocketAddr::new(lab.address(Side::A), port);
    let report = flow::ping(&client, address, ECHOES, patience, cancel);
    stop.store(true, Ordering::Relaxed);
    // If the thread panicked, Rust has printed the panic, and its requests count as lost.
    let _ = echoing.join();
    report.map_err(failed)
}

fn failed(source: io::Error) -> RunError {
    RunError::Flow(source)
}
