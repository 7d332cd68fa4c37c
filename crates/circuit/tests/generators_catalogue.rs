//! Tests of the named circuits: all examples, and the errors for invalid specs.

use transpute_circuit::{
    Bits, Op,
    catalogue::{CatalogueError, entries, named},
    generators::GeneratorError,
};

#[test]
fn every_example_holds() {
    for entry in entries() {
        let example = entry.example;
        let circuit = named(example.spec).unwrap();
        assert!(example.spec.starts_with(entry.name));
        assert!(!entry.outputs.is_empty());
        if example.inputs.is_empty() {
            continue;
        }
        assert_eq!(example.inputs.len(), circuit.input_widths().len());
        let mut inputs = Bits::new();
        for (text, &width) in example.inputs.iter().zip(circuit.input_widths()) {
            inputs.extend([Bits::from_hex(text, width as usize).unwrap()]);
        }
        let outputs = circuit.evaluate(&inputs).unwrap();
        let values: Vec<String> = (circuit.split_outputs(&outputs).iter())
            .map(Bits::to_hex)
            .collect();
        assert_eq!(values, example.outputs, "{}", example.spec);
    }
}

#[test]
fn usages_are_distinct() {
    let mut usages: Vec<String> = entries().iter().map(|entry| entry.usage()).collect();
    usages.sort();
    usages.dedup();
    assert_eq!(usages.len(), entries().len());
}

#[test]
fn options_reach_the_generators() {
    let ands = |spec: &str| named(spec).unwrap().count(Op::And);
    assert_eq!(ands("exact-min-cut:8x8"), 6_006);
    assert_eq!(ands("exact-min-cut:8x8,shared") - 6_006, {
        // The shares take 28 additions of 8 bits, and the cuts are one bit wider.
        28 * 8 + 7 * 6 + 2 * 120 + 2 * 126
    });
    assert_eq!(ands("exact-min-cut:8x8,argmin") - 6_006, 7 * 126);
    let xors = |spec: &str| named(spec).unwrap().count(Op::Xor);
    assert_eq!(xors("min-of-candidates:10x5"), 18 * 9);
    assert_eq!(xors("min-of-candidates:10x5,chain,paper"), 26 * 9 + 6);
    assert_eq!(ands("mincut"), 999_960);
    assert_eq!(named("sha256:0").unwrap().input_widths(), [0]);
}

#[test]
fn invalid_specs_have_clear_errors() {
    let message = |spec: &str| named(spec).unwrap_err().to_string();
    assert!(message("des").starts_with("there is no circuit \"des\"; there are aes128, "));
    assert!(message("").contains("there is no circuit \"\""));
    assert_eq!(message("add"), "add is written \"add:<bits>\", not \"add\"");
    assert_eq!(
        message("add:1025"),
        "add: number width in bits must be from 1 to 1024, not 1025"
    );
    for spec in [
        "aes128:",
        "aes128:1",
        "add:",
        "add:+4",
        "add:-4",
        "add:4x4",
        "add:0x4",
        "sha256:",
        "sha256:1+",
        "mincut:1",
        "exact-min-cut:8",
        "exact-min-cut:8x",
        "exact-min-cut:8x8,",
        "exact-min-cut:8x8,fast",
        "min-of-candidates:8x8x8",
        "add:٣",
    ] {
        let error = named(spec).unwrap_err();
        assert!(
            matches!(error, CatalogueError::BadParameters { .. }),
            "{spec}: {error}"
        );
    }
}

#[test]
fn specs_of_huge_circuits_are_rejected() {
    for spec in [
        "mul:1000000",
        "mul-wide:99999999999999999999999999",
        "sha256:1000000000",
        "sha256:18446744073709551615+18446744073709551615",
        "exact-min-cut:60x8",
        "exact-min-cut:8x1000",
        "min-of-candidates:1000000000x20",
        "min-of-candidates:2x18446744073709551615",
    ] {
        let error = named(spec).unwrap_err();
        let is_range = matches!(
            error,
            CatalogueError::Generator {
                reason: GeneratorError::OutOfRange { .. },
                ..
            }
        );
        assert!(is_range, "{spec}: {error}");
    }
}
