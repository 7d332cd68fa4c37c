//! Tests of valid and invalid plan files.

use std::collections::BTreeSet;

use proptest::prelude::*;
use transpute_netem::config_file::ConfigFileError;

use super::{Form, Plan, PlanError, ProgramCell};

const PLAN: &str = r#"
    title = "Sums"

    [[experiment]]
    name = "width"
    scenario = ["eu-us", "near.toml"]
    rtt_ms = [10, 100.5]
    loss = [0, 0.01]
    a = "sums {width} {way} {repetition}"
    b = "echo '{\"x\":1}' ${width} {width}"
    time_limit_s = 1.5
    [experiment.variables]
    width = [8, 16, 32]
    way = ["circuit", "fast", true]
    [experiment.quick]
    scenario = "near.toml"
    repetitions = 1
    variables = { width = [8] }

    [[experiment]]
    name = "plain"
    scenario = "lan"
    rate_mbit = [10]
    congestion_control = ["cubic"]
    a = "true"
    b = "true"
"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("near.toml"), "rtt_ms = 2").unwrap();
    folder
}

fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(text, "sums.toml", folder().path())
}

#[test]
fn experiments_multiply() {
    let plan = parse(PLAN).unwrap();
    assert_eq!(plan.title, "Sums");
    let cells = plan.cells(Form::Full);
    assert_eq!(cells.len(), 2 * 2 * 2 * 3 * 3 + 1);
    let names: Vec<_> = cells.iter().map(ToString::to_string).collect();
    assert_eq!(names[0], "width/eu-us,rtt=10,loss=0/way=circuit,width=8");
    assert_eq!(names[1], "width/eu-us,rtt=10,loss=0/way=circuit,width=16");
    assert_eq!(
        names[71],
        "width/near,rtt=100.5,loss=0.01/way=true,width=32"
    );
    assert_eq!(names[72], "plain/lan,rate=10,cc=cubic");
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    let last = &cells[71];
    assert_eq!(
        last.commands_of(4),
        ["sums 32 true 4", "echo '{\"x\":1}' ${width} 32"]
    );
    assert_eq!(
        (last.scenario.rtt_ms(), last.scenario.up.loss),
        (100.5, 0.01)
    );
    assert_eq!((last.repetitions, last.time_limit.as_millis()), (5, 1500));
    assert_eq!(cells[72].time_limit.as_secs(), 300);
    assert_eq!(cells[72].scenario.down.rate_mbit, Some(10.0));
}

#[test]
fn the_quick_form_keeps_what_it_does_not_name() {
    let cells = parse(PLAN).unwrap().cells(Form::Quick);
    // The first experiment keeps two round-trip times, two losses and three methods.
    assert_eq!(cells.len(), 2 * 2 * 3 + 1);
    assert_eq!(
        cells[0].name(),
        "width/near,rtt=10,loss=0/way=circuit,width=8"
    );
    assert_eq!((cells[0].repetitions, cells[12].repetitions), (1, 5));
    assert_eq!(cells[0].time_limit.as_millis(), 1500);
}

#[test]
fn cells_are_named_by_the_starts_of_their_names() {
    let cells = parse(PLAN).unwrap().cells(Form::Full);
    let named = |text: &str| cells.iter().filter(|cell| cell.is_named(text)).count();
    assert_eq!(named("width"), 72);
    assert_eq!(named("width/eu-us"), 36);
    assert_eq!(named("width/eu-us,rtt=10"), 18);
    assert_eq!(named("width/eu-us,rtt=10,loss=0/way=fast,width=8"), 1);
    assert_eq!(
        (named("wid"), named("width/eu-us,rtt=1"), named("")),
        (0, 0, 0)
    );
}

/// Returns the text of a plan with one experiment that contains these fields.
fn experiment(fields: &str) -> String {
    format!(
        "title = \"x\"\n[[experiment]]\nname = \"e\"\nscenario = \"lan\"\na = \"true\"\n\
         b = \"echo {{n}}\"\nvariables = {{ n = [1] }}\n{fields}"
    )
}

