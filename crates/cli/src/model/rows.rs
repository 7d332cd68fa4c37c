//! Rows of the testbed as samples for the model.

use std::collections::HashMap;

use transpute_select::{
    Direction, End, Loss, Machine, Parts, PathEstimate, Rate, Sample, SelectError, Source, Spec,
    Udp, Workload,
};
use transpute_testbed::{
    row::{Environment, Measured, Row},
    scenario::{CrossDirection, PathConfig, Scenario},
    selection::{AUTO, Part},
};

/// Public-key transfers of an extension.
const BASE_TRANSFERS: f64 = 128.0;

/// Bits per second of a path that the emulator does not limit: more than any of the processors' shares.
const UNLIMITED: f64 = 1e10;

/// How full a queue is on average that a window keeps full and drains to `BETA` of cubic at each loss.
const QUEUE_IN_USE: f64 = 0.85;

/// Returns what a probe that made no errors would say of an emulated path. The garbler, which listens, is party A: what the testbed
/// calls up is *down* here.
///
/// Beside other flows that is a fair share of the rate, and the queue that they keep.
pub(crate) fn path_of(
    scenario: &Scenario,
    environment: Option<&Environment>,
) -> Result<PathEstimate, SelectError> {
    let (flows, up, down) = match &scenario.cross_traffic {
        None => (0, false, false),
        Some(cross) => (
            cross.flows,
            cross.direction != CrossDirection::Down,
            cross.direction != CrossDirection::Up,
        ),
    };
    let standing =
        |config: &PathConfig, is_shared: bool| match (config.queue_limit_bytes(), config.rate_mbit)
        {
            (Some(queue), Some(rate)) if is_shared => {
                QUEUE_IN_USE * queue as f64 * 8.0 / (rate * 1e6)
            }
            _ => 0.0,
        };
    let waiting = standing(&scenario.up, up) + standing(&scenario.down, down);
    let mut path = PathEstimate::of_rtt(scenario.rtt_ms() / 1e3 + waiting)?;
    let share = |is_shared| match is_shared {
        true => 1.0 / f64::from(flows + 1),
        false => 1.0,
    };
    path.up = direction(&scenario.down, share(down))?;
    path.down = direction(&scenario.up, share(up))?;
    path.udp = match scenario.blocks_udp() {
        true => Udp::Blocked,
        false => Udp::Passes,
    };
    path.mtu = Some(scenario.mtu);
    path.source = Source::Emulated;
    let jitter = scenario.up.jitter_ms.max(scenario.down.jitter_ms);
    path.rtt.jitter_s = (jitter > 0.0).then_some(jitter / 1e3);
    let ceiling = |text: &str| text.split_whitespace().nth(2)?.parse().ok();
    let own = scenario.socket_buffer.map(|bytes| bytes as f64);
    path.kernel.send_ceiling = own.or(environment.and_then(|e| ceiling(&e.tcp_wmem)));
    path.kernel.receive_ceiling = own.or(environment.and_then(|e| ceiling(&e.tcp_rmem)));
    path.kernel.congestion_control = match environment {
        Some(environment) if !environment.congestion_control.is_empty() => {
            Some(environment.congestion_control.clone())
        }
        _ => scenario.congestion_control.clone(),
    };
    path.validate()?;
    Ok(path)
}

fn direction(config: &PathConfig, share: f64) -> Result<Direction, SelectError> {
    // Bursts: the share of the time in the bad state (Gilbert, 1960).
    let bursts = config.burst.map_or(0.0, |burst| {
        let bad = burst.p_enter / (burst.p_enter + burst.p_leave).max(f64::MIN_POSITIVE);
        bad * burst.loss_bad + (1.0 - bad) * burst.loss_good
    });
    let loss = 1.0 - (1.0 - config.loss) * (1.0 - bursts);
    Ok(Direction {
        rate: Some(Rate::known(
            config
                .rate_mbit
                .map_or(UNLIMITED, |mbit| mbit * share * 1e6),
        )),
        loss: Some(Loss::known(loss.clamp(0.0, 1.0))?),
        queue_bytes: config.queue_limit_bytes().map(|bytes| bytes as f64),
    })
}

/// Workloads as measured runs had them: of a circuit with its scheme and batch, whatever the path and the transport.
#[derive(Debug, Default)]
pub(crate) struct Workloads(HashMap<(String, String, u64), Workload>);

impl Workloads {
    /// Takes the first measured run of each.
    pub(crate) fn of(rows: &[Row]) -> Result<Self, SelectError> {
        let mut known = HashMap::new();
        for row in rows.iter().filter(|row| row.encrypted) {
            let Some(measured) = &row.measured else {
                continue;
            };
            let key = (row.circuit.clone(), row.scheme.clone(), row.batch);
            if let std::collections::hash_map::Entry::Vacant(entry) = known.entry(key) {
                entry.insert(workload(row, measured)?);
            }
        }
        Ok(Self(known))
    }

