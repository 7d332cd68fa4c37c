//! Both parties, as processes and in one, beside the same in the clear.

use std::{error::Error, fs};

use clap::Parser;
use proptest::{collection::vec, prelude::*};
use transpute::{Bits, Program, Role, select::End};

use crate::{
    Cli, apriori,
    file::{Shares, read_answers, write_answers},
    generate,
    histogram::{Bars, TAG_BITS},
    itemsets::{self, Frequent, Search},
    support::{self, Opened},
    table::{Table, width_of},
    tally,
};

#[path = "../processes.rs"]
mod processes;

use processes::{Ended, Keys, act, text};

/// No test: the process that others start.
#[test]
#[ignore = "other tests start it"]
fn party_process() {
    act(|arguments| async { run(arguments).await });
}

async fn run(arguments: impl IntoIterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let arguments = ["survey".to_owned()].into_iter().chain(arguments);
    crate::run(Cli::try_parse_from(arguments)?).await
}

/// Runs a command that needs no peer.
fn survey(arguments: &[&str]) -> Result<(), String> {
    let arguments = arguments.iter().map(|&argument| argument.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime.unwrap().block_on(run(arguments));
    outcome.map_err(|error| transpute_examples::causes(&*error))
}

fn table(columns: usize, width: u32, cells: &[u32]) -> Table {
    Table::new(columns, width, cells.to_vec()).unwrap()
}

/// Appends what a party puts into a circuit: columns, and the tag.
fn input(shares: &Shares, columns: impl IntoIterator<Item = u32>, bits: &mut Bits) {
    for column in columns {
        shares.table.append_column(column as usize, bits);
    }
    bits.extend([Bits::from_u128(shares.tag.into(), TAG_BITS)]);
}

/// Evaluates the circuit of a question on fresh shares of it.
fn histogram(bars: &Bars, answers: &[u32]) -> Vec<u64> {
    let shares = generate::share(&table(1, bars.width(), answers)).unwrap();
    let circuit = bars.circuit(answers.len()).unwrap();
    let mut bits = Bits::new();
    shares
        .iter()
        .for_each(|shares| input(shares, [0], &mut bits));
    let outputs = circuit.split_outputs(&circuit.evaluate(&bits).unwrap());
    let numbers: Vec<u64> = outputs
        .iter()
        .map(|bits| bits.to_u128().unwrap() as u64)
        .collect();
    let (tags_agree, counts) = numbers.split_last().unwrap();
    assert_eq!(*tags_agree, 1);
    bars.histogram(counts, answers.len() as u64).unwrap()
}

proptest! {
    #[test]
    fn choices_are_counted_as_in_the_clear(
        choices in 2_u64..20,
        answers in vec(any::<u32>(), 1..60),
    ) {
        let width = width_of(choices);
        let bars = Bars::choices(choices, width).unwrap();
        let answers: Vec<u32> = answers.iter().map(|answer| answer % choices as u32).collect();
        let counted = histogram(&bars, &answers);
        for choice in 0..choices as u32 {
            let equal = answers.iter().filter(|&&answer| answer == choice).count() as u64;
            prop_assert_eq!(counted[choice as usize], equal);
        }
        prop_assert_eq!(&counted, &bars.plain(&table(1, width, &answers), 0));
    }

    #[test]
    fn whatever_is_shared_counts_once(choices in 2_u64..20, answer in any::<u32>()) {
        let bars = Bars::choices(choices, width_of(choices)).unwrap();
        let answer = answer & ((1 << bars.width()) - 1);
        let counted = histogram(&bars, &[answer]);
        prop_assert_eq!(counted.iter().sum::<u64>(), 1);
        prop_assert_eq!(&counted, &bars.plain(&table(1, bars.width(), &[answer]), 0));
    }

    #[test]
    fn ranges_are_counted_as_in_the_clear(
        width in 1_u32..=32,
        answers in vec(any::<u32>(), 1..40),
        bounds in vec(any::<u32>(), 1..8),
    ) {
        let fit = |number: &u32| number & (u32::MAX >> (32 - width));
        let answers: Vec<u32> = answers.iter().map(fit).collect();
        let mut bounds: Vec<u32> = bounds.iter().map(fit).map(|bound| bound.max(1)).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let bars = Bars::ranges(bounds.clone(), width).unwrap();
        let counted = histogram(&bars, &answers);
        let edges: Vec<u64> = [0].into_iter()
            .chain(bounds.iter().map(|&bound| bound.into()))
            .chain([1 << width])
            .collect();
        for (bar, edge) in edges.windows(2).enumerate() {
            let inside = |answer: &&u32| (edge[0]..edge[1]).contains(&u64::from(**answer));
            prop_assert_eq!(counted[bar], answers.iter().filter(inside).count() as u64);
        }
        prop_assert_eq!(&counted, &bars.plain(&table(1, width, &answers), 0));
    }

    #[test]
    fn shares_make_up_the_answers_and_come_back_from_files(
        columns in 1_usize..5,
        width in 1_u32..=32,
        cells in vec(any::<u32>(), 5..40),
    ) {
        let mut cells: Vec<u32> = cells.iter().map(|cell| cell & (u32::MAX >> (32 - width))).collect();
        cells.truncate(cells.len() / columns * columns);
        let answers = table(columns, width, &cells);
        let shares = generate::share(&answers).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let read = shares.each_ref().map(|shares| {
            let file = folder.path().join("shares");
            shares.save(&file).unwrap();
            Shares::open(&file).unwrap()
        });
        prop_assert_eq!(&read, &shares);
        prop_assert_eq!(read[0].tag, read[1].tag);
        let sums = (read[0].table.iter().flatten().zip(read[1].table.iter().flatten()))
            .map(|(one, other)| one ^ other);
        prop_assert_eq!(sums.collect::<Vec<u32>>(), cells);
    }

    #[test]
    fn frequent_sets_are_those_of_all_sets(
        items in 1_usize..7,
        cells in vec(0_u32..2, 7..120),
        threshold in 1_u64..12,
        budget in 1_usize..500,
        opens_supports in any::<bool>(),
    ) {
        let rows = cells.len() / items;
        let baskets = table(items, 1, &cells[..rows * items]);
        let opened = [Opened::Frequent, Opened::Support][usize::from(opens_supports)];
        let search = Search { threshold, opened, largest: 32, most: 1000 };
        // Every set that there is.
        let mut all: Vec<Frequent> = (1_u32..1 << items).filter_map(|set| {
            let members: Vec<u32> = (0..items as u32).filter(|item| set >> item & 1 == 1).collect();
            let has_all = |row: &&[u32]| members.iter().all(|&item| row[item as usize] == 1);
            let support = baskets.iter().filter(has_all).count() as u64;
            (support >= threshold).then(|| Frequent {
                items: members.iter().map(|item| item + 1).collect(),
                support: opens_supports.then_some(support),
            })
        }).collect();
        all.sort_by_key(|one| (one.items.len(), one.items.clone()));
        prop_assert_eq!(&itemsets::plain(&baskets, &search).unwrap(), &all);
        prop_assert_eq!(&by_circuits(&baskets, &search, budget), &all);
    }
}

/// Finds frequent sets with the circuits of each level, evaluated in the clear.
fn by_circuits(baskets: &Table, search: &Search, budget: usize) -> Vec<Frequent> {
    let shares = generate::share(baskets).unwrap();
    let mut frequent = Vec::new();
    let mut candidates = apriori::singles(baskets.columns() as u32);
    while !candidates.is_empty() {
        let mut sets = Vec::new();
        for group in apriori::groups(&candidates, baskets.rows(), budget) {
            let circuit =
                support::circuit(group, baskets.rows(), search.threshold, search.opened).unwrap();
            let mut bits = Bits::new();
            for shares in &shares {
                input(shares, support::items(group), &mut bits);
            }
            let outputs = circuit.split_outputs(&circuit.evaluate(&bits).unwrap());
            for (set, output) in group.iter().zip(&outputs) {
                let opened = output.to_u128().unwrap() as u64;
                if let Some(found) = search.frequent(set, opened) {
                    sets.push(set.clone());
                    let items = set.iter().map(|item| item + 1).collect();
                    frequent.push(Frequent { items, ..found });
                }
            }
        }
        candidates = apriori::larger(&sets, search.most).unwrap();
    }
    frequent
}

#[test]
fn an_answer_to_five_choices_takes_six_and_gates() {
    let and_gates =
        |bars: &Bars, answers| Program::compile(&bars.circuit(answers).unwrap()).and_count();
    let choices = Bars::choices(5, 3).unwrap();
    // Two to tell choices apart; four counts of 1,000 ones less the six ones of its binary notation; the tags.
    assert_eq!(and_gates(&choices, 1000), 2 * 1000 + 4 * (1000 - 6) + 63);
    let ranges = Bars::ranges(vec![51, 102, 153, 204], 8).unwrap();
    assert!(and_gates(&ranges, 1000) < 32 * 1000);
    for (bars, answers) in [(&choices, 1000), (&ranges, 1000)] {
        assert!(and_gates(bars, answers) <= bars.and_gates(answers as u64));
    }
}

#[test]
fn extremes_are_counted() {
    let choices = Bars::choices(5, 3).unwrap();
    assert_eq!(histogram(&choices, &[4]), [0, 0, 0, 0, 1]);
    assert_eq!(histogram(&choices, &[0; 130]), [130, 0, 0, 0, 0]);
    let ranges = Bars::ranges(vec![u32::MAX], 32).unwrap();
    assert_eq!(histogram(&ranges, &[u32::MAX, u32::MAX - 1, 0]), [2, 1]);
    assert_eq!(ranges.name(0), "0..4294967295");
    assert_eq!(ranges.name(1), "4294967295..4294967296");
    let two = Bars::choices(2, 1).unwrap();
    assert_eq!(histogram(&two, &[1, 0, 1]), [1, 2]);
}

#[test]
fn bars_that_are_none_are_refused() {
    for wrong in [
        Bars::choices(1, 1),
        Bars::choices(257, 9),
        Bars::choices(5, 8),
        Bars::ranges(vec![], 8),
        Bars::ranges(vec![0], 8),
        Bars::ranges(vec![256], 8),
        Bars::ranges(vec![7, 7], 8),
        Bars::ranges(vec![9, 7], 8),
        Bars::ranges((1..=256).collect(), 16),
    ] {
        assert!(wrong.is_err(), "{wrong:?}");
    }
    let bars = Bars::choices(3, 2).unwrap();
    assert_eq!(bars.histogram(&[2, 2], 3), None);
    assert_eq!(bars.histogram(&[1], 3), None);
    let ranges = Bars::ranges(vec![1, 2], 2).unwrap();
    assert_eq!(ranges.histogram(&[1, 2], 3), None);
}

#[test]
fn candidates_are_cut_into_groups_in_order() {
    let candidates = apriori::larger(&apriori::singles(9), 100).unwrap();
    assert_eq!(candidates.len(), 36);
    assert_eq!(apriori::larger(&apriori::singles(9), 20), Err(21));
    for budget in [0, 1, 5000, usize::MAX] {
        let groups = apriori::groups(&candidates, 1000, budget);
        assert_eq!(groups.concat(), candidates);
        assert_eq!(groups.len() == 1, budget == usize::MAX);
    }
    assert!(apriori::groups(&[], 1000, 1).is_empty());
}

/// Writes a file and returns what is said of it as a file of shares, without its folder.
fn complaint(content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s");
    fs::write(&file, content).unwrap();
    let error = Shares::open(&file).unwrap_err();
    let text = transpute_examples::causes(&error);
    let prefix = format!("{}/", folder.path().display());
    text.strip_prefix(&prefix).unwrap().to_owned()
}

#[test]
fn a_file_that_holds_no_shares_is_refused_with_its_line() {
    let head = "transpute-shares 1 table=0123456789abcdef columns=2 width=3\n";
    let header = "s:1: expected the first line of a file of shares";
    for (content, expected) in [
        (String::new(), header),
        ("1,2\n".to_owned(), header),
        (head.replace(" 1 ", " 2 "), header),
        (head.replace("columns=2 ", ""), header),
        (head.trim_end().to_owned() + " more=1\n", header),
        (
            head.replace("=0123456789abcdef", "=0123"),
            "s:1: table is \"0123\"; expected 16 hexadecimal digits",
        ),
        (
            head.replace("=0123456789abcdef", "=+123456789abcdef"),
            "s:1: table is \"+123456789abcdef\"; expected",
        ),
        (
            head.replace("=2", "=0"),
            "s:1: columns is \"0\"; expected a number from 1 to 4096",
        ),
        (
            head.replace("=2", "=4097"),
            "s:1: columns is \"4097\"; expected",
        ),
        (
            head.replace("=3", "=33"),
            "s:1: width is \"33\"; expected a number of bits from 1 to 32",
        ),
        (head.replace("=3", "=99999999999999999999"), "s:1: width is"),
        (head.to_owned(), "s: it has no rows"),
        (
            format!("{head}1,2\n1\n"),
            "s:3: 1 cells where the lines before have 2",
        ),
        (
            format!("{head}1,2,3\n"),
            "s:2: 3 cells where the lines before have 2",
        ),
        (format!("{head}1,2\n\n"), "s:3: \"\" is not a number"),
        (format!("{head}1,x\n"), "s:2: \"x\" is not a number"),
        (format!("{head}1,-1\n"), "s:2: \"-1\" is not a number"),
        (format!("{head}1,8\n"), "s:2: 8 is not below 8"),
        (
            format!("{head}1,4294967296\n"),
            "s:2: 4294967296 is not below 8",
        ),
        (
            format!("{head}1,99999999999999999999999\n"),
            "s:2: \"99999999999999999999999\" is not a number",
        ),
        (
            format!("{head}1,{}\n", "x".repeat(1000)),
            "s:2: \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…\" is",
        ),
        (
            format!("{head}{}", "1".repeat(100_000)),
            "s:2: longer than 49154 bytes",
        ),
    ] {
        let said = complaint(content.as_bytes());
        assert!(said.starts_with(expected), "{said:?} is not {expected:?}");
        assert!(!said.contains('\n'));
    }
    assert_eq!(complaint(b"\xff\xfe\n"), "s:1: not a line of text");
    let missing = Shares::open("no such file".as_ref()).unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("no such file: cannot be read")
    );
}

