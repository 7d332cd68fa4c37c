//! Tests of jobs: real runs on an emulated path, their events and their ends.

use std::{thread, time::Duration};

use serde_json::{Value, json};
use transpute_netem::testing::skip;

use super::client::{Answer, Event, Server};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Returns whether the server can run jobs. If not, the test is skipped.
fn can_run(server: &Server, headers: &[(&str, &str)]) -> bool {
    let options = server.ask("GET", "/api/options", headers, b"").json();
    let reason = &options["cannot_run"];
    if options["can_run"] == true {
        return true;
    }
    skip(format_args!("this machine cannot run jobs: {reason}"));
    false
}

fn submit(server: &Server, job: &Value) -> i64 {
    let answer = server.post("/api/jobs", &job.to_string());
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_i64().unwrap()
}

fn state(server: &Server, job: i64) -> String {
    let job = server.get(&format!("/api/jobs/{job}")).json();
    job["state"].as_str().unwrap().to_owned()
}

/// A job that takes far longer than any test.
fn long() -> Value {
    let toml = "rtt_ms = 20000\nname = \"moon\"";
    json!({ "circuit": "aes128", "scenario": { "toml": toml }, "transports": ["tcp"], "repetitions": 50 })
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: timeout");
}

#[test]
fn all_transports_are_compared_on_a_lan() {
    let server = Server::start(&[]);
    if !can_run(&server, &[]) {
        return;
    }
    let transports = ["tcp", "tcp-striped", "quic", "rudp", "auto"];
    let job = submit(
        &server,
        &json!({ "circuit": "aes128", "scenario": { "preset": "lan" }, "transports": transports, "repetitions": 1 }),
    );
    let events: Vec<Event> = server.events(job, &[]).collect();
    assert_eq!(events.last().unwrap().data, json!({ "state": "done" }));
    assert_eq!(names(&events)[..2], ["job", "job"]);
    let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    let of = |name: &str| -> Vec<&Value> {
        let own = events.iter().filter(|event| event.name == name);
        own.map(|event| &event.data).collect()
    };
    let runs = of("run");
    assert_eq!((runs.len(), of("run-start").len()), (5, 5));
    // Each run has a sample from its end, even if it was shorter than the sampling interval.
    for number in 1..=5 {
        let samples = of("sample");
        let last = samples
            .iter()
            .rfind(|sample| sample["number"] == number)
            .unwrap();
        assert!(
            last["up"]["bytes_out"].as_u64().unwrap() > 200_000,
            "{last}"
        );
        assert!(last["down"]["packets_in"].as_u64().unwrap() > 0);
        assert!(last["retransmitted_segments"].is_u64(), "{last}");
        let started = of("phase")
            .into_iter()
            .filter(|phase| phase["number"] == number);
        assert!(started.count() >= 2);
    }
    for (run, transport) in runs.iter().zip(transports) {
        let run = &run["run"];
        assert_eq!(
            (&run["transport"], &run["state"]),
            (&transport.into(), &"ok".into()),
            "{run}"
        );
        assert!(run["predicted_s"].as_f64().unwrap() > 0.0);
        let detail = server.get(&format!("/api/runs/{}", run["id"])).json();
        assert_eq!(&detail["run"], run);
        assert_eq!(detail["row"]["circuit"], "aes128");
        assert!(detail["row"]["measured"]["timeline"]["up"].is_array());
        let phases = detail["phases"].as_array().unwrap();
        assert_eq!(phases.len(), 14, "{phases:?}");
        assert!(
            phases
                .iter()
                .all(|phase| phase["at_ms"].as_f64().unwrap() > 0.0)
        );
        assert!(!detail["samples"].as_array().unwrap().is_empty());
    }
    assert_ne!(runs[4]["run"]["used_transport"], "auto");

    let compared = server.get(&format!("/api/jobs/{job}/comparison")).json();
    assert_eq!(compared["groups"].as_array().unwrap().len(), 1);
    let group = &compared["groups"][0];
    assert_eq!(group["rows"].as_array().unwrap().len(), 5);
    let floor = group["limit"]["floor_ms"].as_f64().unwrap();
    for record in group["rows"].as_array().unwrap() {
        assert!(
            record["runtime_ms"]["min"].as_f64().unwrap() >= floor,
            "{record}"
        );
    }

    // A client that reconnects gets only the events it missed.
    let last = ids[ids.len() / 2].to_string();
    let rest: Vec<Event> = server.events(job, &[("Last-Event-ID", &last)]).collect();
    assert_eq!(rest[0].name, "job");
    assert_eq!(
        rest[1..],
        events[events.len() - (ids.len() - ids.len() / 2 - 1)..]
    );
    let end = ids.last().unwrap().to_string();
    let nothing: Vec<Event> = server.events(job, &[("Last-Event-ID", &end)]).collect();
    assert_eq!(names(&nothing), ["job", "end"]);
    assert_eq!(server.delete(&format!("/api/jobs/{job}")).status, 409);
}

