//! Rows of the testbed as samples for the model.

use transpute_select::{
    Direction, End, Loss, Machine, Parts, PathEstimate, Rate, Sample, SelectError, Source, Udp,
    Workload,
};
use transpute_testbed::{
    row::{Environment, Measured, Row},
    scenario::{PathConfig, Scenario},
};

/// Public-key transfers of an extension.
const BASE_TRANSFERS: f64 = 128.0;

/// Returns what a probe that made no errors would say of an emulated path. The garbler, which listens, is party A: what the testbed
/// calls up is *down* here.
pub(super) fn path_of(
    scenario: &Scenario,
    environment: Option<&Environment>,
) -> Result<PathEstimate, SelectError> {
    let mut path = PathEstimate::of_rtt(scenario.rtt_ms() / 1e3)?;
    path.up = direction(&scenario.down)?;
    path.down = direction(&scenario.up)?;
    path.udp = Udp::Passes;
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

fn direction(config: &PathConfig) -> Result<Direction, SelectError> {
    // Bursts: the share of the time in the bad state (Gilbert, 1960).
    let bursts = config.burst.map_or(0.0, |burst| {
        let bad = burst.p_enter / (burst.p_enter + burst.p_leave).max(f64::MIN_POSITIVE);
        bad * burst.loss_bad + (1.0 - bad) * burst.loss_good
    });
    let loss = 1.0 - (1.0 - config.loss) * (1.0 - bursts);
    Ok(Direction {
        rate: config.rate_mbit.map(|mbit| Rate::known(mbit * 1e6)),
        loss: Some(Loss::known(loss.clamp(0.0, 1.0))?),
        queue_bytes: config.queue_limit_bytes().map(|bytes| bytes as f64),
    })
}

/// Returns the sample of a row; nothing for one that tells the model nothing: a run that failed, was not under the conditions of its
/// scenario, or whose path changed or was shared, which an estimate does not express.
pub(super) fn sample(row: &Row) -> Result<Option<Sample>, SelectError> {
    let changes = !row.scenario.up.changes.is_empty() || !row.scenario.down.changes.is_empty();
    let (Some(measured), true) = (&row.measured, row.encrypted) else {
        return Ok(None);
    };
    if measured.overruns != [0, 0] || changes || row.scenario.cross_traffic.is_some() {
        return Ok(None);
    }
    let Ok(transport) = row.transport.parse() else {
        return Ok(None);
    };
    Ok(Some(Sample {
        path: path_of(&row.scenario, Some(&row.environment))?,
        workload: workload(row, measured)?,
        transport,
        seconds: measured.total_ms / 1e3,
        setup_s: Some((measured.total_ms - measured.runtime_ms) / 1e3)
            .filter(|setup| *setup >= 0.0),
        is_cut: false,
        cell: cell(row),
    }))
}

/// Returns what names path and workload, whatever the transport, so that a cell is on one side of a split as a whole.
fn cell(row: &Row) -> String {
    let path = |config: &PathConfig| {
        format!(
            "{} {} {} {:?} {:?}",
            config.delay_ms,
            config.jitter_ms,
            config.loss,
            config.rate_mbit,
            config.queue_limit_bytes()
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
