//! What the choosers choose, and what they say about it.

use transpute_select::{
    Bias, Candidate, Choice, Chooser, Direction, End, Explanation, Loss, Model, ModelChooser,
    Named, PaperRules, Parts, PathEstimate, Plan, Prices, Rate, SelectError, Setup, Udp, Unknown,
    Workload,
};

fn path(rtt: f64, rate: f64, loss: f64) -> PathEstimate {
    let mut path = PathEstimate::of_rtt(rtt).unwrap();
    path.up = Direction {
        rate: Some(Rate::known(rate)),
        loss: Some(Loss::known(loss).unwrap()),
        queue_bytes: None,
    };
    path.down = path.up;
    path.udp = Udp::Passes;
    path
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

/// Tables to the connector, as a garbler that listens sends them.
fn tables(bytes: u64) -> Workload {
    Workload::new(Parts {
        garbler: End::Listener,
        garbler_bytes: bytes,
        garbler_late_bytes: bytes / 100,
        evaluator_bytes: 8000,
        flights: 2,
        serial_s: 0.015,
        garble_s: 0.0,
        evaluate_s: 0.0,
    })
    .unwrap()
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
    assert!(
        choice.reason.starts_with("rudp about "),
        "{}",
        choice.reason
    );
}

#[test]
fn next_door_everything_is_as_good_and_the_first_is_taken() {
    let choice = theory()
        .choose(&path(0.0002, 1e10, 0.0), &tables(200_000), &usual())
        .unwrap();
    let [first, .., last] = choice.ranking() else {
        panic!("{choice:?}")
    };
    assert!(last.prediction.seconds - first.prediction.seconds < 1e-3);
    // Links that are up already leave the first one.
    let up: Vec<_> = usual()
        .into_iter()
        .map(|candidate| candidate.with_setup(Setup::Done))
        .collect();
    let choice = theory()
        .choose(&path(0.0, 1e10, 0.0), &tables(1000), &up)
        .unwrap();
    assert_eq!(choice.winner().as_str(), "tcp");
    assert!(
        choice.reason.ends_with("no difference to speak of"),
        "{}",
        choice.reason
    );
}

#[test]
fn what_bears_losses_is_worth_a_little_where_few_packets_were_looked_at() {
    // About as fast without losses, and both are up.
    let choose = |lost, sent, bytes| {
        let mut path = path(0.0016, 1e9, 0.0);
        path.down.loss = Some(Loss::new(lost, sent).unwrap());
        let both = ["tcp:cc=bbr", "rudp"].map(|name| Candidate::new(name).unwrap());
        let both = both.map(|candidate| candidate.with_setup(Setup::Done));
        let model = ModelChooser::default();
        model.choose(&path, &tables(bytes), &both).unwrap()
    };
    let seconds = |choice: &Choice, name: &str| {
        let mut ranking = choice.ranking().iter();
        let found = ranking.find(|ranked| ranked.transport.as_str() == name);
        found.unwrap().prediction.seconds
    };
    // Of so many packets next to nothing is lost.
    let long = choose(0, 2000, 1_000_000);
    assert_eq!(long.winner().as_str(), "tcp:cc=bbr", "{}", long.reason);
    let [tcp, rudp] = ["tcp:cc=bbr", "rudp"].map(|name| seconds(&long, name));
    assert!((tcp / rudp - 1.0).abs() < 0.03, "{tcp} {rudp}");
    let short = choose(0, 25, 1_000_000);
    assert_eq!(short.winner().as_str(), "rudp", "{}", short.reason);
    let why = "; but losses would slow that down, and few packets were looked at";
    assert!(short.reason.ends_with(why), "{}", short.reason);
}

#[test]
fn what_cannot_be_used_is_left_out_and_says_why() {
    let mut blocked = path(0.11, 1e9, 0.01);
    blocked.udp = Udp::Blocked;
    blocked.kernel.available = vec!["cubic".to_owned()];
    let mut all = candidates(&["quic", "rudp", "udp", "tcp:cc=bbr", "tcp-striped"]);
    all.push(
        Candidate::new("tcp")
            .unwrap()
            .without("the peer does not offer it"),
    );
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
    let lossy = theory()
        .choose(
            &path(0.01, 1e9, 0.001),
            &tables(1),
            &candidates(&["udp", "tcp"]),
        )
        .unwrap();
    assert_eq!(lossy.winner().as_str(), "tcp");
}

#[test]
fn leanings_and_stickiness_decide_what_is_close() {
    let (path, work) = (path(0.11, 1e9, 0.0), tables(36_000_000));
    let plain = theory().choose(&path, &work, &usual()).unwrap();
    assert_eq!(plain.winner().as_str(), "rudp");
    let second = plain.ranking()[1].transport.clone();
    let lean = |factor| {
        let bias = Bias {
            transport: "rudp".to_owned(),
            factor,
        };
        theory().with_bias(bias)
    };
    let away = lean(50.0).unwrap().choose(&path, &work, &usual()).unwrap();
    assert_eq!(away.winner(), &second);
    assert!(
        away.reason.contains("preferred all the same"),
        "{}",
        away.reason
    );
    for none in [f64::NAN, 0.0, -1.0] {
        assert!(lean(none).is_err());
    }
    let stuck = |gain| {
        let chooser = theory().with_stickiness(second.clone(), gain).unwrap();
        chooser
            .choose(&path, &work, &usual())
            .unwrap()
            .winner()
            .clone()
    };
    assert_eq!(stuck(9.0), second);
    assert_eq!(stuck(0.01), *plain.winner());
}

#[test]
fn a_link_that_is_up_counts_without_its_set_up() {
    let path = path(0.2, 1e9, 0.0);
    let waiting = theory().choose(&path, &tables(100), &usual()).unwrap();
    assert_eq!(waiting.winner().as_str(), "quic");
    let mut all = usual();
    all[3] = all[3].clone().with_setup(Setup::Done);
    let choice = theory().choose(&path, &tables(100), &all).unwrap();
    assert_eq!(choice.winner().as_str(), "rudp");
    assert_eq!(choice.prediction().parts.setup_s, 0.0);
}

#[test]
fn a_doubted_candidate_loses_in_words_of_its_own() {
    // Far from next door.
    let path = path(0.11, 1e9, 0.0);
    let choose = |doubt| {
        let tcp = Candidate::new("tcp").unwrap();
        let rudp = Candidate::new("rudp").unwrap().with_doubt(doubt);
        let both = [tcp, rudp].map(|candidate| candidate.with_setup(Setup::Done));
        theory().choose(&path, &tables(300_000), &both).unwrap()
    };
    assert_eq!(choose(0.0).winner().as_str(), "rudp");
    let choice = choose(0.9);
    assert_eq!(choice.winner().as_str(), "tcp");
    let why = "; but it may not come up: nothing has come over UDP so far";
    assert!(choice.reason.ends_with(why), "{}", choice.reason);
}

#[test]
fn named_takes_what_was_asked_for_or_nothing() {
    let (path, work) = (path(0.1, 1e9, 0.0), tables(1));
    let named = Named::new("tcp").unwrap();
    let choice = named.choose(&path, &work, &usual()).unwrap();
    assert_eq!(
        (choice.winner().as_str(), choice.reason.as_str()),
        ("tcp", "asked for by name")
    );
    assert!(named.settlement(&path, &work, &usual()).unwrap().is_settled);
    let error = Named::new("udp")
        .unwrap()
        .choose(&path, &work, &usual())
        .unwrap_err();
    assert!(
        matches!(error, SelectError::NotACandidate { .. }),
        "{error}"
    );
    assert!(Named::new("a b").is_err());
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
    // Table 3: AES-128 and SHA-256 over TCP, MinCut over SABUL, on both long paths.
    for rtt in [0.11, 0.3] {
        let wan = path(rtt, 1e9, 0.0);
        assert_eq!(winner(&wan, 211_000, &all), "tcp");
        assert_eq!(winner(&wan, 730_000, &all), "tcp");
        assert_eq!(winner(&wan, 36_000_000, &all), "rudp");
    }
    // Text: full pipe without losses is for UDP, with some for TCP, and 1 % is for user space.
    assert_eq!(
        winner(&path(0.0005, 1e10, 0.0), 1, &["tcp", "udp", "rudp"]),
        "udp"
    );
    assert_eq!(winner(&path(0.0005, 1e10, 0.0), 1, &all), "rudp");
    assert_eq!(winner(&path(0.0005, 1e9, 0.001), 1, &all), "tcp");
    assert_eq!(winner(&path(0.0005, 1e9, 0.01), 1, &all), "rudp");
    assert_eq!(winner(&path(0.1, 1e9, 0.01), 1, &["tcp", "quic"]), "quic");
    let mut blocked = path(0.11, 1e9, 0.0);
    blocked.udp = Udp::Blocked;
    assert_eq!(winner(&blocked, 36_000_000, &all), "tcp-striped");
    let (_, reason) = choose(&path(0.11, 1e9, 0.0), 36_000_000, &all);
    assert!(
        reason.contains("W·t is 33.6 ms, the round trip 110 ms"),
        "{reason}"
    );
}

#[test]
fn little_work_and_short_paths_are_settled_by_the_round_trip_time() {
    let chooser = ModelChooser::default();
    for (rtt, bytes) in [
        (0.0004, 211_000),
        (0.0002, 36_000_000),
        (0.0001, 1000),
        (0.05, 2000),
        (0.2, 211_000),
    ] {
        let bare = PathEstimate::of_rtt(rtt).unwrap();
        let settlement = chooser.settlement(&bare, &tables(bytes), &usual()).unwrap();
        assert!(settlement.is_settled, "{rtt} {bytes} {settlement:?}");
    }
}

#[test]
fn much_work_is_insured_against_losses_where_nobody_expects_them() {
    let chooser = ModelChooser::default();
    let work = tables(100_000_000);
    for (rtt, loss, is_settled) in [
        (0.0004, None, false),
        (0.0004, Some(0.0), true),
        // One machine.
        (0.0002, None, true),
    ] {
        let mut near = PathEstimate::of_rtt(rtt).unwrap();
        if let Some(loss) = loss {
            near = path(rtt, 1e9, loss);
        }
        let settlement = chooser.settlement(&near, &work, &usual()).unwrap();
        assert_eq!(settlement.is_settled, is_settled, "{rtt} {settlement:?}");
    }
    // What a handshake shows is no look at the path; but if it has lost something, even one machine is looked at.
    for (rtt, lost, is_settled) in [(0.0004, 0, false), (0.0002, 0, true), (0.0002, 1, false)] {
        let mut near = PathEstimate::of_rtt(rtt).unwrap();
        near.up.loss = Some(Loss::new(lost, 4).unwrap());
        let settlement = chooser.settlement(&near, &work, &usual()).unwrap();
        assert_eq!(settlement.is_settled, is_settled, "{rtt} {settlement:?}");
    }
    // The way the tables go, or the other one.
    for is_busier in [true, false] {
        let mut near = PathEstimate::of_rtt(0.0004).unwrap();
        let looked = Some(Loss::new(0, 128).unwrap());
        match is_busier == (work.bytes_up() > work.bytes_down()) {
            true => near.up.loss = looked,
            false => near.down.loss = looked,
        }
        let settlement = chooser.settlement(&near, &work, &usual()).unwrap();
        assert_eq!(settlement.is_settled, is_busier, "{settlement:?}");
    }
    // Nothing to find out with.
    let near = PathEstimate::of_rtt(0.0004).unwrap();
    let tcps = candidates(&["tcp", "tcp-striped"]);
    let settlement = chooser.settlement(&near, &work, &tcps).unwrap();
    assert!(settlement.is_settled);
}

#[test]
fn much_work_on_an_unknown_path_is_not_settled_and_knowing_it_settles() {
    let work = tables(31_000_000);
    let all = candidates(&["tcp", "rudp"]);
    // What a window of the kernel allows is enough at a low rate without loss, and nowhere near at a high one.
    let bare = PathEstimate::of_rtt(0.02).unwrap();
    let before = theory().settlement(&bare, &work, &all).unwrap();
    assert!(before.worst_regret >= 0.0);
    let mut slow = path(0.02, 2e7, 0.0);
    slow.up.loss = None;
    slow.down.loss = None;
    let open = theory().settlement(&slow, &work, &all).unwrap();
    let known = theory()
        .settlement(&path(0.02, 2e7, 0.01), &work, &all)
        .unwrap();
    assert!(known.is_settled, "{known:?}");
    if !open.is_settled {
        assert_eq!(open.worth_knowing, Unknown::Loss);
    }
    assert!(open.worst_regret >= known.worst_regret);
    // One candidate is no choice.
    assert!(
        theory()
            .settlement(&slow, &work, &all[..1])
            .unwrap()
            .is_settled
    );
}

#[test]
fn an_explanation_is_a_table_with_the_winner_marked() {
    let work = [("aes128", 211_000), ("mincut", 36_000_000)];
    let work = work.map(|(name, bytes)| (name.to_owned(), tables(bytes)));
    let mut all = usual();
    all[2] = all[2].clone().without("refused by the peer");
    let chooser = theory();
    let explanation = Explanation::new(&chooser, &path(0.11, 1e9, 0.0), work, &all).unwrap();
    let text = explanation.to_string();
    assert!(text.contains("path: rtt 110 ms, up 1000 Mbit/s"), "{text}");
    assert!(text.contains("not quic: refused by the peer"), "{text}");
    assert_eq!(text.matches('*').count(), 2, "{text}");
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["rows"][1]["choice"]["ranking"][0]["transport"], "rudp");
    assert!(json["rows"][0]["choice"]["ranking"][0]["parts"]["setup_s"].is_number());
    assert!(json["rows"][0]["settlement"]["is_settled"].is_boolean());
}

