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
    assert_eq!(finished.stdout, "output 0: hex:03 dec:3 bits:11000000\n");
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
    let nameless = transpute(["circuit", "generate"]).fails(2, "required");
    let advice = "tip: --list lists the built-in circuits";
    assert!(nameless.stderr.contains(advice), "{}", nameless.stderr);
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
    assert!(text.contains("outputs:   1 value, 128 bits: 128"), "{text}");
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
    let same = transpute(["circuit", "convert", &file, &file]);
    same.fails(2, &format!("OUTPUT {file} is the input file: give --force"));
    let existing = transpute(["circuit", "generate", "add:8", &file]);
    existing.fails(2, &format!("OUTPUT {file} exists: give --force"));
    assert_eq!(fs::read_to_string(&file).unwrap(), content);
    let made = folder.path().join("add.txt");
    let made = made.to_str().unwrap();
    transpute(["circuit", "generate", "add:8", made]).expect(0);
    transpute(["circuit", "generate", "mul:8", made, "--force"]).expect(0);
    let products = fs::read_to_string(made).unwrap();
    assert_eq!(
        products,
        transpute(["circuit", "generate", "mul:8"]).expect(0).stdout
    );
    fs::remove_file(made).unwrap();

    transpute(["circuit", "convert", &file, &file, "--force"]).expect(0);
    // The circuit has two output values, and the old format allows one.
    let target = write(folder.path(), "target.txt", "precious");
    transpute(["circuit", "convert", &file, &target, "--to", "old"]).fails(2, "--to");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

    let missing = folder.path().join("no/such/folder.txt");
    let missing = missing.to_str().unwrap();
    transpute(["circuit", "convert", "add:8", missing]).fails(3, missing);
}

#[test]
fn functions_of_the_language_are_circuits() {
    let folder = tempfile::tempdir().unwrap();
    let source = "const N: usize = ME::N;\n\
                  pub fn main(a: u16, b: u16) -> u16 { a / b }\n\
                  pub fn total(list: [i8; N], more: i8) -> i8 {\n\
                  let mut sum = more;\nfor x in list { sum = sum + x; }\nsum }\n";
    let constant = write(folder.path(), "constant.garble.rs", source);
    let plain = "pub fn main(a: u16, b: u16) -> u16 { a / b }";
    let plain = write(folder.path(), "plain.garble.rs", plain);
    let output = folder.path().join("out.txt");
    let output = output.to_str().unwrap();

    let compile = |args: &[&str]| transpute([&["circuit", "compile"], args].concat());
    let told = compile(&[&plain, "--output", output]).expect(0).stderr;
    assert_eq!(
        told,
        "input 0: a: u16 (16 bits)\ninput 1: b: u16 (16 bits)\n\
         output 0: u16 (16 bits)\noutput 1: panic: bool (1 bit)\n"
    );
    // The compiled file and the source are the same circuit.
    for (circuit, format) in [(output, "Bristol Fashion"), (&*plain, "Garble")] {
        let eval = |b: &str| {
            let inputs = ["-i", "0=dec:1000", "-i", b];
            transpute([&["circuit", "eval", "--json", circuit], &inputs[..]].concat())
                .expect(0)
                .outputs()
        };
        assert_eq!(eval("1=dec:7"), ["008e", "0"]);
        assert_eq!(eval("1=dec:0")[1], "1");
        let info = transpute(["circuit", "info", "--json", circuit])
            .expect(0)
            .json();
        assert_eq!(info["format"], format);
    }

    let total = [&constant, "--function", "total", "--const", "ME::N=3"];
    let printed = compile(&[&total[..], &["--ignore-panics"]].concat()).expect(0);
    let header: Vec<_> = printed.stdout.lines().skip(1).take(2).collect();
    assert_eq!(header, ["2 24 8", "1 8"]);
    compile(&[&constant]).fails(3, "constant.garble.rs:1:17: no value is given for ME::N");
    compile(&[&total[..3], &["--const", "ME::N=x"]].concat()).fails(2, "--const: constant ME::N");
    compile(&[&plain, "--function", "f"]).fails(2, "--function: there is no function \"f\"");
    compile(&["missing.garble.rs"]).fails(3, "missing.garble.rs: cannot be read");
    let wrong = write(
        folder.path(),
        "wrong.garble.rs",
        "pub fn main(a: u8) -> u8 {\n  c }",
    );
    compile(&[&wrong]).fails(3, "wrong.garble.rs:2:3: ");
    transpute(["circuit", "eval", &wrong]).fails(3, "wrong.garble.rs:2:3: ");
}

#[test]
fn sources_that_would_take_everything_are_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let compile = |source: &str, bound: &str, value: &str, code: i32, fragment: &str| {
        let source = write(folder.path(), "large.garble.rs", source);
        transpute(["circuit", "compile", &source, bound, value]).fails(code, fragment);
    };
    let body = "let mut y = x; for i in 0usize..4000000000usize { y = y ^ (i as u8); } y";
    let endless = format!("pub fn main(x: u8) -> u8 {{ {body} }}");
    compile(&endless, "--max-memory", "64", 3, "takes more than 64 MiB");
    // Compiling this takes little memory and much time, because it multiplies products of products.
    let body = "let mut y = x; for i in 0usize..20000usize { y = (y * y) ^ x; } y";
    let slow = format!("pub fn main(x: u64) -> u64 {{ {body} }}");
    compile(&slow, "--max-seconds", "1", 3, "takes more than 1 s");
    compile(
        "pub fn main(x: u8) -> u8 { let mut a = [[0u8; 0]; 2]; a[1] = [0u8; 0]; x }",
        "--max-seconds",
        "60",
        3,
        "large.garble.rs: the compiler of the language failed: attempt to divide by zero",
    );
}

#[test]
fn two_parties_run_a_function_of_the_language() {
    use crate::harness::{Party, meet};

    let folder = tempfile::tempdir().unwrap();
    let source = "struct Offer { price: u16, many: u8 }\n\
                  pub fn main(offer: Offer, most: u16) -> bool { offer.price <= most }";
    let source = write(folder.path(), "offer.garble.rs", source);
    let cache = folder.path().join("cache");
    for (most, bought) in [("1=dec:100", "1"), ("1=dec:99", "0")] {
        let evaluator = Party::plaintext("evaluator", &source).and([
            "--input",
            most,
            "--program-cache",
            cache.to_str().unwrap(),
        ]);
        let garbler = Party::plaintext("garbler", &source).input(0, "hex:050064");
        let [garbler, evaluator] = meet(garbler, evaluator);
        garbler.expect(0);
        assert_eq!(evaluator.expect(0).outputs(), [bought]);
    }
}
