//! From runs to models, files of models, and files of paths.

use transpute_select::{
    Cache, Direction, End, FRESH_FOR, Goodness, Loss, MIN_SAMPLES, Model, Parts, PathEstimate,
    Rate, Sample, SelectError, Source, Udp, Workload, fit,
};

fn path(rtt: f64, rate: f64, loss: f64) -> PathEstimate {
    let mut path = PathEstimate::of_rtt(rtt).unwrap();
    path.up = Direction {
        rate: Some(Rate::known(rate)),
        loss: Some(Loss::known(loss).unwrap()),
        queue_bytes: None,
    };
    path.down = path.up;
    path
}

/// Runs that take what the theory says, but for factors and something fixed.
fn samples(transport: &str, (fixed, setup, run): (f64, f64, f64)) -> Vec<Sample> {
    let theory = Model::theory();
    let mut samples = Vec::new();
    for rtt in [0.001, 0.01, 0.05, 0.11, 0.3] {
        for rate in [1e7, 1e8, 1e9] {
            for bytes in [20_000_u64, 211_000, 2_000_000, 36_000_000] {
                let workload = Workload::new(Parts {
                    garbler: End::Listener,
                    garbler_bytes: bytes,
                    garbler_late_bytes: bytes / 50,
                    evaluator_bytes: 8000,
                    flights: 2,
                    serial_s: 0.0,
                    garble_s: 0.0,
                    evaluate_s: 0.0,
                })
                .unwrap();
                let path = path(rtt, rate, 0.0);
                let transport = transport.parse().unwrap();
                let predicted = theory.predict(&transport, &path, &workload).unwrap();
                let up = fixed + setup * predicted.parts.setup_s;
                samples.push(Sample {
                    seconds: up + run * (predicted.seconds - predicted.parts.setup_s),
                    setup_s: Some(up),
                    path,
                    workload,
                    transport,
                    is_cut: false,
                    cell: format!("{rtt} {rate} {bytes}"),
                    // One in four, of every round-trip time, rate and size.
                    is_held_out: samples.len() % 4 == (samples.len() / 4) % 4,
                });
            }
        }
    }
    samples
}

#[test]
fn a_fit_finds_what_was_put_in_and_holds_on_unseen_cells() {
    let mut runs = samples("quic", (0.02, 1.5, 1.25));
    runs.extend(samples("tcp", (0.0, 1.0, 1.0)));
    let model = fit("made up", &runs).unwrap();
    assert_eq!(
        (
            model.runs().name.as_str(),
            model.runs().runs,
            model.runs().cells
        ),
        ("made up", 120, 60)
    );
    assert!(
        (8..25).contains(&model.runs().held_out_cells),
        "{:?}",
        model.runs()
    );
    for (spec, fitted) in model.transports() {
        let unseen = fitted.held_out.unwrap();
        assert!(fitted.fit.median_error < 0.03, "{spec}: {:?}", fitted.fit);
        assert!(
            unseen.median_error < 0.03 && unseen.r2 > 0.98,
            "{spec}: {unseen:?}"
        );
        let (setup, fixed) = match spec.as_str() {
            "quic" => (1.5, 0.02),
            _ => (1.0, 0.0),
        };
        assert!(
            (fitted.factors.setup - setup).abs() < 0.15,
            "{spec}: {:?}",
            fitted.factors
        );
        assert!(
            (fitted.factors.fixed_s - fixed).abs() < 0.005,
            "{spec}: {:?}",
            fitted.factors
        );
    }
}

#[test]
fn what_was_fitted_of_a_transport_serves_for_its_other_congestion_controls() {
    let model = fit("one", &samples("tcp-striped:cc=bbr", (0.5, 1.0, 1.0))).unwrap();
    let predict = |name: &str| {
        let work = Workload::transfer(End::Listener, 1000).unwrap();
        let spec = name.parse().unwrap();
        model.predict(&spec, &path(0.01, 1e8, 0.0), &work).unwrap()
    };
    // As slow to set up, but less sure.
    let (known, other) = (predict("tcp-striped:cc=bbr"), predict("tcp-striped"));
    assert!(
        (other.parts.setup_s - known.parts.setup_s).abs() < 1e-9,
        "{other:?}"
    );
    assert!(other.sigma_model > known.sigma_model);
    assert!(predict("tcp").parts.setup_s < 0.5 * known.parts.setup_s);
}