#[test]
fn plain_answers_are_read_with_names_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    let read = |content: &str| {
        fs::write(&file, content).unwrap();
        read_answers(&file, 3, 5).map_err(|error| {
            error
                .to_string()
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned()
        })
    };
    let two = table(2, 3, &[0, 1, 4, 2]);
    assert_eq!(read("0,1\n4, 2\r\n").unwrap(), two);
    assert_eq!(
        read("age,\"income, net\"\n0,1\n").unwrap_err(),
        "a.csv:2: 2 cells where the lines before have 3"
    );
    assert_eq!(read("age,income\n0,1\n4,2").unwrap(), two);
    assert_eq!(read("0,1\n5,2\n").unwrap_err(), "a.csv:2: 5 is not below 5");
    assert_eq!(
        read("age,income\n0,1\n0,7\n").unwrap_err(),
        "a.csv:3: 7 is not below 5"
    );
    assert_eq!(read("age,income\n").unwrap_err(), "a.csv: it has no rows");
    assert_eq!(read("").unwrap_err(), "a.csv: it has no rows");
    let made = generate::answers(10, 3, 5, 1).unwrap();
    write_answers(&file, &made).unwrap();
    assert_eq!(read_answers(&file, 3, 5).unwrap(), made);
}

#[test]
fn a_seed_makes_the_same_data() {
    let make = |seed| {
        (
            generate::answers(50, 4, 5, seed).unwrap(),
            generate::baskets(50, 9, seed).unwrap(),
        )
    };
    assert_eq!(make(3), make(3));
    assert_ne!(make(3), make(4));
    let numbers = generate::answers(200, 2, 1 << 32, 1).unwrap();
    assert_eq!(numbers.width(), 32);
    assert!(generate::answers(0, 3, 5, 1).is_err() && generate::baskets(3, 0, 1).is_err());
}

