//! Entry points for a fuzzer: functions of arbitrary bytes that panic on an error.
//!
//! They are not part of the public interface. `fuzz` contains the targets, and docs/rudp.md
//! explains how to run them.

use std::time::Duration;

use crate::frame::{self, Frame, read_frame};
use crate::wire::Reader;

/// Parses the bytes as frames of a packet. A parsed frame must be the same after it is written and
/// parsed again.
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

/// Interprets the bytes as the actions of a peer that has the keys and ignores the protocol, and of
/// the application at this end.
pub fn peer(script: &[u8]) {
    crate::connection::adversarial::run(script);
}

/// Interprets the bytes as datagrams from anyone to an acceptor and to connections during their
/// handshake.
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

    /// Runs the target with the inputs that were kept from fuzzing.
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
    fn kept_inputs_of_the_fuzzer_pass() {
        seeds("frames", super::frames);
        seeds("peer", super::peer);
        seeds("initial", super::initial);
    }

    #[test]
    fn a_script_that_delivers_everything_establishes_a_connection() {
        assert!(crate::handshake::adversarial::run(&[4; 80]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn no_peer_makes_a_connection_panic(script in prop::collection::vec(any::<u8>(), 0..600)) {
            super::peer(&script);
        }

        #[test]
        fn no_handshake_datagrams_cause_a_panic(script in prop::collection::vec(any::<u8>(), 0..600)) {
            super::initial(&script);
        }

        #[test]
        fn random_frames_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            super::frames(&bytes);
        }
    }
}
