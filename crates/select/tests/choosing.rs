//! Tests of the choosers, their reasons, tables and plans.

mod paths;

use transpute_select::{
    Candidate, Chooser, End, Model, ModelChooser, PaperRules, PathEstimate, UdpStatus, Workload,
};

fn path(rtt: f64, rate: f64, loss: f64) -> PathEstimate {
    paths::path(rtt, rate, loss, None)
}

fn candidates(names: &[&str]) -> Vec<Candidate> {
    names
        .iter()
        .map(|name| Candidate::new(name).unwrap())
        .collect()
}

fn usual() -> Vec<Candidate> {
    candidates(&["tcp", "tcp-striped", "quic", "rudp"])
}

/// Returns the workload of a transfer of tables to the connector, sent by a listening garbler.
fn tables(bytes: u64) -> Workload {
    Workload {
        garbler_late_bytes: bytes / 100,
        evaluator_bytes: 8000,
        flights: 2,
        serial_s: 0.015,
        ..Workload::transfer(End::Listener, bytes)
    }
}

fn theory() -> ModelChooser {
    ModelChooser::new(Model::theory())
}

#[test]
fn long_lossy_bulk_goes_over_rudp_and_never_over_cubic() {
    let choice = theory()
        .choose(&path(0.11, 1e9, 0.01), &tables(36_000_000), &usual())
        .unwrap();
    assert_eq!(choice.winner().as_str(), "rudp", "{}", choice.reason);
    assert!(choice.confidence > 0.6);
    assert_eq!(choice.ranking().last().unwrap().transport.as_str(), "tcp");
    assert!(choice.reason.starts_with("predicted "), "{}", choice.reason);
}

#[test]
fn what_cannot_be_used_is_left_out_and_says_why() {
    let mut blocked = path(0.11, 1e9, 0.01);
    blocked.udp = UdpStatus::Blocked;
    blocked.kernel.available = vec!["cubic".to_owned()];
    let mut all = candidates(&["quic", "rudp", "udp", "tcp:cc=bbr", "tcp-striped"]);
    all.push(Candidate {
        unavailable: Some("the peer does not offer it".to_owned()),
        ..Candidate::new("tcp").unwrap()
    });
    let choice = theory().choose(&blocked, &tables(1_000_000), &all).unwrap();
    assert_eq!(choice.winner().as_str(), "tcp-striped");
    assert_eq!(choice.excluded.len(), 5);
    assert!(choice.reason.contains("only one"), "{}", choice.reason);

    let error = theory()
        .choose(&blocked, &tables(1), &all[..4])
        .unwrap_err()
        .to_string();
    assert!(error.contains("quic: UDP does not pass"), "{error}");
    assert!(error.contains("tcp:cc=bbr: the kernel"), "{error}");
    assert!(theory().choose(&blocked, &tables(1), &[]).is_err());
    let (lossy, either) = (path(0.01, 1e9, 0.001), candidates(&["udp", "tcp"]));
    let choice = theory().choose(&lossy, &tables(1), &either).unwrap();
    assert_eq!(choice.winner().as_str(), "tcp");
}

#[test]
fn the_papers_rules_choose_as_its_table_3_and_text_do() {
    let choose = |path: &PathEstimate, bytes, names: &[&str]| {
        let choice = PaperRules
            .choose(path, &tables(bytes), &candidates(names))
            .unwrap();
        (choice.winner().to_string(), choice.reason)
    };
    let all = ["tcp", "tcp-striped", "quic", "rudp"];
    let winner = |path: &PathEstimate, bytes, names: &[&str]| choose(path, bytes, names).0;
    // Table 3 of the paper: AES-128 and SHA-256 use TCP, MinCut uses SABUL, on both long paths.
    for rtt in [0.11, 0.3] {
        let wan = path(rtt, 1e9, 0.0);
        assert_eq!(winner(&wan, 211_000, &all), "tcp");
        assert_eq!(winner(&wan, 730_000, &all), "tcp");
        assert_eq!(winner(&wan, 36_000_000, &all), "rudp");
    }
    // The paper's text: UDP for a full pipe without losses, TCP with some losses, and a user-space
    // protocol from a loss of 1 %.
    assert_eq!(
        winner(&path(0.0005, 1e10, 0.0), 1, &["tcp", "udp", "rudp"]),
        "udp"
    );
    assert_eq!(winner(&path(0.0005, 1e10, 0.0), 1, &all), "rudp");
    assert_eq!(winner(&path(0.0005, 1e9, 0.001), 1, &all), "tcp");
    assert_eq!(winner(&path(0.0005, 1e9, 0.01), 1, &all), "rudp");
    assert_eq!(winner(&path(0.1, 1e9, 0.01), 1, &["tcp", "quic"]), "quic");
    let mut blocked = path(0.11, 1e9, 0.0);
    blocked.udp = UdpStatus::Blocked;
    assert_eq!(winner(&blocked, 36_000_000, &all), "tcp-striped");
    let (_, reason) = choose(&path(0.11, 1e9, 0.0), 36_000_000, &all);
    assert!(
        reason.contains("W·t is 33.6 ms, the round trip 110 ms"),
        "{reason}"
    );
}