#[test]
fn plans_reproduce_the_survey_of_rebane() {
    // Table 17: 35.5 MB at 0.1 and 0.2 USD/GB cost 0.0036 and 0.0071 USD. Ours counts headers, 5 %.
    let work = Workload::transfer(End::Connector, 35_500_000).unwrap();
    let choice = theory()
        .choose(&path(0.11, 3e7, 0.0), &work, &candidates(&["tcp"]))
        .unwrap();
    for (price, expected) in [(0.1, 0.0036), (0.2, 0.0071)] {
        let prices = Prices::new(price, 0.12).unwrap();
        let plan = Plan::new(&choice, &work, (0.0, 0.0), 1, prices).unwrap();
        assert!(
            (plan.traffic_cost / 1.05 - expected).abs() < 6e-5,
            "{plan:?}"
        );
        // Two machines for as long as it takes.
        let hours = plan.seconds / 3600.0;
        assert!((plan.machine_cost - 2.0 * hours * 0.12).abs() < 1e-12);
        assert!(plan.interval_s.0 < plan.seconds && plan.seconds < plan.interval_s.1);
    }
    // What is lost is paid for and sent again.
    let lossy = Plan::new(&choice, &work, (0.5, 0.0), 10, Prices::default()).unwrap();
    assert!((lossy.garbler_bytes / (10.0 * 35.5e6 * 1.05 * 2.0) - 1.0).abs() < 1e-9);
    assert!(Prices::new(-1.0, 0.0).is_err() && Prices::new(f64::NAN, 0.0).is_err());
    assert!(Plan::new(&choice, &work, (1.0, 0.0), 1, Prices::default()).is_err());
}