#[test]
fn what_is_sent_is_what_a_workload_says() {
    let keys = Keys::new();
    let plain = text(&keys.file("answers.csv"));
    survey(&["generate", &plain, "--rows", "900", "--columns", "4"]).unwrap();
    survey(&["split", &plain]).unwrap();
    let ended = meet(
        &keys,
        "histogram",
        &plain,
        &["--choices", "5", "--transport", "tcp", "--json"],
    );
    let [garbler, evaluator] = ended.each_ref().map(Ended::json);
    let bars = Bars::choices(5, 3).unwrap();
    let party = tally::party(Role::Garbler, tally::program(&bars, 900).unwrap(), 4);
    let workload = party.workload(End::Listener).unwrap();
    let sent = |said: &serde_json::Value| said["frame_bytes_sent"].as_f64().unwrap();
    let (predicted, sent) = (
        [workload.bytes_down() as f64, workload.bytes_up() as f64],
        [sent(&garbler), sent(&evaluator)],
    );
    let off = |predicted: f64, sent: f64| (predicted / sent - 1.0).abs();
    assert!(
        off(predicted[0], sent[0]) < 0.01,
        "{predicted:?} predicted, {sent:?} sent"
    );
    // Which transfers the evaluator asks for depends on the path, and with it how long its questions are.
    assert!(
        off(predicted.iter().sum(), sent.iter().sum()) < 0.05,
        "{predicted:?} predicted, {sent:?} sent"
    );
}

