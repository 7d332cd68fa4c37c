//! Tests of the history: paging, filters, exports, deletion and restarts.

use std::{fmt::Write, path::Path};

use serde_json::{Value, json};

use super::client::{Answer, Server};
use crate::process::{Process, transpute};

/// Number of runs in the large history.
const RUNS: usize = 10_000;

/// Returns a record in the format of `transpute testbed run`. Every hundredth run has failed.
fn record(number: usize) -> Value {
    let transport = ["tcp", "tcp-striped", "quic", "rudp"][number % 4];
    let circuit = ["aes128", "sha256"][number / 4 % 2];
    let rtt = [1.0, 10.0, 50.0, 100.0, 200.0][number / 8 % 5];
    let loss = [0.0, 0.001, 0.01][number / 40 % 3];
    let total = 100.0 + (number % 4) as f64 * 10.0 + rtt;
    let way = json!({ "delay_ms": rtt / 2.0, "loss": loss, "rate_mbit": 100.0 });
    let counters = json!({
        "packets_in": 10, "bytes_in": 10_000, "packets_out": 10, "bytes_out": 10_000, "lost_packets": 1, "lost_bytes": 1000,
        "overflowed_packets": 0, "overflowed_bytes": 0, "duplicated_packets": 0, "duplicated_bytes": 0,
        "reordered_packets": 0, "queue_peak_bytes": 0,
    });
    let party = json!({
        "transport": transport, "cipher": null, "ot": "direct", "connect_ms": 1.0, "handshake_ms": 1.0, "connected_at_ms": 10.0,
        "agreed_ms": 1.0, "first_labels_ms": 2.0, "first_table_ms": 3.0, "last_table_ms": 4.0, "output_ms": 5.0,
        "session_ms": 6.0, "sent_bytes": 200_000, "received_bytes": 1000, "table_bytes": 190_000, "ot_bytes": 1000,
        "rtt_ms": rtt, "process_ms": total, "user_s": 0.1, "system_s": 0.1, "peak_rss_bytes": 1_000_000,
    });
    let mut record = json!({
        "format": 2,
        "scenario": { "name": format!("far,rtt={rtt},loss={loss}"), "up": way, "down": way },
        "circuit": circuit, "scheme": "half-gates", "transport": transport, "batch": 1, "encrypted": true,
        "repetition": number / 120, "path_seed": number, "started_unix_ms": 1_700_000_000_000_u64 + number as u64,
        "environment": {
            "testbed": "0", "transpute": "0", "emulator": "x", "kernel": "x", "cpu": "x", "cpus": 2, "memory_bytes": 1,
            "congestion_control": "cubic", "tcp_rmem": "1 2 3", "tcp_wmem": "1 2 3",
        },
    });
    if number % 100 == 99 {
        record["error"] = "evaluator: it broke, of all things".into();
        return record;
    }
    record["measured"] = json!({
        "runtime_ms": total - 10.0, "total_ms": total, "garbler": party, "evaluator": party, "up": counters, "down": counters,
        "wire_up_bytes": 210_000, "wire_down_bytes": 2000, "overruns": [0, 0], "and_gates": 6400, "payload_up_bytes": 200_000,
        "payload_down_bytes": 1000, "achieved_mbit": 1.0,
        "limit": { "round_trips": 1.0, "rtt_ms": rtt, "transfer_ms": 16.0, "limit_ms": rtt + 16.0, "floor_ms": rtt },
    });
    record
}

/// Imports this number of runs into the history in a folder.
fn fill(folder: &Path, runs: usize) {
    let mut text = String::new();
    for number in 0..runs {
        writeln!(text, "{}", record(number)).unwrap();
    }
    let file = folder.join("rows.jsonl");
    std::fs::write(&file, text).unwrap();
    let args = ["testbed", "serve", "--import"].map(Into::into);
    let more = [
        file.clone().into_os_string(),
        "--data".into(),
        folder.into(),
    ];
    let finished = transpute(args.into_iter().chain(more));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stderr.contains(&format!("{runs} runs imported")));
    std::fs::remove_file(file).unwrap();
}

fn total(server: &Server, filters: &str) -> u64 {
    let page = server.get(&format!("/api/runs?limit=1&{filters}")).json();
    page["total"].as_u64().unwrap()
}

