//! What a packet says: frames, and how they are read and written.
//!
//! docs/rudp.md describes every byte; `tests/golden.rs` fails when one changes.

use std::ops::Range;
use std::time::Duration;

use crate::handshake::packet::Space;
use crate::wire::{Reader, Truncated, put_uint, put_varint, varint_len};

/// How many ranges of packet numbers an acknowledgement lists at most, newest first.
pub(crate) const MAX_ACK_RANGES: usize = 64;

/// How many received pieces of the stream behind its first gap an acknowledgement lists at most,
/// first ones first.
pub(crate) const MAX_ACK_PIECES: usize = 32;

/// One more than the largest place of a stream.
pub(crate) const STREAM_END: u64 = 1 << 48;

/// Bytes of a data frame beside its data, without and with a place in a block.
pub(crate) const DATA_HEADER: usize = 7;
pub(crate) const BLOCK_DATA_HEADER: usize = 12;

/// Bytes of a crypto frame beside its messages.
pub(crate) const CRYPTO_HEADER: usize = 5;

/// Bytes of a parity frame beside its symbol.
pub(crate) const PARITY_HEADER: usize = 14;

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const CHALLENGE: u8 = 0x03;
const RESPONSE: u8 = 0x04;
const TRAIN: u8 = 0x05;
const REPORT: u8 = 0x0a;
const LIMIT: u8 = 0x07;
const CLOSE: u8 = 0x08;
const PARITY: u8 = 0x09;
const CRYPTO: u8 = 0x0b;
const SEEN: u8 = 0x0c;
/// Low bits: 1 the data end the stream, 2 they have a place in a block.
const DATA: u8 = 0x10;
const DATA_END: u8 = 0x01;
const DATA_IN_BLOCK: u8 = 0x02;

/// The place of a packet's data in a block of error correction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BlockPlace {
    pub(crate) block: u32,
    pub(crate) index: u8,
}

/// A part of the stream. Always the last frame of its packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DataHeader {
    pub(crate) offset: u64,
    /// The stream ends behind this part.
    pub(crate) end: bool,
    pub(crate) place: Option<BlockPlace>,
}

/// A correction symbol. Always the last frame of its packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ParityHeader {
    pub(crate) block: u32,
    /// Where the first segment of the block starts.
    pub(crate) start: u64,
    /// How many segments the block has.
    pub(crate) segments: u8,
    /// How many correction symbols it has: the code depends on it.
    pub(crate) count: u8,
    /// Which of them this is.
    pub(crate) index: u8,
}

/// Which packets of a train came how fast, or nothing but a greeting back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Report {
    pub(crate) train: u8,
    /// How many of its packets came.
    pub(crate) received: u8,
    /// How many of its first packets tell what the path loses: all that could have come, unless the
    /// others overflowed a queue.
    pub(crate) clear: u8,
    /// How many of those came.
    pub(crate) clear_received: u8,
    /// The largest of them in bytes of UDP payload: this size passes.
    pub(crate) largest: u16,
    /// The rate of the bottleneck in bytes on the wire per second; zero if it could not be told.
    pub(crate) rate: u64,
    /// Half the width of the band in which the rate lies, as parts per thousand of it.
    pub(crate) error: u16,
    /// The path is at least this fast, rather than just so.
    pub(crate) at_least: bool,
}

/// What has come, and what may.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Ack {
    /// The largest packet number that has come.
    pub(crate) largest: u64,
    /// Microseconds between its arrival and this acknowledgement.
    pub(crate) delay: u32,
    /// The receiver's clock at its arrival, in microseconds, modulo 2^32.
    pub(crate) timestamp: u32,
    /// Bytes on the wire per second at which packets arrive, in units of 1,024; zero if not known.
    pub(crate) arrival_rate: u32,
    /// Packet numbers that have come, newest first, the first one ending at `largest`.
    pub(crate) ranges: Vec<Range<u64>>,
    /// The stream may go up to this place.
    pub(crate) limit: u64,
    /// Everything of the stream before this place has come or is recovered.
    pub(crate) contiguous: u64,
    /// Further pieces that have, in order. What lies between two of them is missing.
    pub(crate) pieces: Vec<Range<u64>>,
}