#[test]
fn a_run_is_reported_while_it_is_in_progress() {
    let server = Server::start(&[]);
    if !can_run(&server, &[]) {
        return;
    }
    let job = submit(
        &server,
        &json!({ "circuit": "aes128", "scenario": { "preset": "eu-aus" }, "transports": ["tcp"], "repetitions": 1 }),
    );
    let events: Vec<Event> = server.events(job, &[]).collect();
    let over = events.iter().position(|event| event.name == "run").unwrap();
    let before = &events[..over];
    // A run of at least half a second has several samples at ten per second, even on a busy
    // machine.
    let looks = before
        .iter()
        .filter(|event| event.name == "sample" && event.data["at_ms"].is_f64());
    assert!(looks.count() >= 3);
    let id = &events[over].data["run"]["id"];
    let detail = server.get(&format!("/api/runs/{id}")).json();
    for party in ["garbler", "evaluator"] {
        let find = |phases: Vec<&Value>| -> f64 {
            let is_it = |phase: &&Value| phase["party"] == party && phase["phase"] == "connected";
            phases.into_iter().find(is_it).unwrap()["at_ms"]
                .as_f64()
                .unwrap()
        };
        let told = before.iter().filter(|event| event.name == "phase");
        let seen = find(told.map(|event| &event.data).collect());
        let exact = find(detail["phases"].as_array().unwrap().iter().collect());
        assert!(
            (seen - exact).abs() < 0.01,
            "{party}: {seen} and {exact} ms"
        );
    }
}

#[test]
fn the_number_of_event_streams_is_limited() {
    let server = Server::start(&[]);
    if !can_run(&server, &[]) {
        return;
    }
    let job = submit(&server, &long());
    let mut listening: Vec<_> = (0..32).map(|_| server.events(job, &[])).collect();
    let path = format!("/api/jobs/{job}/events");
    let refused = server.get(&path);
    assert_eq!(refused.status, 503);
    refused.error();
    // Other requests are still answered, and a closed stream makes room for another one.
    wait_until("the job runs", || state(&server, job) == "running");
    listening.truncate(20);
    assert_eq!(server.delete(&format!("/api/jobs/{job}")).status, 200);
    for events in listening {
        assert_eq!(events.last().unwrap().name, "end");
    }
    wait_until("a stream is free", || server.get(&path).status == 200);
}

#[test]
fn jobs_wait_are_cancelled_and_outlive_their_clients() {
    let server = Server::start(&[]);
    if !can_run(&server, &[]) {
        return;
    }
    let first = submit(&server, &long());
    let second = submit(&server, &long());
    let third = submit(
        &server,
        &json!({ "circuit": "add:8", "scenario": { "preset": "lan" }, "transports": ["tcp"], "repetitions": 2 }),
    );
    // A client reads some events and disconnects.
    let mut events = server.events(first, &[]);
    assert!(events.any(|event| event.name == "run-start"));
    drop(events);
    wait_until("the job runs", || state(&server, first) == "running");
    assert_eq!(
        server.get(&format!("/api/jobs/{third}")).json()["position"],
        2
    );

    // Two clients receive the events at the same time.
    thread::scope(|scope| {
        let client = server.client();
        let listening: Vec<_> = (0..2)
            .map(|_| scope.spawn(move || client.events(second, &[]).collect::<Vec<_>>()))
            .collect();
        let answer = server.delete(&format!("/api/jobs/{second}"));
        assert_eq!(answer.json()["state"], "cancelled");
        let heard: Vec<_> = listening
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        for events in &heard {
            assert_eq!(events.last().unwrap().data, json!({ "state": "cancelled" }));
        }
    });
    assert_eq!(
        server.get(&format!("/api/jobs/{third}")).json()["position"],
        1
    );

    assert_eq!(server.delete(&format!("/api/jobs/{first}")).status, 200);
    let ended: Vec<Event> = server.events(first, &[]).collect();
    assert_eq!(ended.last().unwrap().data, json!({ "state": "cancelled" }));
    let ended: Vec<Event> = server.events(third, &[]).collect();
    assert_eq!(ended.last().unwrap().data, json!({ "state": "done" }));
    let runs = server.get(&format!("/api/runs?job={third}")).json();
    assert_eq!(runs["total"], 2);
    let jobs = server.get("/api/jobs?limit=2").json();
    let ids: Vec<_> = (jobs["jobs"].as_array().unwrap().iter())
        .map(|job| job["id"].as_i64().unwrap())
        .collect();
    assert_eq!(
        (ids, &jobs["next"]),
        (vec![third, second], &second.to_string().into())
    );
    let rest = server
        .get(&format!("/api/jobs?limit=2&cursor={second}"))
        .json();
    assert_eq!(
        (&rest["jobs"][0]["id"], &rest["next"]),
        (&first.into(), &Value::Null)
    );
}

