//! Parsing and writing of frames, the contents of packets.
//!
//! docs/rudp.md describes every byte. `tests/it/golden.rs` fails if the format changes.

use std::ops::Range;
use std::time::Duration;

use crate::handshake::packet::Space;
use crate::wire::{Reader, Truncated, put_uint, put_varint, varint_len};

/// The maximum number of ranges of packet numbers in an acknowledgement. If there are more, it
/// contains the newest ones.
pub(crate) const MAX_ACK_RANGES: usize = 64;

/// The maximum number of ranges of stream data after the first gap in an acknowledgement. If there
/// are more, it contains the first ones.
pub(crate) const MAX_ACK_PIECES: usize = 32;

/// One more than the maximum offset of a stream.
pub(crate) const STREAM_END: u64 = 1 << 48;

/// The size of a data frame without its data and without a place in a block, in bytes.
pub(crate) const DATA_HEADER: usize = 7;
/// The size of a data frame without its data and with a place in a block, in bytes.
pub(crate) const BLOCK_DATA_HEADER: usize = 12;

/// The size of a crypto frame without its messages, in bytes.
pub(crate) const CRYPTO_HEADER: usize = 5;

/// The size of a parity frame without its symbol, in bytes.
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
/// The type of a data frame, to which flags are added.
const DATA: u8 = 0x10;
/// Flag of a data frame: the data end the stream.
const DATA_END: u8 = 0x01;
/// Flag of a data frame: the data have a place in a block.
const DATA_IN_BLOCK: u8 = 0x02;

/// The place of a packet's data in a block of forward error correction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BlockPlace {
    pub(crate) block: u32,
    pub(crate) index: u8,
}

/// The header of a piece of the stream. A data frame is always the last frame of its packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DataHeader {
    pub(crate) offset: u64,
    /// `true` if the stream ends after this piece.
    pub(crate) end: bool,
    pub(crate) place: Option<BlockPlace>,
}

/// The header of a parity symbol. A parity frame is always the last frame of its packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ParityHeader {
    pub(crate) block: u32,
    /// The offset of the first segment of the block.
    pub(crate) start: u64,
    /// The number of segments of the block.
    pub(crate) segments: u8,
    /// The number of parity symbols of the block.
    pub(crate) count: u8,
    /// The index of this parity symbol.
    pub(crate) index: u8,
}

/// A report on the packets of a train that arrived.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Report {
    pub(crate) train: u8,
    /// The number of packets that arrived.
    pub(crate) received: u8,
    /// The number of packets sent before the train overflowed a queue. It is all packets if there
    /// was no overflow. Losses among these packets are random losses of the path.
    pub(crate) clear: u8,
    /// The number of the packets in `clear` that arrived.
    pub(crate) clear_received: u8,
    /// The size of the largest packet that arrived, in bytes of UDP payload.
    pub(crate) largest: u16,
    /// The rate of the bottleneck in bytes on the wire per second; zero if it could not be
    /// measured.
    pub(crate) rate: u64,
    /// Half the width of the interval in which the rate lies, as parts per thousand of the rate.
    pub(crate) error: u16,
    /// `true` if the rate is only a lower bound.
    pub(crate) at_least: bool,
}

/// An acknowledgement, with the flow-control limit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Ack {
    /// The largest packet number received.
    pub(crate) largest: u64,
    /// The time between the arrival of packet `largest` and this acknowledgement, in microseconds.
    pub(crate) delay: u32,
    /// The receiver's clock at the arrival of packet `largest`, in microseconds, modulo 2^32.
    pub(crate) timestamp: u32,
    /// The rate at which packets arrive, in units of 1,024 bytes on the wire per second; zero if it
    /// is not known.
    pub(crate) arrival_rate: u32,
    /// The received packet numbers, newest first. The first range ends at `largest`.
    pub(crate) ranges: Vec<Range<u64>>,
    /// The flow-control limit: the offset up to which the peer may send.
    pub(crate) limit: u64,
    /// The offset before which all bytes of the stream were received or recovered.
    pub(crate) contiguous: u64,
    /// Ranges of the stream after `contiguous` that were received, in order. The bytes between two
    /// ranges are missing.
    pub(crate) pieces: Vec<Range<u64>>,
}

/// A frame of a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Frame<'a> {
    /// Padding: the rest of the packet is ignored.
    Padding,
    /// An otherwise empty frame that requires an acknowledgement.
    Ping,
    Ack(Ack),
    Challenge(u64),
    Response(u64),
    Train {
        id: u8,
        index: u8,
        count: u8,
        /// The time between the sending of the first packet of the train and this one, in
        /// microseconds; below 2^24.
        left: u32,
    },
    Report(Report),
    Limit(u64),
    Close(u64),
    /// The offset and the bytes of a piece of the handshake messages at the packet's encryption
    /// level.
    Crypto(u16, &'a [u8]),
    /// The largest packet number of this level received, and the time since its arrival.
    Seen(Space, u32, Duration),
    Parity(ParityHeader, &'a [u8]),
    Data(DataHeader, &'a [u8]),
}

/// Error of an authentic packet that cannot be parsed: the peer violates the protocol.
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
                // A three-byte field fits into u32.
                left: reader.uint(3)? as u32,
            }
        }
        REPORT => {
            let (train, received) = (reader.u8()?, reader.u8()?);
            let (clear, clear_received) = (reader.u8()?, reader.u8()?);
            // A two-byte field fits into u16.
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
            // A two-byte field fits into u16.
            let (offset, length) = (reader.uint(2)? as u16, reader.uint(2)?);
            Frame::Crypto(offset, reader.take(length as usize)?)
        }
        SEEN => {
            let space = match reader.u8()? {
                0 => Space::Initial,
                1 => Space::Handshake,
                _ => return Err(Malformed),
            };
            // A four-byte field fits into u32.
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
    // The next three fields have four bytes each, which fit into u32.
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
        // The gap and the length are below 2^62, and offsets are below 2^48: the sum does not
        // overflow.
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

/// Writes a train frame. `left` is the time between the sending of the first packet of the train
/// and this one.
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

/// Writes a crypto frame. `offset` and the length of `messages` are below 2^16.
pub(crate) fn put_crypto(out: &mut Vec<u8>, offset: usize, messages: &[u8]) {
    out.push(CRYPTO);
    put_uint(out, offset as u64, 2);
    put_uint(out, messages.len() as u64, 2);
    out.extend_from_slice(messages);
}

/// Writes a frame that acknowledges a handshake packet. `held` is the time since the packet
/// arrived.
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

/// Writes the header of a data frame. The data follow.
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

/// Writes an acknowledgement of at most `room` bytes, without the ranges and pieces that do not
/// fit.
///
/// Returns `false` if not even one range fits.
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
    // There are at most 64 ranges and 32 pieces, so each number fits into a byte.
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
    fn frames_round_trip() {
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
    fn an_acknowledgement_omits_ranges_that_do_not_fit() {
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
        fn arbitrary_bytes_do_not_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..0x14) {
            let mut bytes = bytes;
            let _ = read_all(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let _ = read_all(&bytes);
        }
    }
}
