//! What a fuzzer calls: functions of any bytes, which panic where something is wrong.
//!
//! No part of the interface. `fuzz` has the targets, docs/rudp.md how to run them.

use std::time::Duration;

use crate::frame::{self, Frame, read_frame};
use crate::wire::Reader;

/// Reads the bytes as frames of a packet. What parses must be the same once written and read again.
pub fn frames(bytes: &[u8]) {
    let mut reader = Reader(bytes);
    while !reader.is_empty() {
        let Ok(frame) = read_frame(&mut reader) else {
            return;
        };
        let mut again = Vec::new();
        put(&mut again, &frame);
        assert_eq!(read_frame(&mut Reader(&again)), Ok(frame));
    }
}

/// Reads the bytes as the doings of a peer that has the keys and keeps no rule, and of the program
/// at this end.
pub fn peer(script: &[u8]) {
    crate::connection::adversarial::run(script);
}

/// Reads the bytes as datagrams of anybody to an acceptor and to connections in their set-up.
pub fn initial(script: &[u8]) {
    let _ = crate::handshake::adversarial::run(script);
}

fn put(out: &mut Vec<u8>, frame: &Frame<'_>) {
    match frame {
        Frame::Padding => frame::put_padding(out, 3),
        Frame::Ping => frame::put_ping(out),
        Frame::Ack(ack) => assert!(frame::put_ack(out, ack, usize::MAX)),
        Frame::Challenge(token) => frame::put_challenge(out, *token),
        Frame::Response(token) => frame::put_response(out, *token),
        Frame::Train {
            id,
            index,
            count,
            left,
        } => frame::put_train(
            out,
            *id,
            *index,
            *count,
            Duration::from_micros((*left).into()),
        ),
        Frame::Report(report) => frame::put_report(out, report),
        Frame::Limit(limit) => frame::put_limit(out, *limit),
        Frame::Close(code) => frame::put_close(out, *code),
        Frame::Crypto(offset, messages) => frame::put_crypto(out, (*offset).into(), messages),
        Frame::Seen(space, number, held) => frame::put_seen(out, *space, *number, *held),
        Frame::Parity(header, symbol) => frame::put_parity(out, header, symbol),
        Frame::Data(header, data) => {
            frame::put_data_header(out, header);
            out.extend_from_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    /// Runs what the fuzzer has found worth keeping.
    fn seeds(target: &str, run: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fuzz/seeds")
            .join(target);
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            run(&fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "no seeds for {target}");
    }

    #[test]
    fn seeds_of_the_fuzzer() {
        seeds("frames", super::frames);
        seeds("peer", super::peer);
        seeds("initial", super::initial);
    }

    #[test]
    fn a_script_that_delivers_everything_sets_a_connection_up() {
        assert!(crate::handshake::adversarial::run(&[4; 80]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn no_peer_makes_a_connection_panic(script in prop::collection::vec(any::<u8>(), 0..600)) {
            super::peer(&script);
        }

        #[test]
        fn no_datagrams_of_a_set_up_panic(script in prop::collection::vec(any::<u8>(), 0..600)) {
            super::initial(&script);
        }

        #[test]
        fn frames_of_noise_go_there_and_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            super::frames(&bytes);
        }
    }
}
