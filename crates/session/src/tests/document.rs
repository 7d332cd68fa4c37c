//! Compares `docs/protocol.md` with the code.
//!
//! The tests derive every expected number from encoded messages or from the enums. So they fail
//! after a change of the code until the document is changed too.

use std::collections::BTreeMap;

use transpute_garble::Scheme;
use transpute_ot::Extension;

use super::{Pair, Setup, chain, connection::first_open, random_inputs};
use crate::{
    AbortReason, FrameKind, MAX_PAYLOAD, OtPlan, OutputPolicy, Role, error::Field, hello::Hello,
};

const DOCUMENT: &str = include_str!("../../../../docs/protocol.md");

/// Returns the text below a heading, up to the next heading.
fn section(heading: &str) -> &'static str {
    let (_, rest) = (DOCUMENT.split_once(&format!("\n{heading}\n")))
        .unwrap_or_else(|| panic!("no heading {heading:?}"));
    rest.split_once("\n#").map_or(rest, |(section, _)| section)
}

/// Returns the cells of the rows of all tables in a text, without headers and separators.
fn rows(text: &'static str) -> Vec<Vec<&'static str>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_separator = |line: &str| line.starts_with("| -");
    (lines.iter().enumerate())
        .filter(|(index, line)| {
            let is_header = (lines.get(index + 1)).is_some_and(|next| is_separator(next));
            line.starts_with('|') && !is_separator(line) && !is_header
        })
        .map(|(_, line)| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// Returns the number that follows `before` in a text.
fn number_after(text: &str, before: &str) -> u64 {
    let (_, rest) = (text.split_once(before)).unwrap_or_else(|| panic!("no {before:?}: {text}"));
    let digits: String = (rest.chars())
        .take_while(|c| c.is_ascii_digit() || *c == ',')
        .filter(char::is_ascii_digit)
        .collect();
    (digits.parse()).unwrap_or_else(|_| panic!("no number behind {before:?}: {text}"))
}

/// Parses a list like "1 version, 2 role". Returns a map from code to name.
fn codes(list: &str) -> BTreeMap<u8, String> {
    (list.split([',', ';']))
        .map(|entry| {
            let mut words = entry.split_whitespace();
            let code = words.next().unwrap().parse().unwrap();
            (code, words.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// Returns the payload of a garbler's first frame of a run.
fn first_hello() -> Vec<u8> {
    let setup = Setup::new(&chain(1), random_inputs(&chain(1), 1, 1));
    let ends = Pair::new(&setup, &setup).run(&mut |_, frame| vec![frame]);
    let (_, frame) = (ends.delivered.into_iter())
        .find(|(from, frame)| *from == Role::Garbler && frame.kind == FrameKind::Hello)
        .unwrap();
    frame.payload.to_vec()
}

/// Returns the version in an encoded Open.
fn version(message: &[u8]) -> u64 {
    u16::from_le_bytes([message[4], message[5]]).into()
}

/// Checks that the documented fields of a message have no gaps between them and add up to its
/// length. Returns the rows of the table.
fn check_fields(heading: &str, message: &[u8]) -> Vec<Vec<&'static str>> {
    let rows = rows(section(heading));
    let mut end = 0;
    for row in &rows {
        assert_eq!(row[0].parse(), Ok(end), "offset of {row:?} in {heading}");
        end += row[1].parse::<usize>().unwrap();
    }
    assert_eq!(end, message.len(), "length of {heading}");
    rows
}

#[test]
fn the_document_states_the_version() {
    let open = version(&first_open());
    assert_eq!(number_after(DOCUMENT, "\nVersion "), open);
    let versions = rows(section("## Versions"));
    assert_eq!(versions.last().unwrap()[0].parse(), Ok(open));
}

#[test]
fn the_document_lists_the_fields_of_a_hello() {
    let rows = check_fields("### Hello", &first_hello());
    let row = |start: &str| {
        let found = rows.iter().find(|row| row[2].starts_with(start));
        found.unwrap_or_else(|| panic!("no field {start:?}"))
    };
    let encoded = |checked: bool, prepared: bool, decides: bool, eager: bool| {
        let mut setup = Setup::new(&chain(1), random_inputs(&chain(1), 1, 1));
        setup.config.output_check = checked;
        setup.config.decides_scheme = decides;
        let program = transpute_circuit::Program::compile(&setup.circuit);
        let mut hello = Hello::new(
            Role::Garbler,
            &setup.config,
            OtPlan::None,
            &program,
            &setup.split,
            &mut rand::rng(),
        );
        if prepared {
            hello.set_prepared();
        }
        hello.set_eager(eager);
        hello.encode()
    };
    let flags = row("bit 0");
    let at: usize = flags[0].parse().unwrap();
    for (set, meaning) in [
        (encoded(true, false, false, false), "outputs are checked"),
        (encoded(false, true, false, false), "the run is prepared"),
        (
            encoded(false, false, true, false),
            "the party's preference among schemes decides",
        ),
        (
            encoded(false, false, false, true),
            "the garbler has begun as far ahead as its own window",
        ),
    ] {
        let text = format!("bit {}: {meaning}", set[at].trailing_zeros());
        assert!(flags[2].split("; ").any(|bit| bit == text), "{text}");
        assert_eq!(set[at].count_ones(), 1);
    }
    assert_eq!(flags[2].split("; ").count(), 4, "{flags:?}");

    let (_, output) = row("output to: ")[2].split_once(": ").unwrap();
    let output = codes(output);
    for policy in [
        OutputPolicy::Evaluator,
        OutputPolicy::Garbler,
        OutputPolicy::Both,
    ] {
        assert_eq!(output[&policy.code()], policy.to_string());
    }
    let transfers = row("oblivious transfer: ")[2];
    assert!(transfers.contains(&format!("{} none", OtPlan::None.code())));
    assert!(transfers.contains(&format!("{} direct", OtPlan::Direct.code())));
    let iknp = OtPlan::Extension(Extension::Iknp).code();
    assert!(transfers.contains(&format!("{:#04x} + k", iknp - 1)));
    let pool = format!("{:#04x} the pool", OtPlan::Pool.code());
    assert!(transfers.contains(&pool), "{pool}");
}

#[test]
fn the_document_lists_the_fields_of_an_open() {
    let open = first_open();
    let rows = check_fields("### Open", &open);
    let magic = format!("`{}`", str::from_utf8(&open[..4]).unwrap());
    assert_eq!(rows[0][2], magic);
    assert_eq!(number_after(rows[1][2], "version: "), version(&open));
}

#[test]
fn the_document_lists_every_kind_of_frame() {
    let mut listed = BTreeMap::new();
    for row in rows(section("## Frames")) {
        let code = u8::from_str_radix(&row[0][2..], 16).unwrap();
        let before = listed.insert(code, row[1]);
        assert!(before.is_none_or(|name| name == row[1]), "{row:?}");
    }
    let kinds = FrameKind::ALL.map(|kind| (kind as u8, format!("{kind:?}")));
    let listed = listed.into_iter().map(|(code, name)| (code, name.into()));
    assert_eq!(listed.collect::<BTreeMap<_, _>>(), BTreeMap::from(kinds));

    let frames = section("## Frames");
    let limit = number_after(frames, "A length over ");
    assert_eq!(limit, MAX_PAYLOAD as u64);
    for (name, length) in [("Hello", first_hello().len()), ("Open", first_open().len())] {
        let row = rows(frames).into_iter().find(|row| row[1] == name).unwrap();
        assert_eq!(row[4], format!("{length} bytes, below"));
    }
}

#[test]
fn the_document_lists_the_codes_of_refusals_and_aborts() {
    let section = section("### Codes of refusals and aborts");
    let (fields, reasons) = section.split_once("Reasons of `Abort`").unwrap();
    let meanings = |table| -> BTreeMap<u8, &str> {
        let rows = rows(table).into_iter();
        rows.map(|row| (row[0].parse().unwrap(), row[1])).collect()
    };
    let (fields, reasons) = (meanings(fields), meanings(reasons));
    for field in Field::ALL {
        let meaning = &fields[&(field as u8)];
        assert!(field.to_string().contains(meaning), "{field}: {meaning}");
    }
    assert_eq!(fields.len(), Field::ALL.len());

    for code in 0..=u8::MAX {
        let expected = AbortReason::from_code(code).map(|reason| match reason {
            AbortReason::Protocol => "protocol violation",
            AbortReason::OutputCheck => "output check failed",
            AbortReason::Transcript => "transcript differs",
            AbortReason::Local => "failure of its own",
            AbortReason::Cancelled => "not wanted any more",
            AbortReason::Busy => "no room for more peers or runs",
        });
        assert_eq!(reasons.get(&code).copied(), expected, "reason {code}");
    }
}

#[test]
fn the_document_lists_the_schemes() {
    let rows = rows(section("### Tables"));
    let listed: Vec<(&str, &str)> = rows.iter().map(|row| (row[0], row[1])).collect();
    let mut schemes: Vec<Scheme> = Scheme::ALL.to_vec();
    schemes.sort_by_key(|scheme| scheme.code());
    let expected: Vec<(String, String)> = (schemes.iter())
        .map(|scheme| (format!("`{scheme}`"), scheme.code().to_string()))
        .collect();
    let expected: Vec<(&str, &str)> = (expected.iter())
        .map(|(name, code)| (name.as_str(), code.as_str()))
        .collect();
    assert_eq!(listed, expected);
}