    /// Returns one of them; nothing if no run of it was measured.
    pub(crate) fn get(&self, circuit: &str, scheme: &str, batch: u64) -> Option<Workload> {
        let key = (circuit.to_owned(), scheme.to_owned(), batch);
        self.0.get(&key).copied()
    }
}

/// Returns the samples of rows, and how many rows tell the model nothing: of runs that failed, were not under the conditions
/// of their scenario, or whose path changed or was shared, which an estimate does not express.
///
/// What is held out is what `transpute testbed selection score` calls unseen.
pub(super) fn samples(rows: &[Row]) -> Result<(Vec<Sample>, usize), SelectError> {
    let workloads = Workloads::of(rows)?;
    let mut samples = Vec::new();
    for row in rows {
        samples.extend(sample(row, &workloads)?);
    }
    let left_out = rows.len() - samples.len();
    Ok((samples, left_out))
}

fn sample(row: &Row, workloads: &Workloads) -> Result<Option<Sample>, SelectError> {
    let scenario = &row.scenario;
    let changes = !scenario.up.changes.is_empty() || !scenario.down.changes.is_empty();
    if !row.encrypted || changes || scenario.cross_traffic.is_some() || row.transport == AUTO {
        return Ok(None);
    }
    let Ok(transport) = row.transport.parse::<Spec>() else {
        return Ok(None);
    };
    // A firewall tells nothing of how quick a transport is.
    if scenario.blocks_udp() && transport.law(None).needs_udp {
        return Ok(None);
    }
    let (workload, total_ms, setup_ms) = match (&row.measured, row.cut_off_ms) {
        (Some(measured), _) if measured.overruns == [0, 0] => (
            workload(row, measured)?,
            measured.total_ms,
            Some(measured.total_ms - measured.runtime_ms),
        ),
        (None, Some(cut_off_ms)) => match workloads.get(&row.circuit, &row.scheme, row.batch) {
            Some(workload) => (workload, cut_off_ms, None),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(Sample {
        path: path_of(scenario, Some(&row.environment))?,
        workload,
        transport,
        seconds: total_ms / 1e3,
        setup_s: setup_ms
            .filter(|setup| *setup >= 0.0)
            .map(|setup| setup / 1e3),
        is_cut: row.measured.is_none(),
        cell: cell(row),
        is_held_out: Part::of(scenario, &row.circuit, row.batch) == Part::Unseen,
    }))
}

/// Returns what names path and workload, whatever the transport. All that [`Part`] looks at is in it.
fn cell(row: &Row) -> String {
    let path = |config: &PathConfig| {
        format!(
            "{} {} {} {:?} {:?} {}",
            config.delay_ms,
            config.jitter_ms,
            config.loss,
            config.rate_mbit,
            config.queue_limit_bytes(),
            config.udp_blocked
        )
    };
    format!(
        "{} | {} | {:?} | {} {} {}",
        path(&row.scenario.up),
        path(&row.scenario.down),
        row.scenario.socket_buffer,
        row.circuit,
        row.scheme,
        row.batch
    )
}

fn workload(row: &Row, measured: &Measured) -> Result<Workload, SelectError> {
    let machine = match row.scheme.as_str() {
        "prf" => Machine::TYPICAL_WITHOUT_FREE_XOR,
        _ => Machine::TYPICAL,
    };
    let is_extended = !matches!(measured.garbler.ot.as_str(), "direct" | "none");
    let (up, down) = (measured.payload_up_bytes, measured.payload_down_bytes);
    // Both directions of oblivious transfer are in one figure; the evaluator's is nearly all it sends.
    let answers = measured.garbler.ot_bytes.saturating_sub(down);
    let batch = row.batch as f64;
    let tables = measured.garbler.table_bytes as f64;
    let ands = match measured.and_gates {
        Some(gates) => batch * gates as f64,
        // Of half-gates; rows that do not tell are of before there was another default.
        None => tables / 32.0,
    };
    let xors = match row.scheme.as_str() {
        // 32.5 bytes for an AND gate, 16 for an XOR gate.
        "prf" => ((tables - 32.5 * ands) / 16.0).max(0.0),
        _ => 0.0,
    };
    let transfers = if is_extended {
        answers as f64 / 16.0
    } else {
        0.0
    };
    let base = match measured.garbler.ot.as_str() {
        "none" => 0.0,
        "direct" => (down as f64 - 300.0).max(0.0) / 64.0,
        _ => BASE_TRANSFERS,
    };
    let gates = |and_s: f64| ands * and_s + xors * machine.xor_s + transfers * machine.transfer_s;
    Workload::new(Parts {
        // The garbler is party A, which listens.
        garbler: End::Listener,
        garbler_bytes: up,
        garbler_late_bytes: answers.min(up),
        evaluator_bytes: down,
        // Round trips from connected to output, two flights each.
        flights: if is_extended { 3 } else { 2 },
        serial_s: base * machine.base_transfer_s,
        garble_s: gates(machine.garble_and_s),
        evaluate_s: gates(machine.evaluate_and_s),
    })
}
