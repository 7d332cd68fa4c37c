//! Tests of fits to runs, and of model files.
#![cfg(feature = "serde")]

mod paths;

use serde_json::json;
use transpute_select::{End, FitErrors, MIN_CELLS, Model, Sample, SelectError, Workload, fit};

/// Returns runs whose times a model predicts, multiplied by a factor that differs between runs.
fn samples(transport: &str, model: &Model, noise: f64) -> Vec<Sample> {
    let mut samples = Vec::new();
    for rtt in [0.001, 0.01, 0.05, 0.11, 0.3] {
        for rate in [1e7, 1e8, 1e9] {
            for (bytes, loss) in [
                (20_000, 0.01),
                (211_000, 0.0),
                (2_000_000, 0.001),
                (36_000_000, 0.0),
            ] {
                let workload = Workload {
                    garbler_late_bytes: bytes / 50,
                    evaluator_bytes: 8000,
                    flights: 2,
                    ..Workload::transfer(End::Listener, bytes)
                };
                let path = paths::path(rtt, rate, loss, None);
                let transport = transport.parse().unwrap();
                let predicted = model.predict(&transport, &path, &workload).unwrap();
                let sign = if samples.len() % 2 == 0 { 1.0 } else { -1.0 };
                samples.push(Sample {
                    seconds: predicted.seconds * f64::exp(sign * noise),
                    path,
                    workload,
                    transport,
                    is_cut: false,
                    cell: format!("{rtt} {rate} {bytes}"),
                    // Every fourth run is held out, at every round-trip time, rate and size.
                    is_held_out: samples.len() % 4 == (samples.len() / 4) % 4,
                });
            }
        }
    }
    samples
}

/// Returns a model of `quic` that differs from the theory in every parameter.
fn unlike_theory() -> Model {
    let exactly = |value: f64| json!({ "value": value, "low": value, "high": value });
    let quic = json!({
        "parameters": {
            "setup_s": exactly(6e-3),
            "rate_share": exactly(0.6),
            "byte_s": exactly(4e-9),
            "loss": exactly(0.02),
            "doubling_round_trips": exactly(1.6),
        },
        "sigma": 0.1,
        "fit": { "cells": 0, "median_error": 0.0, "p90_error": 0.0, "r2_log": 0.0 },
    });
    let fitted_to = json!({ "name": "", "runs": 0, "cells": 0, "held_out_cells": 0 });
    let model = json!({ "format": 2, "fitted_to": fitted_to, "transports": { "quic": quic } });
    Model::from_json(&model.to_string(), "made up").unwrap()
}

#[test]
fn a_fit_finds_every_parameter_and_holds_on_unseen_cells() {
    let truth = unlike_theory();
    let (_, expected) = truth.transports.first_key_value().unwrap();
    let model = fit("made up", &samples("quic", &truth, 0.05)).unwrap();
    assert_eq!((model.fitted_to.runs, model.fitted_to.cells), (60, 60));
    assert_eq!(model.fitted_to.held_out_cells, 15);
    let (_, fitted) = model.transports.first_key_value().unwrap();
    let (fit, unseen) = (fitted.fit, fitted.held_out.unwrap());
    assert!(
        fit.median_error < 0.08 && unseen.median_error < 0.1,
        "{fit:?} {unseen:?}"
    );
    assert!((0.03..0.08).contains(&fitted.sigma), "{}", fitted.sigma);
    for ((name, found), (_, truth)) in fitted.parameters.named().zip(expected.parameters.named()) {
        assert!(
            found.low <= truth.value && truth.value <= found.high,
            "{name}: {found:?} {truth:?}"
        );
        assert!(
            found.low < found.value && found.value < found.high,
            "{name}: {found:?}"
        );
    }
    // The rate share determines the time of most runs, so its confidence interval is narrow.
    let share = fitted.parameters.rate_share;
    assert!(share.high / share.low < 1.2, "{share:?}");
}