/// docs/selection.md works a plan of the survey: by what its circuit is today.
#[test]
fn the_survey_that_is_planned_in_the_documents_is_this_one() {
    let bars = Bars::choices(5, 3).unwrap();
    let party = tally::party(Role::Garbler, tally::program(&bars, 5000).unwrap(), 20);
    let workload = party.workload(End::Listener).unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/selection.md");
    let page = fs::read_to_string(page).unwrap();
    let start = page.find("{\"garbler\":\"listener\"").unwrap();
    let mut planned = serde_json::Deserializer::from_str(&page[start..]).into_iter();
    let planned: serde_json::Value = planned.next().unwrap().unwrap();
    let parts = workload.parts();
    assert_eq!(planned["garbler_bytes"], parts.garbler_bytes);
    assert_eq!(planned["garbler_late_bytes"], parts.garbler_late_bytes);
    assert_eq!(planned["evaluator_bytes"], parts.evaluator_bytes);
    assert_eq!(planned["flights"], parts.flights);
}

/// Lets both servers compute with the shares of a file, the garbler listening.
fn meet(keys: &Keys, command: &str, plain: &str, flags: &[&str]) -> [Ended; 2] {
    let files = [format!("{plain}.a"), format!("{plain}.b")];
    let arguments = |file, role| [&[command, file, "--role", role], flags].concat();
    let ended = keys.meet(
        &arguments(&files[0], "garbler"),
        &[arguments(&files[1], "evaluator"), vec!["--wait", "5"]].concat(),
    );
    assert!(
        ended.iter().all(|ended| ended.status.success()),
        "{ended:?}"
    );
    ended
}

