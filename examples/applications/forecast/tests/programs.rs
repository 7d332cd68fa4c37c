//! Tests of the program, with each party as a separate process and with both in one process.

use std::error::Error;

use clap::Parser;
use serde_json::Value;

use super::{
    processes::{Keys, text},
    protocols::block_on,
};
use crate::args::Args;

/// Runs the program in this process and prints its output.
pub(super) async fn run(arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    for line in output(&arguments).await? {
        println!("{line}");
    }
    Ok(())
}

async fn output<T: AsRef<str>>(arguments: &[T]) -> Result<Vec<String>, Box<dyn Error>> {
    let arguments = arguments.iter().map(AsRef::as_ref);
    crate::run(Args::try_parse_from(
        ["forecast"].into_iter().chain(arguments),
    )?)
    .await
}

/// Runs both parties in this process. Checks that both report the same result, and returns it.
fn value(arguments: &[&str]) -> String {
    let lines = block_on(output(&[arguments, &["--json"]].concat())).unwrap();
    assert_eq!(lines.len(), 2);
    let [one, other] = [0, 1].map(|i| serde_json::from_str::<Value>(&lines[i]).unwrap());
    assert_eq!(one["value"], other["value"]);
    assert_eq!([&one["role"], &other["role"]], ["garbler", "evaluator"]);
    one["value"].as_str().unwrap_or("none").to_owned()
}

fn refusal(arguments: &[&str]) -> String {
    block_on(output(arguments)).unwrap_err().to_string()
}

#[test]
fn two_processes_divide_in_every_way() {
    let keys = Keys::new();
    for approach in ["circuit", "fast", "newton"] {
        let arguments = |role, x, y| {
            vec![
                "divide",
                "--role",
                role,
                "--approach",
                approach,
                "--width",
                "16",
                "--signed",
                "--dividend",
                x,
                "--divisor",
                y,
                "--key-bits",
                "512",
                "--transport",
                "tcp",
                "--json",
            ]
        };
        // -700 / 28
        let garbler = arguments("garbler", "-100000", "31");
        let evaluator = arguments("evaluator", "99300", "-3");
        for (first, second) in [(&garbler, &evaluator), (&evaluator, &garbler)] {
            for ended in keys.meet(first, second) {
                assert!(ended.status.success(), "{}", ended.stderr);
                let output = ended.json();
                let quotient: i64 = output["quotient"].as_str().unwrap().parse().unwrap();
                assert!(
                    (quotient - (-25 << 16)).abs() <= i64::from(approach == "newton"),
                    "{output}"
                );
                assert_eq!(output["approach"], approach);
                assert!(output["bytes"]["sent"].as_u64().unwrap() > 100, "{output}");
                let seconds = |name: &str| output["seconds"][name].as_f64().unwrap();
                assert!(seconds("total") >= seconds("online"), "{output}");
            }
        }
    }
}

#[test]
fn both_processes_fail_if_their_parameters_differ() {
    let keys = Keys::new();
    for approach in ["circuit", "fast"] {
        let arguments = |role, width| {
            vec![
                "divide",
                "--role",
                role,
                "--approach",
                approach,
                "--width",
                width,
                "--sample",
                "small",
                "--transport",
                "tcp",
                "--key-bits",
                "512",
            ]
        };
        for ended in keys.meet(&arguments("garbler", "16"), &arguments("evaluator", "17")) {
            // `complaint` panics unless the party failed with an error message.
            ended.complaint();
        }
    }
}

#[test]
fn series_are_split_and_averaged() {
    let keys = Keys::new();
    let file = |name: &str| text(&keys.file(name));
    let [series, a, b, weights, v, w] = ["series", "a", "b", "weights", "v", "w"].map(file);
    std::fs::write(&series, "9\n120\n-80\n100\n").unwrap();
    std::fs::write(&weights, "2\n3\n5\n").unwrap();
    let split = |from: &str, one: &str, other: &str| {
        let arguments = [
            "split", "--width", "12", "--signed", "--values", from, "--out", one, other,
        ];
        block_on(output(&arguments)).unwrap();
    };
    split(&series, &a, &b);
    split(&weights, &v, &w);
    let average = |more: &[&str]| {
        let common = [
            "average", "--width", "12", "--signed", "--values", &a, "--values", &b,
        ];
        value(&[&common, more].concat())
    };
    for approach in ["circuit", "fast"] {
        let way = ["--approach", approach, "--key-bits", "256"];
        let average = |more: &[&str]| average(&[&way, more].concat());
        assert_eq!(average(&[]), "37.250000");
        assert_eq!(average(&["--periods", "3"]), "46.666656");
        assert_eq!(average(&["--weights", "0.2,0.3,0.5"]), "50.000000");
        assert_eq!(average(&["--weights", "2,3,5", "--fraction", "0"]), "50");
        assert_eq!(
            average(&["--observations", "7", "--observations", "1"]),
            "18.625000"
        );
        assert_eq!(
            average(&["--observations", "7", "--observations", "-7"]),
            "none"
        );
    }
    let newton = average(&[
        "--approach",
        "newton",
        "--key-bits",
        "256",
        "--periods",
        "2",
    ]);
    assert!(
        ["9.999984", "10.000000", "10.000015"].contains(&newton.as_str()),
        "{newton}"
    );
    let weighted = [
        "--weight-shares",
        &v,
        "--weight-shares",
        &w,
        "--weight-width",
        "12",
    ];
    assert_eq!(
        average(&[&weighted[..], &["--periods", "3"]].concat()),
        "50.000000"
    );
}

