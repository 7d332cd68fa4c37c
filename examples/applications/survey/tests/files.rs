//! Tests of files of tables and their errors.

use std::fs;

use proptest::{collection::vec, prelude::*};

use super::table;
use crate::{
    file::{Shares, read_answers, write_answers},
    generate,
};

proptest! {
    #[test]
    fn shares_combine_to_the_answers_and_are_read_from_files(
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
}

/// Returns the error of a file of shares with this content, without the path of its folder.
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
fn an_invalid_file_of_shares_is_rejected_with_its_line() {
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
        (head.to_owned(), "s: no rows"),
        (format!("{head}1,2\n1\n"), "s:3: expected 2 cells, found 1"),
        (format!("{head}1,2,3\n"), "s:2: expected 2 cells, found 3"),
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
        assert!(
            said.starts_with(expected),
            "expected {expected:?}, found {said:?}"
        );
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
fn plain_answers_are_read_with_or_without_names() {
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
        "a.csv:2: expected 3 cells, found 2"
    );
    assert_eq!(read("age,income\n0,1\n4,2").unwrap(), two);
    assert_eq!(read("0,1\n5,2\n").unwrap_err(), "a.csv:2: 5 is not below 5");
    assert_eq!(
        read("age,income\n0,1\n0,7\n").unwrap_err(),
        "a.csv:3: 7 is not below 5"
    );
    assert_eq!(read("age,income\n").unwrap_err(), "a.csv: no rows");
    assert_eq!(read("").unwrap_err(), "a.csv: no rows");
    let made = generate::answers(10, 3, 5, 1).unwrap();
    write_answers(&file, &made).unwrap();
    assert_eq!(read_answers(&file, 3, 5).unwrap(), made);
}

#[test]
fn a_seed_gives_the_same_data() {
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