#[test]
fn two_processes_count_histograms() {
    let keys = Keys::new();
    let plain = text(&keys.file("numbers.csv"));
    survey(&[
        "generate",
        &plain,
        "--rows",
        "60",
        "--columns",
        "3",
        "--values",
        "256",
        "--seed",
        "9",
    ])
    .unwrap();
    survey(&["split", &plain, "--values", "256"]).unwrap();
    let flags = ["--bounds", "51,102,153,204", "--expect", &plain, "--json"];
    let [garbler, evaluator] = meet(&keys, "histogram", &plain, &flags);
    let (garbler, evaluator) = (garbler.json(), evaluator.json());
    assert_eq!(garbler["histograms"], evaluator["histograms"]);
    assert_eq!(
        (&garbler["correct"], &garbler["variant"]),
        (&true.into(), &"range".into())
    );
    let bars = Bars::ranges(vec![51, 102, 153, 204], 8).unwrap();
    let answers = read_answers(plain.as_ref(), 8, 256).unwrap();
    let expected: Vec<Vec<u64>> = (0..3)
        .map(|question| bars.plain(&answers, question))
        .collect();
    assert_eq!(
        garbler["histograms"],
        serde_json::to_value(expected).unwrap()
    );
    // A party's shares alone say nothing: they are no answers that give these histograms.
    let alone = Shares::open(format!("{plain}.a").as_ref()).unwrap();
    assert_ne!(bars.plain(&alone.table, 0), bars.plain(&answers, 0));
}