/// A frame of a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Frame<'a> {
    /// The rest of the packet means nothing.
    Padding,
    /// Asks for an acknowledgement.
    Ping,
    Ack(Ack),
    Challenge(u64),
    Response(u64),
    Train {
        id: u8,
        index: u8,
        count: u8,
        /// How long after the first packet of the train this one left, in microseconds; below 2^24.
        left: u32,
    },
    Report(Report),
    Limit(u64),
    Close(u64),
    /// A piece of the handshake messages of the packet's level, and its place among them.
    Crypto(u16, &'a [u8]),
    /// The largest number of a packet of this level that came, and for how long it was held.
    Seen(Space, u32, Duration),
    Parity(ParityHeader, &'a [u8]),
    Data(DataHeader, &'a [u8]),
}

/// Why a packet that is authentic makes no sense: its sender does not follow the protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed;

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Self {
        Self
    }
}

/// Reads one frame.
pub(crate) fn read_frame<'a>(reader: &mut Reader<'a>) -> Result<Frame<'a>, Malformed> {
    let kind = reader.u8()?;
    Ok(match kind {
        PADDING => {
            reader.rest();
            Frame::Padding
        }
        PING => Frame::Ping,
        ACK => Frame::Ack(read_ack(reader)?),
        CHALLENGE => Frame::Challenge(reader.uint(8)?),
        RESPONSE => Frame::Response(reader.uint(8)?),
        TRAIN => {
            let (id, index, count) = (reader.u8()?, reader.u8()?, reader.u8()?);
            if index >= count {
                return Err(Malformed);
            }
            Frame::Train {
                id,
                index,
                count,
                // Three bytes fit.
                left: reader.uint(3)? as u32,
            }
        }
        REPORT => {
            let (train, received) = (reader.u8()?, reader.u8()?);
            let (clear, clear_received) = (reader.u8()?, reader.u8()?);
            // Two and six bytes fit.
            let largest = reader.uint(2)? as u16;
            let rate = reader.uint(6)?;
            let error = reader.uint(2)? as u16;
            Frame::Report(Report {
                train,
                received,
                clear,
                clear_received,
                largest,
                rate,
                error: error & 0x7fff,
                at_least: error & 0x8000 != 0,
            })
        }
        LIMIT => Frame::Limit(reader.uint(6)?),
        CLOSE => Frame::Close(reader.uint(8)?),
        CRYPTO => {
            // Two bytes each.
            let (offset, length) = (reader.uint(2)? as u16, reader.uint(2)?);
            Frame::Crypto(offset, reader.take(length as usize)?)
        }
        SEEN => {
            let space = match reader.u8()? {
                0 => Space::Initial,
                1 => Space::Handshake,
                _ => return Err(Malformed),
            };
            // Four bytes fit.
            let number = reader.uint(4)? as u32;
            Frame::Seen(space, number, Duration::from_micros(reader.uint(4)?))
        }
        PARITY => {
            let header = ParityHeader {
                block: reader.uint(4)? as u32,
                start: reader.uint(6)?,
                segments: reader.u8()?,
                count: reader.u8()?,
                index: reader.u8()?,
            };
            Frame::Parity(header, reader.rest())
        }
        _ if kind & !(DATA_END | DATA_IN_BLOCK) == DATA => {
            let offset = reader.uint(6)?;
            let place = if kind & DATA_IN_BLOCK != 0 {
                Some(BlockPlace {
                    block: reader.uint(4)? as u32,
                    index: reader.u8()?,
                })
            } else {
                None
            };
            let data = reader.rest();
            if offset + data.len() as u64 >= STREAM_END {
                return Err(Malformed);
            }
            let header = DataHeader {
                offset,
                end: kind & DATA_END != 0,
                place,
            };
            Frame::Data(header, data)
        }
        _ => return Err(Malformed),
    })
}

fn read_ack(reader: &mut Reader<'_>) -> Result<Ack, Malformed> {
    let largest = reader.uint(6)?;
    // Four bytes each.
    let delay = reader.uint(4)? as u32;
    let timestamp = reader.uint(4)? as u32;
    let arrival_rate = reader.uint(4)? as u32;
    let limit = reader.uint(6)?;
    let contiguous = reader.uint(6)?;
    let (range_count, piece_count) = (usize::from(reader.u8()?), usize::from(reader.u8()?));
    if range_count == 0 || range_count > MAX_ACK_RANGES || piece_count > MAX_ACK_PIECES {
        return Err(Malformed);
    }
    let mut ranges = Vec::with_capacity(range_count);
    let mut end = largest + 1;
    for _ in 0..range_count {
        let start = end
            .checked_sub(reader.varint()?)
            .filter(|&start| start < end)
            .ok_or(Malformed)?;
        ranges.push(start..end);
        if ranges.len() < range_count {
            let gap = reader.varint()?;
            end = start
                .checked_sub(gap)
                .filter(|_| gap > 0)
                .ok_or(Malformed)?;
        }
    }
    let mut pieces = Vec::with_capacity(piece_count);
    let mut at = contiguous;
    for _ in 0..piece_count {
        let (gap, length) = (reader.varint()?, reader.varint()?);
        // Both are below 2^62 and places below 2^48: no overflow.
        let start = at + gap;
        let end = start + length;
        if gap == 0 || length == 0 || end >= STREAM_END {
            return Err(Malformed);
        }
        pieces.push(start..end);
        at = end;
    }
    Ok(Ack {
        largest,
        delay,
        timestamp,
        arrival_rate,
        ranges,
        limit,
        contiguous,
        pieces,
    })
}

