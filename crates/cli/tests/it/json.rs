//! Checks that docs/json.md lists the fields that commands print.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::harness::{CIPHERTEXT, KEY, KEYS, PLAINTEXT, Party, Process, aes, meet, transpute};

const DOCUMENT: &str = include_str!("../../../../docs/json.md");

/// A section's fields, each with the section that its type links to.
type Section = Vec<(String, Option<String>)>;

/// Returns the field tables of docs/json.md by the heading of their section.
fn sections() -> BTreeMap<String, Section> {
    let mut sections: BTreeMap<String, Section> = BTreeMap::new();
    let mut heading = String::new();
    for line in DOCUMENT.lines() {
        if let Some(text) = line.strip_prefix("## ") {
            text.clone_into(&mut heading);
        }
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(field), Some(kind)) = (cells.next(), cells.next()) else {
            continue;
        };
        let Some(field) = field
            .strip_prefix('`')
            .and_then(|field| field.strip_suffix('`'))
        else {
            continue;
        };
        let link =
            (kind.strip_prefix('[')).and_then(|kind| Some(kind.split_once(']')?.0.to_owned()));
        (sections.entry(heading.clone()).or_default()).push((field.to_owned(), link));
    }
    sections
}

/// Returns the documented fields of a section, with those of the sections that it links to.
fn documented(sections: &BTreeMap<String, Section>, name: &str) -> BTreeSet<String> {
    let section = sections
        .get(name)
        .unwrap_or_else(|| panic!("no section {name}"));
    let mut fields = BTreeSet::new();
    for (field, link) in section {
        match link {
            None => assert!(
                fields.insert(field.clone()),
                "{name}: {field} is there twice"
            ),
            Some(link) => {
                let inner = documented(sections, link);
                fields.extend(inner.iter().map(|inner| format!("{field}.{inner}")));
            }
        }
    }
    fields
}

/// The fields of JSON objects.
#[derive(Default)]
struct Fields {
    /// Fields whose value is neither an object nor a list of objects.
    values: BTreeSet<String>,
    /// Fields whose value is `null` or an empty list.
    empty: BTreeSet<String>,
}

impl Fields {
    fn add(&mut self, path: &str, value: &Value) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    let separator = if path.is_empty() { "" } else { "." };
                    self.add(&format!("{path}{separator}{key}"), value);
                }
            }
            Value::Array(list) if list.iter().any(holds_objects) => {
                for value in list {
                    self.add(&format!("{path}[]"), value);
                }
            }
            Value::Array(list) if list.is_empty() => drop(self.empty.insert(path.to_owned())),
            Value::Null => drop(self.empty.insert(path.to_owned())),
            _ => drop(self.values.insert(path.to_owned())),
        }
    }
}

fn holds_objects(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(list) => list.iter().any(holds_objects),
        _ => false,
    }
}

/// Compares the fields that a section of docs/json.md lists with those of printed objects.
#[track_caller]
fn check(section: &str, printed: &[&Value]) {
    let documented = documented(&sections(), section);
    let mut fields = Fields::default();
    for value in printed {
        fields.add("", value);
    }
    let is_within = |field: &str, outer: &str| {
        field
            .strip_prefix(outer)
            .is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    for field in &fields.values {
        assert!(
            documented.contains(field),
            "{section}: {field} is not documented"
        );
    }
    for field in &fields.empty {
        let is_known = documented
            .iter()
            .any(|known| known == field || is_within(known, field));
        assert!(is_known, "{section}: {field} is not documented");
    }
    for field in &documented {
        let is_printed = fields.values.contains(field)
            || fields
                .empty
                .iter()
                .any(|empty| empty == field || is_within(field, empty));
        assert!(is_printed, "{section}: {field} was not printed");
    }
}

#[test]
fn the_fields_of_a_run_are_documented() {
    let [garbler, evaluator] = meet_both(&["--scheme", "auto"]);
    assert!(evaluator["scheme_choice"].is_object());
    assert!(evaluator["selection"].is_object() && evaluator["ot_plan"].is_object());
    check("Run", &[&evaluator]);
    check("Run", &[&garbler]);
    let [garbler, evaluator] = meet_both(&["--repeat", "3", "--scheme", "auto"]);
    assert!(evaluator["scheme_choice"].is_object());
    assert_eq!(evaluator["evaluations"][0][0]["hex"], CIPHERTEXT);
    check("Repeat", &[&evaluator]);
    check("Repeat", &[&garbler]);
    let demo = transpute(["demo", "--json"]).expect(0).json();
    check("Demo", &[&demo]);
    let failed = transpute(["demo", "--json", "--circuit", "smoke"])
        .expect(2)
        .json();
    check("Error", &[&failed]);
}

fn meet_both(more: &[&str]) -> [Value; 2] {
    let parties = aes().map(|party| party.and(more.iter().copied()));
    let [garbler, evaluator] = parties;
    meet(garbler, evaluator).map(|party| party.expect(0).json())
}

#[test]
fn the_fields_of_a_probe_are_documented() {
    let [garbler, _] = aes();
    let (_garbler, address) = garbler.listen();
    let identity = KEYS.evaluator.path.to_str().unwrap();
    let probe = [
        "probe",
        &address,
        "--json",
        "--circuit",
        "aes128",
        "--identity",
        identity,
    ];
    let finished = transpute([&probe[..], &["--peer", &KEYS.garbler.fingerprint]].concat());
    check("Probe", &[&finished.expect(0).json()]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_fields_of_a_server_are_documented() {
    let server = |role: &'static str, number: usize, input: &str| {
        let input = format!("{number}={input}");
        let args = [
            "serve",
            "--role",
            role,
            "--circuit",
            "aes128",
            "--json",
            "--plaintext",
        ];
        let mut server =
            Process::start([&args[..], &["--listen", "127.0.0.1:0", "--input", &input]].concat());
        let address = server.listening_on();
        (server, address)
    };
    for (served, role, inputs) in [
        ("garbler", "evaluator", [(0, KEY), (1, PLAINTEXT)]),
        ("evaluator", "garbler", [(1, PLAINTEXT), (0, KEY)]),
    ] {
        let (server, address) = server(served, inputs[0].0, inputs[0].1);
        let party = Party::plaintext(role, "aes128").input(inputs[1].0, inputs[1].1);
        party
            .and(["--repeat", "1"])
            .connect(&address)
            .finish()
            .expect(0);
        let finished = server.interrupt().finish().expect(0);
        let lines: Vec<Value> = (finished.stdout.lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [run, summary] = &lines[..] else {
            panic!("{}", finished.stdout);
        };
        check("Serve run", &[run]);
        check("Serve summary", &[summary]);
    }
}