#[test]
fn the_queue_is_limited() {
    let server = Server::start(&[]);
    if !can_run(&server, &[]) {
        return;
    }
    let first = submit(&server, &long());
    wait_until("the job runs", || state(&server, first) == "running");
    for _ in 0..32 {
        submit(&server, &long());
    }
    let answer = server.post("/api/jobs", &long().to_string());
    assert_eq!(answer.status, 429);
    answer.error();
    // Queued jobs do not delay the shutdown.
    let ended = server.stop();
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
}

#[test]
fn the_server_ends_its_jobs_and_processes_at_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(folder.path(), &[]);
    if !can_run(&server, &[]) {
        return;
    }
    let job = submit(&server, &long());
    let mut events = server.events(job, &[]);
    assert!(events.any(|event| event.name == "sample"));
    let id = server.id();
    let children = || {
        let is_child = |entry: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat
                .rsplit_once(") ")?
                .1
                .split(' ')
                .nth(1)?
                .parse::<u32>()
                .ok()?;
            (parent == id).then(|| entry.path())
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(is_child).collect::<Vec<_>>()
    };
    // The path is sampled before the parties start.
    let mut parties = Vec::new();
    wait_until("a party runs", || {
        parties = children();
        !parties.is_empty()
    });
    let ended = server.stop();
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
    for party in parties {
        assert!(!party.exists(), "{}", party.display());
    }
    // The clients received the `end` event.
    assert_eq!(
        events.last().map(|event| event.data),
        Some(json!({ "state": "interrupted" }))
    );

    let server = Server::start_in(folder.path(), &[]);
    assert_eq!(state(&server, job), "interrupted");
    let told: Vec<Event> = server.events(job, &[]).collect();
    assert_eq!(names(&told), ["job", "end"]);
}

#[test]
fn a_restart_marks_the_jobs_of_a_crashed_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(folder.path(), &[]);
    if !can_run(&server, &[]) {
        return;
    }
    let job = submit(&server, &long());
    wait_until("the job runs", || state(&server, job) == "running");
    drop(server);
    let server = Server::start_in(folder.path(), &[]);
    assert_eq!(state(&server, job), "interrupted");
}

#[test]
fn a_failed_run_has_an_error_and_the_job_continues() {
    let server = Server::start(&[]);
    if !can_run(&server, &[]) {
        return;
    }
    let set = json!({ "udp_blocked": true });
    let job = submit(
        &server,
        &json!({
            "circuit": "add:8", "scenario": { "preset": "lan", "set": set }, "transports": ["rudp", "tcp"],
            "repetitions": 1, "timeout_s": 3,
        }),
    );
    let events: Vec<Event> = server.events(job, &[]).collect();
    let runs: Vec<_> = events.iter().filter(|event| event.name == "run").collect();
    assert_eq!(events.last().unwrap().data, json!({ "state": "done" }));
    let of = |index: usize| &runs[index].data["run"];
    assert_ne!(of(0)["state"], "ok");
    assert!(!of(0)["error"].as_str().unwrap().is_empty());
    assert_eq!(
        (&of(1)["transport"], &of(1)["state"]),
        (&"tcp".into(), &"ok".into())
    );
    let job = server.get(&format!("/api/jobs/{job}")).json();
    assert_eq!((&job["done"], &job["failed"]), (&2.into(), &1.into()));
}

#[test]
fn an_upload_is_run_and_its_path_stays_hidden() {
    let server = Server::start(&[]);
    if !can_run(&server, &[]) {
        return;
    }
    let circuit = "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n";
    let headers = [("Content-Type", "application/octet-stream")];
    let known = server.ask(
        "POST",
        "/api/circuits?name=and.txt",
        &headers,
        circuit.as_bytes(),
    );
    let spec = known.json()["example"].as_str().unwrap().to_owned();
    let job = submit(
        &server,
        &json!({ "circuit": spec, "scenario": { "preset": "lan" }, "transports": ["tcp"], "repetitions": 1 }),
    );
    let digest = spec.strip_prefix("upload:").unwrap();
    let answer = server.delete(&format!("/api/circuits/{digest}"));
    // The job may have ended already.
    assert!([409, 204].contains(&answer.status));
    let events: Vec<Event> = server.events(job, &[]).collect();
    let run = &events
        .iter()
        .find(|event| event.name == "run")
        .unwrap()
        .data["run"];
    assert_eq!(run["circuit"], spec.as_str());
    assert_eq!(run["circuit_label"], "and.txt");
    assert_eq!(run["state"], "ok", "{run}");
    let exported = server.get("/api/export.json").text();
    assert!(!exported.contains("/circuits/"), "{exported}");
}