pub(crate) fn put_padding(out: &mut Vec<u8>, length: usize) {
    out.resize(out.len() + length, PADDING);
}

pub(crate) fn put_ping(out: &mut Vec<u8>) {
    out.push(PING);
}

pub(crate) fn put_challenge(out: &mut Vec<u8>, token: u64) {
    out.push(CHALLENGE);
    put_uint(out, token, 8);
}

pub(crate) fn put_response(out: &mut Vec<u8>, token: u64) {
    out.push(RESPONSE);
    put_uint(out, token, 8);
}

/// `left` is how long after the first packet of the train this one leaves.
pub(crate) fn put_train(out: &mut Vec<u8>, id: u8, index: u8, count: u8, left: Duration) {
    out.extend_from_slice(&[TRAIN, id, index, count]);
    put_uint(out, (left.as_micros() as u64).min((1 << 24) - 1), 3);
}

pub(crate) fn put_report(out: &mut Vec<u8>, report: &Report) {
    out.extend_from_slice(&[REPORT, report.train, report.received]);
    out.extend_from_slice(&[report.clear, report.clear_received]);
    put_uint(out, u64::from(report.largest), 2);
    put_uint(out, report.rate.min((1 << 48) - 1), 6);
    let error = report.error.min(0x7fff) | if report.at_least { 0x8000 } else { 0 };
    put_uint(out, u64::from(error), 2);
}

pub(crate) fn put_limit(out: &mut Vec<u8>, limit: u64) {
    out.push(LIMIT);
    put_uint(out, limit, 6);
}

pub(crate) fn put_close(out: &mut Vec<u8>, code: u64) {
    out.push(CLOSE);
    put_uint(out, code, 8);
}

/// `offset` and the length of `messages` are below 2^16.
pub(crate) fn put_crypto(out: &mut Vec<u8>, offset: usize, messages: &[u8]) {
    out.push(CRYPTO);
    put_uint(out, offset as u64, 2);
    put_uint(out, messages.len() as u64, 2);
    out.extend_from_slice(messages);
}

/// `held` is how long ago the packet came.
pub(crate) fn put_seen(out: &mut Vec<u8>, space: Space, number: u32, held: Duration) {
    out.extend_from_slice(&[SEEN, u8::from(space == Space::Handshake)]);
    put_uint(out, number.into(), 4);
    put_uint(out, (held.as_micros() as u64).min(u32::MAX.into()), 4);
}

pub(crate) fn put_parity(out: &mut Vec<u8>, header: &ParityHeader, symbol: &[u8]) {
    out.push(PARITY);
    put_uint(out, u64::from(header.block), 4);
    put_uint(out, header.start, 6);
    out.extend_from_slice(&[header.segments, header.count, header.index]);
    out.extend_from_slice(symbol);
}

/// Writes what stands before the data of a data frame; the data follow.
pub(crate) fn put_data_header(out: &mut Vec<u8>, header: &DataHeader) {
    let end = if header.end { DATA_END } else { 0 };
    let in_block = if header.place.is_some() {
        DATA_IN_BLOCK
    } else {
        0
    };
    out.push(DATA | end | in_block);
    put_uint(out, header.offset, 6);
    if let Some(place) = header.place {
        put_uint(out, u64::from(place.block), 4);
        out.push(place.index);
    }
}