#[test]
fn ten_thousand_runs_stay_usable() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), RUNS);
    let server = Server::start_in(folder.path(), &[]);
    assert_eq!(server.get("/api/health").json()["runs"], RUNS);

    // Every run is on exactly one page, newest first.
    let mut cursor = String::new();
    let mut before = u64::MAX;
    let mut seen = 0;
    let mut most = 0;
    loop {
        let answer = server.get(&format!("/api/runs?limit=500&cursor={cursor}"));
        most = most.max(answer.body.len());
        let page = answer.json();
        for run in page["runs"].as_array().unwrap() {
            let id = run["id"].as_u64().unwrap();
            assert!(id < before);
            before = id;
            seen += 1;
        }
        assert_eq!(page["total"], RUNS);
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(seen, RUNS);
    // Lists do not contain records.
    assert!(most < 1 << 20, "{most} bytes");

    assert_eq!(total(&server, "transport=tcp,quic&circuit=aes128"), 2500);
    assert_eq!(total(&server, "state=failed"), 100);
    assert_eq!(total(&server, "q=OF+ALL+things"), 100);
    assert_eq!(total(&server, "rtt_min=50&rtt_max=100"), 4000);
    assert_eq!(total(&server, "scenario=far%5C,rtt=1%5C,loss=0"), 672);
    assert_eq!(
        total(&server, "since=1700000000000&until=1700000000009"),
        10
    );
    assert_eq!(total(&server, "transport=none"), 0);
    let facets = server.get("/api/facets?circuit=sha256").json();
    assert_eq!(facets["transports"].as_array().unwrap().len(), 4);
    assert_eq!(facets["scenarios"].as_array().unwrap().len(), 15);
    assert_eq!(
        facets["circuits"][0],
        json!({ "value": "sha256", "label": "sha256", "runs": 5000 })
    );

    // One client exports all runs while another client counts runs.
    std::thread::scope(|scope| {
        let client = server.client();
        let exporting = scope.spawn(move || client.get("/api/export.json").json());
        for _ in 0..20 {
            assert_eq!(total(&server, "transport=tcp"), 2500);
        }
        let exported = exporting.join().unwrap();
        let runs = exported["runs"].as_array().unwrap();
        assert_eq!(runs.len(), RUNS);
        let last = &runs[RUNS - 2]["row"];
        assert_eq!(last["path_seed"], RUNS - 2);
        assert_eq!(
            last["measured"]["total_ms"],
            record(RUNS - 2)["measured"]["total_ms"]
        );
        assert_eq!(runs[0]["transport"], "tcp");
    });

    // The map uses the measured runs.
    let question =
        r#"{"circuit": "aes128", "rate_mbit": 100, "rtt_ms": [1, 100], "loss": [0, 0.01]}"#;
    let map = server.post("/api/map", question).json();
    let measured = map["measured"].as_array().unwrap();
    assert_eq!(measured.len(), 15);
    for path in measured {
        assert_eq!(path["best"], "tcp");
        let medians = path["medians_ms"].as_object().unwrap();
        let pick = path["pick"].as_str().unwrap();
        let regret = medians[pick].as_f64().unwrap() / medians["tcp"].as_f64().unwrap() - 1.0;
        assert!(
            (path["regret"].as_f64().unwrap() - regret).abs() < 1e-9,
            "{path}"
        );
    }

    let all = server.get("/api/compare");
    assert_eq!(all.status, 400);
    assert!(all.error().contains("2000"));
}

#[test]
fn exports_can_be_read_by_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 120);
    let server = Server::start_in(folder.path(), &[]);
    let filters = "circuit=aes128&rtt_max=1";
    let csv = server.get(&format!("/api/export.csv?{filters}"));
    assert!(csv.header("content-disposition").contains("runs.csv"));
    let text = csv.text();
    let lines: Vec<_> = text.split("\r\n").filter(|line| !line.is_empty()).collect();
    assert!(
        lines[0].starts_with("id,job,kind,started_unix_ms,state,"),
        "{}",
        lines[0]
    );
    assert_eq!(lines.len() as u64, 1 + total(&server, filters));
    let columns = lines[0].split(',').count();
    // The name of a scenario contains commas, so it is quoted in CSV.
    assert!(
        lines[1].contains("\"far,rtt=1,loss=0\"") && lines[1].split(',').count() == columns + 2
    );

    let records = server.get("/api/export.jsonl?state=ok").text();
    assert_eq!(records.lines().count(), 119);
    let file = folder.path().join("again.jsonl");
    std::fs::write(&file, records).unwrap();
    let file = file.to_str().unwrap();
    let out = folder.path().join("report");
    let report = transpute(["testbed", "report", file, "--out", out.to_str().unwrap()]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);

    let figures = server.get("/api/figures").json();
    let figures = figures["figures"].as_array().unwrap().clone();
    assert!(!figures.is_empty());
    for figure in &figures {
        let name = figure["name"].as_str().unwrap();
        let svg = server.get(&format!("/api/figure.svg?name={name}"));
        assert!(svg.text().starts_with("<svg"), "{name}");
    }
    let name = figures[0]["name"].as_str().unwrap();
    let png = server.get(&format!("/api/figure.png?name={name}"));
    assert!(png.body.starts_with(b"\x89PNG"));
    assert_eq!(server.get("/api/figure.svg?name=none").status, 404);

    // An export with run numbers contains only these runs.
    let one = server.get("/api/export.json?ids=3").json();
    assert_eq!(one["runs"].as_array().unwrap().len(), 1);
    assert_eq!(one["runs"][0]["id"], 3);
    let none = server.get("/api/export.json?transport=none").json();
    assert_eq!(none["runs"].as_array().unwrap().len(), 0);
    assert_eq!(server.get("/api/export.csv?transport=none").text(), "");
}