#[test]
fn a_parameter_that_no_run_tells_about_keeps_the_interval_of_the_prior() {
    let mut clean = samples("rudp", &Model::theory(), 0.02);
    clean.retain(|sample| sample.path.up.known.loss.unwrap().lost() == 0);
    let model = fit("clean", &clean).unwrap();
    let (_, fitted) = model.transports.first_key_value().unwrap();
    let loss = fitted.parameters.loss;
    // The prior has a standard deviation of a factor of two in each direction.
    assert!(loss.high / loss.low > 8.0, "{loss:?}");
    assert!(fitted.parameters.doubling_round_trips.is_none());
}

#[test]
fn the_order_of_runs_does_not_matter() {
    let mut runs = samples("quic", &unlike_theory(), 0.05);
    let model = fit("x", &runs).unwrap();
    runs.reverse();
    assert_eq!(fit("x", &runs).unwrap(), model);
}

#[test]
fn a_cell_that_was_cut_off_counts_as_no_less_than_that() {
    let mut runs = samples("tcp", &Model::theory(), 0.0);
    let slow = |runs: &[Sample]| {
        let model = fit("x", runs).unwrap();
        let (_, fitted) = model.transports.first_key_value().unwrap();
        fitted.parameters.rate_share.value
    };
    let before = slow(&runs);
    for run in &mut runs {
        (run.seconds, run.is_cut) = (run.seconds / 3.0, run.workload.bytes_down() > 1_000_000);
        if !run.is_cut {
            run.seconds *= 3.0;
        }
    }
    // The earlier fit already predicts times above these lower bounds.
    assert!((slow(&runs) / before - 1.0).abs() < 0.05);
}

#[test]
fn too_few_cells_and_wrong_numbers_are_refused() {
    let runs = samples("quic", &Model::theory(), 0.0);
    let few: Vec<Sample> = (runs.iter().filter(|run| !run.is_held_out))
        .take(MIN_CELLS - 1)
        .cloned()
        .collect();
    let error = fit("few", &few).unwrap_err();
    assert!(matches!(error, SelectError::TooFewCells { found: 9, .. }));
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut runs = runs.clone();
        runs[3].seconds = wrong;
        assert!(matches!(fit("x", &runs), Err(SelectError::Number { .. })));
    }
}

#[test]
fn a_model_survives_a_file_and_a_damaged_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.json");
    Model::shipped().save(&file).unwrap();
    assert_eq!(&Model::load(&file).unwrap(), Model::shipped());
    // The built-in model is the fitted one, not the theory that would replace an invalid file.
    assert!(Model::shipped().transports.len() >= 6);
    let text = Model::shipped().to_json();
    for (from, to) in [
        ("\"format\": 2", "\"format\": 1"),
        ("\"value\": ", "\"value\": -"),
        ("\"low\": ", "\"low\": 9"),
        ("\"sigma\"", "\"gamma\""),
        ("\"setup_s\"", "\"set-up\""),
    ] {
        let damaged = text.replacen(from, to, 1);
        assert_ne!(damaged, text, "{from}");
        let error = Model::from_json(&damaged, "here").unwrap_err();
        assert!(error.to_string().starts_with("here: "), "{error}");
    }
    assert!(Model::load(&folder.path().join("none")).is_err());
}

#[test]
fn every_transport_of_the_shipped_model_holds_on_unseen_cells() {
    for (spec, fitted) in &Model::shipped().transports {
        let unseen = fitted.held_out.unwrap();
        assert!(
            unseen.cells > 50 && unseen.r2_log > 0.9,
            "{spec}: {unseen:?}"
        );
    }
}

#[test]
fn goodness_is_that_of_the_definitions() {
    let goodness = FitErrors::of(&[(1.1, 1.0), (2.0, 2.0), (3.6, 4.0)]);
    assert_eq!((goodness.cells, goodness.median_error), (3, 0.1));
    assert_eq!(goodness.p90_error, 0.1);
    assert!(goodness.r2_log > 0.97);
}