fn refused(text: &str, fragment: &str) {
    let error = parse(text).unwrap_err().to_string();
    assert!(error.contains(fragment), "{text}\n{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn wrong_fields_are_told_with_their_place() {
    assert!(parse(&experiment("")).is_ok());
    for (fields, fragment) in [
        ("rtt = [1]", "sums.toml:8: unknown field `rtt`"),
        (
            "[experiment.quick]\na = \"x\"",
            "sums.toml:9: unknown field `a`",
        ),
        ("rtt_ms = 1", "sums.toml:8: wrong type"),
        ("rtt_ms = []", "sums.toml: e: rtt_ms: the list is empty"),
        ("loss = [0.1, 0.1]", "e: loss: the list has a value twice"),
        ("loss = [2]", "e: lan,loss=2: up.loss: 2 is not"),
        ("rtt_ms = [nan]", "lan,rtt=NaN"),
        ("quick = { loss = [] }", "e: quick.loss: the list is empty"),
        (
            "quick = { variables = { m = [1] } }",
            "e: quick.variables.m: none of",
        ),
        (
            "quick = { scenario = [] }",
            "e: quick.scenario: the list is empty",
        ),
        ("repetitions = 0", "e: repetitions: 0 is not between 1 and"),
        ("repetitions = -1", "sums.toml:8: invalid value"),
        ("time_limit_s = 0", "e: time_limit_s: 0 is not"),
        ("time_limit_s = inf", "e: time_limit_s: inf is not"),
        ("time_limit_s = nan", "e: time_limit_s: NaN is not"),
    ] {
        refused(&experiment(fields), fragment);
    }
    refused("", "sums.toml:1: missing field `title`");
    refused("title = \"x\"", "sums.toml: experiment: there is none");
    let again = experiment("").replace("title = \"x\"", "");
    refused(
        &(experiment("") + &again),
        "e: name: two experiments have it",
    );
}

#[test]
fn wrong_values_are_told_with_their_place() {
    for (from, to, fragment) in [
        ("n = [1]", "n = [1], m = [2]", "e: variables.m: no command"),
        (
            "n = [1]",
            "n = [[1]]",
            "sums.toml:7: wrong type: found a list, expected a number",
        ),
        ("n = [1]", "n = [inf]", "sums.toml:7: a number that is"),
        ("n = [1]", "n = []", "e: variables.n: the list is empty"),
        (
            "n = [1]",
            "n = [1, '1']",
            "e: variables.n: the list has a value",
        ),
        (
            "\"lan\"",
            "['lan', 'lan']",
            "e: scenario: the list has a value",
        ),
        (
            "\"lan\"",
            "['near.toml', './near.toml']",
            "e: scenario: the list has a",
        ),
        ("n = [1]", "N = [1]", "e: b: {n} is none of its variables"),
        (
            "n = [1]",
            "n = [1], N = [1]",
            "e: variables.N: the name of a variable",
        ),
        (
            "n = [1]",
            "n = [1], repetition = [1]",
            "e: variables.repetition: {repetition} is",
        ),
        ("true", "true {way}", "e: a: {way} is none of its variables"),
        ("true", " ", "e: a: a command of 1 to"),
        ("\"e\"", "\"e/f\"", "experiment \"e/f\": name: "),
        (
            "\"lan\"",
            "\"nowhere\"",
            "sums.toml: e: unknown scenario \"nowhere\"",
        ),
        (
            "\"lan\"",
            "\"no.toml\"",
            "no.toml: cannot read the scenario",
        ),
        (
            "\"lan\"",
            "3",
            "sums.toml:4: wrong type: found the number `3`, expected a name or a list",
        ),
    ] {
        refused(&experiment("").replace(from, to), fragment);
    }
}

#[test]
fn what_is_too_much_is_refused_before_it_is_multiplied_out() {
    let list = (0..300).map(|n| n.to_string()).collect::<Vec<_>>();
    let list = list.join(",");
    let variables: String = ('a'..='z')
        .map(|name| format!("{name} = [{list}]\n"))
        .collect();
    let names: String = ('a'..='z').map(|name| format!("{{{name}}}")).collect();
    refused(
        &format!(
            "title = \"x\"\n[[experiment]]\nname = \"e\"\nscenario = \"lan\"\na = \"true\"\n\
             b = \"echo {names}\"\n[experiment.variables]\n{variables}"
        ),
        "combinations, more than 20000",
    );
    let folder = folder();
    let path = folder.path().join("long.toml");
    std::fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
    assert!(matches!(
        Plan::open(&path),
        Err(PlanError::File(ConfigFileError::Syntax { line: 1, .. }))
    ));
    let missing = Plan::open(&folder.path().join("missing.toml"));
    assert!(matches!(
        missing,
        Err(PlanError::File(ConfigFileError::Read { .. }))
    ));
    std::fs::write(&path, PLAN).unwrap();
    assert_eq!(Plan::open(&path).unwrap().folder, folder.path());
}

proptest! {
    #[test]
    fn a_spoiled_plan_is_read_or_refused(
        at in 0..PLAN.len(),
        length in 0_usize..40,
        text in "[ -~\n]{0,12}",
    ) {
        let end = (at + length).min(PLAN.len());
        let spoiled = format!("{}{text}{}", &PLAN[..at], &PLAN[end..]);
        match parse(&spoiled) {
            // A valid plan has at least one cell, and no cell twice.
            Ok(plan) => {
                let names: Vec<_> = plan.cells(Form::Full).iter().map(ProgramCell::name).collect();
                prop_assert!(!names.is_empty());
                prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
            }
            Err(error) => prop_assert!(error.to_string().starts_with("sums.toml")),
        }
    }

    #[test]
    fn commands_hold_the_values_of_their_cell(
        width in any::<i64>(), way in "[a-z {}$]{0,12}", before in "[ -&(-z]{0,8}",
    ) {
        // These characters would change the placeholder after them.
        prop_assume!(!before.contains(['$', '{']));
        let plan = experiment(&format!("[experiment.quick]\nvariables = {{ n = [{width}] }}"))
            .replace("n = [1]", &format!("n = [{width}], way = ['{way}']"))
            .replace("\"echo {n}\"", &format!("'''{before}{{n}} {{way}}'''"));
        let plan = parse(&plan).unwrap();
        let [_, command] = plan.cells(Form::Full)[0].commands_of(0);
        prop_assert_eq!(command, format!("{before}{width} {way}"));
    }
}