#[test]
fn two_processes_average_with_split_weights() {
    let keys = Keys::new();
    let file = |name: &str, content: &str| {
        let path = keys.file(name);
        std::fs::write(&path, content).unwrap();
        text(&path)
    };
    // The values are 10, 20 and 40, the weights 1, 0 and 3.
    let parties = [
        (
            "garbler",
            file("a", "3\n-5\n100\n"),
            file("v", "1\n200\n3\n"),
        ),
        (
            "evaluator",
            file("b", "7\n25\n-60\n"),
            file("w", "0\n-200\n0\n"),
        ),
    ];
    let [garbler, evaluator] = parties.each_ref().map(|(role, values, weights)| {
        vec![
            "average",
            "--role",
            role,
            "--values",
            values,
            "--weight-shares",
            weights,
            "--fraction",
            "2",
            "--json",
        ]
    });
    for ended in keys.meet(&garbler, &evaluator) {
        assert!(ended.status.success(), "{}", ended.stderr);
        assert!(
            ended.stdout.contains(r#""value":"32.500000""#),
            "{}",
            ended.stdout
        );
    }
}

#[test]
fn gates_are_listed_with_those_of_the_paper() {
    let lines = block_on(output(&["gates", "--json"])).unwrap();
    let tables: Value = serde_json::from_str(&lines[0]).unwrap();
    let line = |table: &str, width: u64| {
        let lines = tables[table].as_array().unwrap().iter();
        lines
            .clone()
            .find(|line| line["width"] == width)
            .unwrap()
            .clone()
    };
    assert_eq!(line("multiplication", 64)["paper"], 24_902);
    assert_eq!(line("division", 28)["paper"], 16_665);
    assert!(line("division", 128)["paper"].is_null());
    assert!(line("division", 128)["signed"]["and"].as_u64().unwrap() > 20_000);
    let text = block_on(output(&["gates"])).unwrap();
    assert_eq!(
        text.iter()
            .filter(|line| line.trim_start().starts_with("128 "))
            .count(),
        2
    );
}

#[test]
fn invalid_arguments_are_rejected() {
    for (arguments, fragment) in [
        (
            &["divide", "--dividend", "1", "--divisor", "2"][..],
            "twice without --role",
        ),
        (
            &["divide", "--width", "1", "--sample", "small"],
            "not between 2 and 512",
        ),
        (
            &["divide", "--width", "513", "--sample", "small"],
            "not between 2 and 512",
        ),
        (
            &["divide", "--dividend", "x", "--divisor", "1"],
            "expected a whole number",
        ),
        (&["divide"], "--sample"),
        (
            &["divide", "--sample", "small", "--approach", "faster"],
            "expected circuit, fast or newton",
        ),
        (
            &[
                "divide",
                "--sample",
                "small",
                "--approach",
                "fast",
                "--key-bits",
                "1000",
            ],
            "a multiple of 64",
        ),
        (
            &[
                "divide",
                "--sample",
                "small",
                "--approach",
                "newton",
                "--width",
                "256",
            ],
            "a key of at least 1040 bits",
        ),
        (
            &["average", "--values", "no such file", "--values", "x"],
            "no such file",
        ),
    ] {
        let error = refusal(arguments);
        assert!(error.contains(fragment), "{arguments:?}: {error}");
    }
    let huge = (1_u128 << 127).to_string();
    let long = [
        "divide",
        "--dividend",
        &huge,
        "--dividend",
        "1",
        "--divisor",
        "1",
        "--divisor",
        "1",
    ];
    assert!(refusal(&long).contains("a share of 128 bits, expected at most 96"));
}