/// Writes an acknowledgement in at most `room` bytes, leaving out what does not fit.
///
/// Returns whether the least that makes sense fitted.
pub(crate) fn put_ack(out: &mut Vec<u8>, ack: &Ack, room: usize) -> bool {
    const FIXED: usize = 33;
    let Some(first) = ack.ranges.first() else {
        return false;
    };
    let mut left = room;
    let mut spend = |bytes: usize| {
        let enough = bytes <= left;
        left -= if enough { bytes } else { left };
        enough
    };
    if !spend(FIXED + varint_len(first.end - first.start)) {
        return false;
    }
    let mut ranges = 1;
    for pair in ack.ranges.windows(2).take(MAX_ACK_RANGES - 1) {
        let (gap, length) = (pair[0].start - pair[1].end, pair[1].end - pair[1].start);
        if !spend(varint_len(gap) + varint_len(length)) {
            break;
        }
        ranges += 1;
    }
    let mut pieces = 0;
    let mut at = ack.contiguous;
    for piece in ack.pieces.iter().take(MAX_ACK_PIECES) {
        if !spend(varint_len(piece.start - at) + varint_len(piece.end - piece.start)) {
            break;
        }
        at = piece.end;
        pieces += 1;
    }
    out.push(ACK);
    put_uint(out, ack.largest, 6);
    put_uint(out, u64::from(ack.delay), 4);
    put_uint(out, u64::from(ack.timestamp), 4);
    put_uint(out, u64::from(ack.arrival_rate), 4);
    put_uint(out, ack.limit, 6);
    put_uint(out, ack.contiguous, 6);
    // At most 64 and 32.
    out.extend_from_slice(&[ranges as u8, pieces as u8]);
    for (index, range) in ack.ranges[..ranges].iter().enumerate() {
        if index > 0 {
            put_varint(out, ack.ranges[index - 1].start - range.end);
        }
        put_varint(out, range.end - range.start);
    }
    let mut at = ack.contiguous;
    for piece in &ack.pieces[..pieces] {
        put_varint(out, piece.start - at);
        put_varint(out, piece.end - piece.start);
        at = piece.end;
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(bytes: &[u8]) -> Result<Vec<Frame<'_>>, Malformed> {
        let mut reader = Reader(bytes);
        let mut frames = Vec::new();
        while !reader.is_empty() {
            frames.push(read_frame(&mut reader)?);
        }
        Ok(frames)
    }

    fn ack() -> Ack {
        Ack {
            largest: 1000,
            delay: 17,
            timestamp: 99,
            arrival_rate: 122_070,
            ranges: vec![990..1001, 500..980, 0..1],
            limit: 1 << 20,
            contiguous: 5000,
            pieces: vec![6000..7000, 100_000..100_001],
        }
    }

    #[test]
    fn frames_go_there_and_back() {
        let report = Report {
            train: 1,
            received: 127,
            clear: 125,
            clear_received: 124,
            largest: 1472,
            rate: 125_000_000,
            error: 31,
            at_least: true,
        };
        let parity = ParityHeader {
            block: 7,
            start: 1 << 40,
            segments: 200,
            count: 2,
            index: 1,
        };
        let data = DataHeader {
            offset: 12_345,
            end: true,
            place: Some(BlockPlace { block: 9, index: 3 }),
        };
        let mut out = Vec::new();
        put_ping(&mut out);
        assert!(put_ack(&mut out, &ack(), 1000));
        put_challenge(&mut out, 1);
        put_response(&mut out, u64::MAX);
        put_train(&mut out, 1, 2, 3, Duration::from_micros(70_000));
        put_report(&mut out, &report);
        put_limit(&mut out, 77);
        put_close(&mut out, 42);
        let common = out.clone();
        let mut expected = vec![
            Frame::Ping,
            Frame::Ack(ack()),
            Frame::Challenge(1),
            Frame::Response(u64::MAX),
            Frame::Train {
                id: 1,
                index: 2,
                count: 3,
                left: 70_000,
            },
            Frame::Report(report),
            Frame::Limit(77),
            Frame::Close(42),
        ];
        put_data_header(&mut out, &data);
        assert_eq!(out.len() - common.len(), BLOCK_DATA_HEADER);
        out.extend_from_slice(b"abc");
        expected.push(Frame::Data(data, b"abc"));
        assert_eq!(read_all(&out), Ok(expected));
        let mut out = Vec::new();
        put_parity(&mut out, &parity, b"symbol");
        assert_eq!(out.len(), PARITY_HEADER + 6);
        assert_eq!(read_all(&out), Ok(vec![Frame::Parity(parity, b"symbol")]));
        let mut out = Vec::new();
        let plain = DataHeader {
            end: false,
            place: None,
            ..data
        };
        put_data_header(&mut out, &plain);
        assert_eq!(out.len(), DATA_HEADER);
        assert_eq!(read_all(&out), Ok(vec![Frame::Data(plain, b"")]));
    }

    #[test]
    fn an_acknowledgement_drops_what_does_not_fit() {
        for room in 0..60 {
            let mut out = Vec::new();
            let fitted = put_ack(&mut out, &ack(), room);
            assert!(out.len() <= room);
            assert_eq!(fitted, room >= 34);
            if fitted {
                let frames = read_all(&out).unwrap();
                let Frame::Ack(read) = &frames[0] else {
                    panic!("{frames:?}")
                };
                assert!(ack().ranges.starts_with(&read.ranges));
                assert!(ack().pieces.starts_with(&read.pieces));
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..0x14) {
            let mut bytes = bytes;
            let _ = read_all(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let _ = read_all(&bytes);
        }
    }
}
