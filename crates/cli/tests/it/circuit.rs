//! `transpute circuit`.

use std::fs;

use transpute::circuit::catalogue;

use crate::harness::{transpute, write};

#[test]
fn the_examples_of_the_catalogue_evaluate() {
    let mut seen = 0;
    for entry in catalogue::entries() {
        let example = &entry.example;
        if example.inputs.is_empty() {
            continue;
        }
        let mut args = vec!["circuit", "eval", "--json", example.spec];
        let inputs: Vec<_> = (example.inputs.iter().enumerate())
            .map(|(index, value)| format!("--input={index}=hex:{value}"))
            .collect();
        args.extend(inputs.iter().map(String::as_str));
        let finished = transpute(args).expect(0);
        assert_eq!(finished.outputs(), example.outputs, "{}", example.spec);
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn evaluation_needs_all_inputs() {
    let eval = |args: &[&str]| transpute([&["circuit", "eval", "add:8"], args].concat());
    let finished = eval(&["-i", "1=dec:2", "-i", "0=bits:10000000"]).expect(0);
    assert_eq!(finished.stdout, "output 0: hex:03 bits:11000000\n");
    eval(&["-i", "0=dec:1"]).fails(2, "--input: input value 1 (8 bits) is missing");
    eval(&["-i", "dec:1"]).fails(2, "N=VALUE is wanted");
}

#[test]
fn the_list_names_every_circuit() {
    let list = transpute(["circuit", "generate", "--list"])
        .expect(0)
        .stdout;
    for entry in catalogue::entries() {
        assert!(
            list.contains(&entry.usage()) && list.contains(entry.summary),
            "{}",
            entry.name
        );
    }
    transpute(["circuit", "generate"]).fails(2, "required");
}

#[test]
fn info_tells_what_a_circuit_costs() {
    let info = transpute(["circuit", "info", "--json", "aes128"])
        .expect(0)
        .json();
    assert_eq!(info["format"], "built-in");
    assert_eq!(info["inputs"], serde_json::json!([128, 128]));
    assert_eq!(
        (&info["gates"]["and"], &info["program"]["and"]),
        (&6400.into(), &6400.into())
    );
    assert_eq!(info["table_bytes"][0]["bytes"], 6400 * 32);
    assert_eq!(info["table_bytes"][3]["bytes"], 6400 * 24 + 6400 * 5 / 8);
    assert_eq!(info["program"]["digest"].as_str().unwrap().len(), 64);
    let text = transpute(["circuit", "info", "aes128"]).expect(0).stdout;
    assert!(text.contains("6,400 AND"), "{text}");
}

#[test]
fn formats_convert_into_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let convert = |from: &str, to: &str, format| {
        transpute(["circuit", "convert", from, to, "--to", format]).expect(0);
    };
    let files = ["fashion.txt", "extended.txt", "old.txt", "again.txt"].map(path);
    transpute(["circuit", "generate", "mul:8", &files[0]]).expect(0);
    convert(&files[0], &files[1], "fashion-extended");
    convert(&files[1], &files[2], "old");
    convert(&files[2], &files[3], "fashion");
    assert!(fs::read_to_string(&files[1]).unwrap().contains("MAND"));
    let mut digests = Vec::new();
    for (file, format) in files.iter().zip([
        "Bristol Fashion",
        "Bristol Fashion",
        "Bristol (old)",
        "Bristol Fashion",
    ]) {
        let info = transpute(["circuit", "info", "--json", file])
            .expect(0)
            .json();
        assert_eq!(info["format"], format);
        digests.push(info["program"]["digest"].clone());
        let product = transpute([
            "circuit", "eval", "--json", file, "-i", "0=dec:13", "-i", "1=dec:-7",
        ]);
        assert_eq!(product.expect(0).outputs(), ["a5"], "{file}");
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    let printed = transpute(["circuit", "convert", &files[0], "-"])
        .expect(0)
        .stdout;
    assert_eq!(printed, fs::read_to_string(&files[0]).unwrap());
}

#[test]
fn conversion_does_not_destroy() {
    let folder = tempfile::tempdir().unwrap();
    let content = "1 3\n2 1 1\n2 1 1\n\n2 1 0 1 2 AND\n";
    let file = write(folder.path(), "two-outputs.txt", content);
    transpute(["circuit", "convert", &file, &file]).fails(2, "--force");

    transpute(["circuit", "convert", &file, &file, "--force"]).expect(0);
    // Two output values are more than the old format has room for.
    let target = write(folder.path(), "target.txt", "precious");
    transpute(["circuit", "convert", &file, &target, "--to", "old"]).fails(2, "--to");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

    let missing = folder.path().join("no/such/folder.txt");
    let missing = missing.to_str().unwrap();
    transpute(["circuit", "convert", "add:8", missing]).fails(3, missing);
}