#[test]
fn the_congestion_control_decides_whose_runs_they_are() {
    // A kernel whose default is bbr: `tcp` is what its settings say, and bbr without any.
    let with = |transport: &str, factors| {
        let mut runs = samples(transport, factors);
        for run in &mut runs {
            run.path.kernel.congestion_control = Some("bbr".to_owned());
        }
        runs
    };
    let mut runs = with("tcp:cc=cubic", (0.0, 1.0, 1.0));
    runs.extend(with("tcp:cc=bbr", (0.02, 1.0, 1.0)));
    let model = fit("two", &runs).unwrap();
    let names: Vec<&str> = model.transports().map(|(spec, _)| spec.as_str()).collect();
    assert_eq!(names, ["tcp", "tcp:cc=bbr"]);
    let work = Workload::transfer(End::Listener, 2_000_000).unwrap();
    let mut lossy = path(0.1, 1e8, 0.01);
    lossy.kernel.congestion_control = Some("bbr".to_owned());
    let seconds = |name: &str| {
        let spec = name.parse().unwrap();
        model.predict(&spec, &lossy, &work).unwrap().seconds
    };
    assert!(seconds("tcp:cc=cubic") > 2.0 * seconds("tcp:cc=bbr"));
    assert_eq!(seconds("tcp"), seconds("tcp:cc=bbr"));
    // Each has the shape of its own law, as far as it is found by fitting.
    let loss = |place: usize| model.transports().nth(place).unwrap().1.shape.loss;
    assert!(loss(0) > 0.5 && loss(1) < 0.2, "{} {}", loss(0), loss(1));
}

#[test]
fn the_order_of_runs_does_not_matter_and_outliers_matter_little() {
    let runs = samples("rudp", (0.04, 1.0, 1.1));
    let model = fit("a", &runs).unwrap();
    let mut turned = runs.clone();
    turned.reverse();
    assert_eq!(fit("a", &turned).unwrap(), model);

    let mut spoilt = runs;
    for run in spoilt.iter_mut().step_by(10) {
        run.seconds *= 8.0;
    }
    let (_, fitted) = {
        let model = fit("b", &spoilt).unwrap();
        model
            .transports()
            .map(|(s, f)| (s.clone(), f.clone()))
            .next()
            .unwrap()
    };
    assert!(fitted.fit.median_error < 0.1, "{:?}", fitted.fit);
    assert!(fitted.fit.p95_error > 0.5);
}

#[test]
fn a_run_that_was_cut_is_a_lower_bound() {
    let mut runs = samples("tcp", (0.0, 1.0, 1.0));
    // Ended long before they were done: they must not make the model faster.
    for run in runs.iter_mut().filter(|run| run.seconds > 2.0) {
        (run.seconds, run.is_cut) = (1.0, true);
    }
    let model = fit("cut", &runs).unwrap();
    let (_, fitted) = model.transports().next().unwrap();
    assert!(fitted.fit.median_error < 0.03, "{:?}", fitted.fit);
    assert!(
        (fitted.factors.carriage - 1.0).abs() < 0.05,
        "{:?}",
        fitted.factors
    );
}

#[test]
fn runs_of_one_cell_stay_together() {
    let mut runs = samples("tcp", (0.0, 1.0, 1.0));
    runs.extend(samples("quic", (0.0, 1.0, 1.0)));
    fit("together", &runs).unwrap();
    let last = runs.last_mut().unwrap();
    last.is_held_out ^= true;
    let cell = last.cell.clone();
    let error = fit("apart", &runs).unwrap_err();
    assert!(
        matches!(&error, SelectError::Split { cell: found } if *found == cell),
        "{error}"
    );
}

#[test]
fn what_is_held_out_does_not_change_the_fit() {
    let runs = samples("rudp", (0.04, 1.0, 1.1));
    let model = fit("true", &runs).unwrap();
    let mut spoilt = runs;
    for run in spoilt.iter_mut().filter(|run| run.is_held_out) {
        run.seconds *= 3.0;
    }
    let other = fit("true", &spoilt).unwrap();
    let of = |model: &Model| model.transports().next().unwrap().1.clone();
    let (model, other) = (of(&model), of(&other));
    assert_eq!(
        (model.factors, model.shape, model.fit),
        (other.factors, other.shape, other.fit)
    );
    assert!(other.held_out.unwrap().median_error > model.held_out.unwrap().median_error);
}

#[test]
fn too_little_or_wrong_is_refused() {
    let runs = samples("tcp", (0.0, 1.0, 1.0));
    let error = fit("few", &runs[..MIN_SAMPLES / 2]).unwrap_err();
    assert!(
        matches!(
            error,
            SelectError::TooFewSamples {
                expected: MIN_SAMPLES,
                ..
            }
        ),
        "{error}"
    );
    assert!(fit("none", &[]).is_err());
    for seconds in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
        let mut wrong = runs.clone();
        wrong[0].seconds = seconds;
        assert!(fit("wrong", &wrong).is_err());
    }
}

