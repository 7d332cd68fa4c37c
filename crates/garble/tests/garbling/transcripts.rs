//! Tests of the bytes on the wire. The bytes must not depend on the back end or on the maximum
//! chunk length, and must not change between versions.

use std::sync::Arc;

use crate::common::{Lcg, Pair, all_params, fixed_params, random_circuit};
use sha2::{Digest, Sha256};
use transpute_circuit::{InputSplit, Program};
use transpute_garble::{Backend, Params, Scheme};

fn program() -> Arc<Program> {
    let program = Program::compile(&random_circuit(2024, 3000));
    assert!(program.and_count() > 500 && program.xor_count() > 500);
    Arc::new(program)
}

/// Garbles two instances and returns the chunks of each.
fn garble(
    program: &Arc<Program>,
    params: Params,
    backend: Backend,
    limit: usize,
) -> Vec<Vec<Vec<u8>>> {
    let split = InputSplit::first_to_garbler(program.input_widths());
    let mut pair = Pair::new(program, split, params, backend);
    let mut rng = Lcg(11);
    (0..2)
        .map(|_| {
            pair.begin(&rng.bits(program.input_bits()));
            let chunks = pair.chunks(limit);
            pair.finish(&chunks, limit);
            chunks
        })
        .collect()
}

#[test]
fn all_back_ends_write_the_same_bytes() {
    let program = program();
    for params in all_params() {
        for limit in [67, 1000, 1 << 20] {
            let expected = garble(&program, params, Backend::Portable, limit);
            for backend in Backend::available() {
                let found = garble(&program, params, backend, limit);
                assert!(found == expected, "{} {backend} {limit}", params.scheme);
            }
        }
    }
}

/// Returns the ciphertexts and trailer bits of an instance, independent of the chunk boundaries.
fn uncut(program: &Program, scheme: Scheme, chunks: &[Vec<u8>]) -> (Vec<u8>, Vec<bool>) {
    use transpute_circuit::BatchKind;
    let kinds = (program.batches().iter())
        .filter(|batch| batch.kind != BatchKind::Input)
        .flat_map(|batch| std::iter::repeat_n(batch.kind, batch.len as usize));
    let mut kinds = kinds.peekable();
    let (mut ciphertexts, mut bits) = (Vec::new(), Vec::new());
    for chunk in chunks {
        // The number of gates that fit is computed independently of the crate.
        let (mut bytes, mut extra) = (0, 0);
        while let Some(kind) = kinds.peek() {
            let (gate_bytes, gate_bits) = match kind {
                BatchKind::And => (scheme.and_bytes(), scheme.and_bits()),
                _ => (scheme.xor_bytes(), 0),
            };
            if bytes + gate_bytes + (extra + gate_bits).div_ceil(8) > chunk.len() {
                break;
            }
            bytes += gate_bytes;
            extra += gate_bits;
            kinds.next();
        }
        assert_eq!(bytes + extra.div_ceil(8), chunk.len());
        ciphertexts.extend_from_slice(&chunk[..bytes]);
        let bit = |i: usize| chunk[bytes + i / 8] >> (i % 8) & 1 == 1;
        bits.extend((0..extra).map(bit));
        assert!(
            (extra..8 * (chunk.len() - bytes)).all(|i| !bit(i)),
            "padding is zero"
        );
    }
    assert!(kinds.next().is_none());
    (ciphertexts, bits)
}

#[test]
fn cuts_change_nothing_but_the_trailers() {
    let program = program();
    for params in all_params() {
        let whole = garble(&program, params, Backend::best().unwrap(), 1 << 24);
        for limit in [64, 65, 97, 501, 4096] {
            let cut = garble(&program, params, Backend::best().unwrap(), limit);
            for (whole, cut) in whole.iter().zip(&cut) {
                assert_eq!(whole.len(), 1);
                assert!(cut.iter().all(|chunk| chunk.len() <= limit));
                assert!(
                    uncut(&program, params.scheme, whole) == uncut(&program, params.scheme, cut),
                    "{} {limit}",
                    params.scheme
                );
            }
        }
    }
}

/// A failure means that the wire format changed, which needs a new protocol version.
#[test]
fn transcripts_are_those_of_the_protocol_version() {
    let program = program();
    assert_eq!(
        transpute_circuit::hex(program.digest()),
        "9aa55863d321442c9a3d0e860b6c43687300f8b4cb64450bef9cb1897f43dcee",
        "the program itself has changed, and with it the order of the tables"
    );
    let found = Scheme::ALL.map(|scheme| {
        let mut hash = Sha256::new();
        for chunk in garble(
            &program,
            fixed_params(scheme, 1),
            Backend::best().unwrap(),
            1000,
        )
        .concat()
        {
            hash.update(chunk);
        }
        format!("{scheme} {}", transpute_circuit::hex(&hash.finalize()))
    });
    assert_eq!(
        found,
        [
            "half-gates 1591fe5058487aaf3503f50f9eb978e976587ea12e3d5db5bb94f529ace7ee1a",
            "fixed-key a098de9e5cdf611c712ab3ed6d3e964bf33858399327fac2c22c11d6a1db5911",
            "prf 223aa3fb21fa1586d2b9a4485925d1129a46e2fd47e7cc0ac3d0107e60300935",
            "three-halves 35d5b4f965cd1c53ab0833527fca3398cbe91d8b2c8159e5f6e0a141df171145",
        ]
    );
}