#[test]
fn runs_are_compared_by_transport() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 240);
    let server = Server::start_in(folder.path(), &[]);
    let compared = server
        .get("/api/compare?circuit=aes128&rtt_max=1&loss_max=0")
        .json();
    assert_eq!(
        (
            &compared["runs"],
            compared["groups"].as_array().unwrap().len()
        ),
        (&8.into(), 1)
    );
    let group = &compared["groups"][0];
    let order: Vec<_> = (group["rows"].as_array().unwrap().iter())
        .map(|record| record["transport"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["tcp", "tcp-striped", "quic", "rudp"]);
    assert_eq!(
        (&group["best"], &group["best_is_clear"]),
        (&"tcp".into(), &true.into())
    );
    assert_eq!(group["limit"]["limit_ms"], 17.0);
    assert_eq!(group["rows"][0]["total_ms"]["median"], 101.0);
}

#[test]
fn runs_are_deleted_only_if_their_count_is_as_expected() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 400);
    let server = Server::start_in(folder.path(), &[]);
    let delete = |body: &str| -> Answer {
        let headers = [("Content-Type", "application/json")];
        server.ask("DELETE", "/api/runs", &headers, body.as_bytes())
    };
    assert_eq!(server.delete("/api/runs/7").status, 204);
    assert_eq!(server.delete("/api/runs/7").status, 404);
    assert_eq!(server.get("/api/runs/7").status, 404);
    assert_eq!(delete(r#"{"ids": [1, 2, 7]}"#).json()["deleted"], 2);
    let refused = delete(r#"{"filter": {"transport": "quic"}, "expect": 5}"#);
    assert_eq!(refused.status, 409);
    assert_eq!(
        serde_json::from_slice::<Value>(&refused.body).unwrap()["total"],
        99
    );
    assert_eq!(total(&server, "transport=quic"), 99);
    assert_eq!(
        delete(r#"{"filter": {"transport": "quic"}, "expect": 99}"#).json()["deleted"],
        99
    );
    assert_eq!(total(&server, ""), 298);
    for wrong in [
        "{}",
        r#"{"filter": {"transport": "tcp"}}"#,
        r#"{"ids": [1], "expect": 1}"#,
        r#"{"filter": {"transprot": "tcp"}, "expect": 298}"#,
        r#"{"filter": {"transport": ["tcp"]}, "expect": 1}"#,
        r#"{"ids": ["1"]}"#,
    ] {
        assert_eq!(delete(wrong).status, 400, "{wrong}");
    }
    assert_eq!(total(&server, ""), 298);
}

#[test]
fn a_history_survives_a_restart_and_has_one_server() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 40);
    let server = Server::start_in(folder.path(), &[]);
    let first = server.get("/api/runs/1").json();
    let second = Process::start([
        "testbed",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        folder.path().to_str().unwrap(),
    ])
    .finish();
    assert_eq!(second.code, Some(3));
    assert!(
        second.stderr.contains("in use by another server"),
        "{}",
        second.stderr
    );
    // Dropping the server kills it.
    drop(server);
    let server = Server::start_in(folder.path(), &[]);
    assert_eq!(total(&server, ""), 40);
    assert_eq!(server.get("/api/runs/1").json(), first);
    assert_eq!(
        first["row"]["started_unix_ms"],
        record(0)["started_unix_ms"]
    );
    assert_eq!(server.stop().code, Some(143));
}

#[test]
fn a_damaged_history_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 1);
    let file = folder.path().join("history.sqlite3");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[..64].fill(b'x');
    std::fs::write(&file, bytes).unwrap();
    let args = [
        "testbed",
        "serve",
        "--quiet",
        "--listen",
        "127.0.0.1:0",
        "--data",
    ];
    let refused = Process::start([&args[..], &[folder.path().to_str().unwrap()]].concat()).finish();
    assert_eq!(refused.code, Some(3));
    for text in ["history.sqlite3", "damaged"] {
        assert!(refused.stderr.contains(text), "{}", refused.stderr);
    }
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
}