#[test]
fn goodness_is_counted_right() {
    let good = Goodness::of(&[(1.0, 1.0), (2.2, 2.0), (3.0, 4.0)]);
    assert_eq!(good.runs, 3);
    assert!((good.median_error - 0.1).abs() < 1e-12);
    assert!(
        (good.r2 - (1.0 - 1.04 / (14.0 / 3.0))).abs() < 1e-4,
        "{good:?}"
    );
    assert_eq!(Goodness::of(&[]).runs, 0);
}

#[test]
fn models_come_back_from_files_and_damaged_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.json");
    let model = fit("made up", &samples("tcp", (0.0, 1.0, 1.0))).unwrap();
    model.save(&file).unwrap();
    assert_eq!(Model::load(&file).unwrap(), model);

    let text = model.to_json();
    for (from, to, part) in [
        ("\"format\": 1", "\"format\": 9", "format 9"),
        ("\"carriage\"", "\"carriag\"", "carriag"),
        ("\"tcp\"", "\"t c p\"", "t c p"),
        ("\"loss\": ", "\"loss\": -", "loss"),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&file, text.replace(from, to)).unwrap();
        let error = Model::load(&file).unwrap_err().to_string();
        assert!(
            error.contains("model.json") && error.contains(part),
            "{error}"
        );
    }
    assert!(matches!(
        Model::load(&folder.path().join("none")),
        Err(SelectError::File { .. })
    ));
}

#[test]
fn the_shipped_model_names_its_runs() {
    let text = include_str!("../model/default.json");
    let shipped = Model::from_json(text, "default.json").unwrap();
    assert_eq!(&shipped, Model::shipped());
    assert!(!shipped.runs().name.is_empty());
    assert!(shipped.runs().runs > 0 && shipped.transports().count() >= 4);
}

const NOW: u64 = 1_800_000_000_000;

fn measured(rtt: f64, when: u64) -> PathEstimate {
    PathEstimate {
        when_unix_ms: Some(when),
        source: Source::Measured,
        udp: Udp::Passes,
        ..path(rtt, 1e8, 0.0)
    }
}

#[test]
fn a_cached_path_is_used_while_it_is_fresh_and_the_same() {
    let mut cache = Cache::default();
    cache.put("sha256:aa", "10.0.0.1:7700", &measured(0.1, NOW));
    let get = |rtt, now| cache.get("sha256:aa", "10.0.0.1:7700", rtt, now);
    let fresh = get(0.1, NOW).unwrap();
    assert_eq!(
        (fresh.source, fresh.up.rate.unwrap().relative_error),
        (Source::Cached, 0.0)
    );
    let fresh_ms = FRESH_FOR.as_millis() as u64;
    let old = get(0.095, NOW + fresh_ms).unwrap();
    assert!(old.up.rate.unwrap().relative_error > 0.2);
    assert_eq!(old.rtt.min_s, 0.095);
    let counted = |path: &PathEstimate| path.up.loss.unwrap().sent();
    assert_eq!(counted(&old), counted(&fresh) / 2);
    assert!(get(0.1, NOW + fresh_ms + 1).is_none());
    assert!(get(0.1, NOW - 1).is_none(), "a clock that was set");
    assert!(
        get(0.2, NOW).is_none() && get(f64::NAN, NOW).is_none(),
        "another path"
    );
    assert!(cache.get("sha256:bb", "10.0.0.1:7700", 0.1, NOW).is_none());

    let mut blocked = measured(0.1, NOW);
    blocked.udp = Udp::Blocked;
    cache.put("sha256:aa", "10.0.0.1:7700", &blocked);
    assert_eq!(
        cache
            .get("sha256:aa", "10.0.0.1:7700", 0.1, NOW)
            .unwrap()
            .udp,
        Udp::Unknown
    );
}

#[test]
fn caches_are_bounded_and_survive_files_that_are_damaged() {
    let mut cache = Cache::default();
    for i in 0..1000 {
        cache.put("peer", &format!("address {i}"), &measured(0.1, NOW + i));
    }
    assert_eq!(cache.len(), 256);
    assert!(
        cache.get("peer", "address 0", 0.1, NOW + 1000).is_none(),
        "the oldest go first"
    );
    assert!(cache.get("peer", "address 999", 0.1, NOW + 1000).is_some());
    cache.put(&"x".repeat(1000), "y", &measured(0.1, NOW));
    cache.put("no time", "y", &path(0.1, 1e8, 0.0));
    assert!(cache.get("no time", "y", 0.1, NOW).is_none());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("paths.json");
    assert!(Cache::load(&file).is_empty());
    cache.save(&file).unwrap();
    assert_eq!(Cache::load(&file).len(), 256);
    let text = std::fs::read_to_string(&file).unwrap();
    for damaged in [
        &text[..text.len() / 2],
        "",
        "{}",
        "\0\0",
        "{\"format\":2,\"paths\":{}}",
    ] {
        std::fs::write(&file, damaged).unwrap();
        assert!(Cache::load(&file).is_empty());
    }
}