#[test]
fn two_processes_find_frequent_itemsets() {
    let keys = Keys::new();
    let plain = text(&keys.file("baskets.csv"));
    survey(&[
        "generate",
        &plain,
        "--baskets",
        "--rows",
        "80",
        "--columns",
        "8",
        "--seed",
        "4",
    ])
    .unwrap();
    survey(&["split", &plain, "--values", "2"]).unwrap();
    for flags in [
        &["--support", "14"][..],
        &["--support", "14", "--supports", "--largest", "2"],
    ] {
        let flags = [flags, &["--expect", &plain, "--json"]].concat();
        let [garbler, evaluator] = meet(&keys, "itemsets", &plain, &flags);
        let (garbler, evaluator) = (garbler.json(), evaluator.json());
        assert_eq!(garbler["frequent"], evaluator["frequent"]);
        assert_eq!(garbler["correct"], true);
        // It is no trial where nothing is found, or nothing larger.
        let sizes: Vec<usize> = (garbler["frequent"].as_array().unwrap().iter())
            .map(|one| one["items"].as_array().unwrap().len())
            .collect();
        assert!(sizes.contains(&1) && sizes.contains(&2), "{sizes:?}");
        assert_eq!(evaluator["bytes_received"], garbler["bytes_sent"]);
    }
}

#[test]
fn shares_of_different_tables_are_noticed() {
    let keys = Keys::new();
    let plain = text(&keys.file("answers.csv"));
    survey(&["generate", &plain, "--rows", "20", "--columns", "2"]).unwrap();
    survey(&["split", &plain]).unwrap();
    let first = format!("{plain}.a");
    // Shared anew, the other half is of another table.
    survey(&["split", &plain, "--one", &text(&keys.file("new.a"))]).unwrap();
    let said = survey(&["histogram", &first, &format!("{plain}.b"), "--choices", "5"]);
    assert_eq!(said.unwrap_err(), "the peer's shares are of another table");
}

#[test]
fn servers_that_do_not_count_the_same_say_so() {
    let keys = Keys::new();
    let plain = text(&keys.file("baskets.csv"));
    survey(&[
        "generate",
        &plain,
        "--baskets",
        "--rows",
        "30",
        "--columns",
        "4",
    ])
    .unwrap();
    survey(&["split", &plain, "--values", "2"]).unwrap();
    let (one, other) = (format!("{plain}.a"), format!("{plain}.b"));
    for ended in keys.meet(
        &["itemsets", &one, "--support", "3", "--role", "garbler"],
        &[
            "itemsets",
            &other,
            "--support",
            "4",
            "--role",
            "evaluator",
            "--wait",
            "5",
        ],
    ) {
        assert!(!ended.status.success());
        let complaint = ended
            .stderr
            .lines()
            .find(|line| line.starts_with("error: "))
            .unwrap();
        assert!(complaint.contains("circuit"), "{complaint}");
    }
}

#[test]
fn what_cannot_be_counted_is_said_in_a_line() {
    let keys = Keys::new();
    let plain = text(&keys.file("answers.csv"));
    let (one, other) = (format!("{plain}.a"), format!("{plain}.b"));
    survey(&["generate", &plain, "--rows", "20", "--columns", "2"]).unwrap();
    survey(&["split", &plain]).unwrap();
    for (arguments, expected) in [
        (
            &["histogram", &one, &other, "--choices", "9"][..],
            "answers of 9 choices are shared in 4 bits; these have 3",
        ),
        (
            &["histogram", &one, &other, "--bounds", "8"],
            "bounds must rise",
        ),
        (
            &["histogram", &one, "--choices", "5"],
            "two parties have two files of shares",
        ),
        (
            &["itemsets", &one, &other, "--support", "3"],
            "transactions are shared in 1 bit for each item, not 3",
        ),
        (
            &["histogram", &plain, &other, "--choices", "5"],
            "answers.csv:1: expected the first line",
        ),
        (
            &["generate", &plain, "--rows", "99999999999"],
            "1999999999980 cells; a table has at most",
        ),
        (
            &["workload", "--rows", "16777216", "--choices", "5"],
            "a question needs",
        ),
        (
            &["histogram", &one, &other],
            "error: the following required arguments were not provided",
        ),
    ] {
        let said = survey(arguments).unwrap_err();
        assert!(said.contains(expected), "{said}");
    }
    let wrong = "histograms are not those of the plain answers";
    let others = text(&keys.file("others.csv"));
    survey(&[
        "generate",
        &others,
        "--rows",
        "20",
        "--columns",
        "2",
        "--seed",
        "2",
    ])
    .unwrap();
    let said = survey(&[
        "histogram",
        &one,
        &other,
        "--choices",
        "5",
        "--expect",
        &others,
    ]);
    assert!(said.unwrap_err().contains(wrong));
}