#[test]
fn users_programs_are_measured_if_they_are_allowed() {
    let server = Server::start(&["--allow-programs"]);
    let bearer = format!("Bearer {}", server.token.as_ref().unwrap());
    let headers = [JSON, ("Authorization", bearer.as_str())];
    if !can_run(&server, &headers) {
        return;
    }
    let ask = |method: &str, path: &str, body: &str| -> Answer {
        server.ask(method, path, &headers, body.as_bytes())
    };
    let program = crate::BINARY;
    let a = format!("{program} link serve --unpinned --listen $TRANSPUTE_A:7700");
    let b = format!(
        "echo hello; {program} link send --unpinned --connect $TRANSPUTE_A:7700 --bytes 2000000"
    );
    let job = json!({
        "kind": "programs", "label": "link", "a": a, "b": b, "repetitions": 2,
        "scenario": { "preset": "loopback", "set": { "rtt_ms": 10, "rate_mbit": 100 } },
    });
    let answer = ask("POST", "/api/jobs", &job.to_string());
    let job = answer.json()["id"].as_i64().unwrap();
    let events: Vec<Event> = server.events(job, &headers).collect();
    assert_eq!(events.last().unwrap().data, json!({ "state": "done" }));
    let runs: Vec<_> = events.iter().filter(|event| event.name == "run").collect();
    assert_eq!(runs.len(), 2);
    let run = &runs[1].data["run"];
    assert_eq!(
        (&run["state"], &run["kind"]),
        (&"ok".into(), &"programs".into()),
        "{run}"
    );
    // 2 MB at 100 Mbit/s take 160 ms.
    assert!(run["total_ms"].as_f64().unwrap() > 160.0, "{run}");
    let wire = run["wire_up_bytes"].as_u64().unwrap() + run["wire_down_bytes"].as_u64().unwrap();
    assert!(wire > 2_000_000, "{run}");
    let detail = ask("GET", &format!("/api/runs/{}", run["id"]), "").json();
    let programs = &detail["programs"];
    assert!(
        programs["b_output"]
            .as_str()
            .unwrap()
            .starts_with("hello\n"),
        "{programs}"
    );
    assert_eq!(programs["b_code"], 0);
    assert!(!detail["samples"].as_array().unwrap().is_empty());
    assert_eq!(ask("GET", "/api/export.jsonl", "").text(), "");

    // One command exceeds the time limit, and one fails.
    for (b, timeout, reason) in [
        ("sleep 1000", 1, "not done after 1 s"),
        ("exit 7", 60, "exited with code 7"),
    ] {
        let job = json!({
            "kind": "programs", "a": "sleep 1000", "b": b, "repetitions": 1, "timeout_s": timeout,
            "scenario": { "preset": "loopback" },
        });
        let job = ask("POST", "/api/jobs", &job.to_string()).json()["id"]
            .as_i64()
            .unwrap();
        let events: Vec<Event> = server.events(job, &headers).collect();
        let run = &events
            .iter()
            .find(|event| event.name == "run")
            .unwrap()
            .data["run"];
        assert_eq!(run["state"], "failed");
        assert!(run["error"].as_str().unwrap().contains(reason), "{run}");
    }
}

#[test]
fn events_stop_when_their_session_ends() {
    let server = Server::start(&["--token"]);
    let [session, other] = [(), ()].map(|()| format!("Bearer {}", server.sign_in()));
    let headers = [JSON, ("Authorization", other.as_str())];
    if !can_run(&server, &headers) {
        return;
    }
    let job = json!({
        "circuit": "aes128", "transports": ["tcp"], "repetitions": 1000, "scenario": { "preset": "eu-us" },
    });
    let answer = server.ask("POST", "/api/jobs", &headers, job.to_string().as_bytes());
    let job = answer.json()["id"].as_i64().unwrap();
    let with = [("Authorization", session.as_str())];
    let mut events = server.events(job, &with);
    assert!(events.any(|event| event.name == "run-start"));
    assert_eq!(server.ask("DELETE", "/api/session", &with, b"").status, 204);
    let rest: Vec<Event> = events.take(100).collect();
    assert!(rest.len() < 100 && rest.iter().all(|event| event.name != "end"));
    let path = format!("/api/jobs/{job}");
    assert_eq!(server.ask("DELETE", &path, &headers, b"").status, 200);
}
