//! Unit tests of encoding and decoding.

use proptest::prelude::*;

use super::*;

/// A frame with its own bytes, for comparisons.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Owned {
    Text(u8, u32, String),
    Data(u32, Vec<u8>),
    Credit(u32, u32),
    Plain(u8, u32),
}

fn owned(event: &Event<'_>) -> Owned {
    match *event {
        Event::Open { id, target } => Owned::Text(1, id, target.into()),
        Event::Opened { id } => Owned::Plain(2, id),
        Event::Refused { id, reason } => Owned::Text(3, id, reason.into()),
        Event::Data { id, bytes } => Owned::Data(id, bytes.into()),
        Event::Credit { id, bytes } => Owned::Credit(id, bytes),
        Event::End { id } => Owned::Plain(6, id),
        Event::Reset { id } => Owned::Plain(7, id),
        Event::Ping => Owned::Plain(8, 0),
    }
}

fn encode(frame: &Owned, out: &mut Vec<u8>) {
    match frame {
        Owned::Text(kind, id, text) => put(out, Kind::new(*kind).unwrap(), *id, text),
        Owned::Plain(kind, id) => put(out, Kind::new(*kind).unwrap(), *id, ""),
        Owned::Credit(id, bytes) => put_credit(out, *id, *bytes),
        Owned::Data(id, bytes) => {
            out.extend_from_slice(&header(Kind::Data, *id, bytes.len()));
            out.extend_from_slice(bytes);
        }
    }
}

/// Decodes `bytes` in pieces of the given lengths. Joins the parts of data frames.
fn decode(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Owned>, TunnelError> {
    let (mut decoder, mut found) = (Decoder::default(), Vec::new());
    let mut lengths = pieces.iter().cycle();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = lengths
            .next()
            .map_or(1, |length| (*length).clamp(1, rest.len()));
        let (mut piece, later) = rest.split_at(length);
        rest = later;
        while let Some(event) = decoder.next(&mut piece)? {
            match (owned(&event), found.last_mut()) {
                (Owned::Data(id, more), Some(Owned::Data(last, bytes))) if *last == id => {
                    bytes.extend(more);
                }
                (event, _) => found.push(event),
            }
        }
        assert!(piece.is_empty());
    }
    Ok(found)
}

fn frames() -> impl Strategy<Value = Vec<Owned>> {
    let id = any::<u32>();
    let frame = prop_oneof![
        (prop_oneof![Just(1_u8), Just(3)], id, "[a-zé]{1,40}")
            .prop_map(|(kind, id, text)| Owned::Text(kind, id, text)),
        (id, prop::collection::vec(any::<u8>(), 1..300))
            .prop_map(|(id, bytes)| Owned::Data(id, bytes)),
        (id, any::<u32>()).prop_map(|(id, bytes)| Owned::Credit(id, bytes)),
        (prop_oneof![Just(2_u8), Just(6), Just(7)], id)
            .prop_map(|(kind, id)| Owned::Plain(kind, id)),
        Just(Owned::Plain(8, 0)),
    ];
    prop::collection::vec(frame, 0..20)
}

proptest! {
    #[test]
    fn frames_survive_any_cuts(
        frames in frames(),
        pieces in prop::collection::vec(1..100_usize, 1..10),
    ) {
        let mut bytes = hello().to_vec();
        frames.iter().for_each(|frame| encode(frame, &mut bytes));
        // `decode` joins data frames that follow each other on one stream.
        let mut expected: Vec<Owned> = Vec::new();
        for frame in frames {
            match (frame, expected.last_mut()) {
                (Owned::Data(id, more), Some(Owned::Data(last, bytes))) if *last == id => {
                    bytes.extend(more);
                }
                (frame, _) => expected.push(frame),
            }
        }
        prop_assert_eq!(decode(&bytes, &pieces).unwrap(), expected);
    }

    #[test]
    fn any_bytes_are_frames_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        kind in 0..10_u8,
        is_greeted in any::<bool>(),
    ) {
        let mut input = if is_greeted { hello().to_vec() } else { Vec::new() };
        if is_greeted {
            input.push(kind);
        }
        input.extend(&bytes);
        let whole = decode(&input, &[input.len().max(1)]);
        let cut = decode(&input, &[1, 7]);
        prop_assert_eq!(whole.is_ok(), cut.is_ok());
    }
}

#[test]
fn wrong_frames_are_named() {
    for (bytes, message) in [
        (&b"GET / HTTP/1.1"[..], "found \"GET\""),
        (b"tptunnel\x07\0\0\0", "expected 1, found 7"),
        (
            b"tptunnel\x01\0\0\0\x09\0\0\0\0\0\0\0\0",
            "from 1 to 8, found 9",
        ),
        (
            b"tptunnel\x01\0\0\0\x04\x01\0\0\0\x01\0\x01\0",
            "expected 1 to 65536 bytes in a frame of type Data, found 65537",
        ),
        (
            b"tptunnel\x01\0\0\0\x01\x01\0\0\0\xff\xff\xff\xff",
            "type Open, found 4294967295",
        ),
        (
            b"tptunnel\x01\0\0\0\x01\x01\0\0\0\x01\0\0\0\xff",
            "expected UTF-8 text in a frame of type Open",
        ),
    ] {
        let error = decode(bytes, &[3]).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn long_reasons_are_cut_between_characters() {
    let mut bytes = hello().to_vec();
    put(
        &mut bytes,
        Kind::Refused,
        1,
        &format!("x{}", "é".repeat(600)),
    );
    let Owned::Text(3, 1, reason) = &decode(&bytes, &[50]).unwrap()[0] else {
        panic!("no reason");
    };
    assert_eq!(reason.len(), MAX_TEXT - 1);
}
