//! The fast path of decoding: a call as this project writes it, with metadata that was seen before. The
//! fast path must never take an entry that [`decode_entry`](super::record::decode_entry) refuses, and must
//! give the same values. The general decoder gets every other entry.

use super::bincode::{Bad, Input};
use super::record::Version;

/// A call without message and arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OrdinaryCall<'a> {
    pub(super) parent: u32,
    /// Not looked at but for its length: to be compared with metadata that was.
    pub(super) metadata: &'a [u8],
    /// Bytes of the entry.
    pub(super) size: usize,
    pub(super) thread: u64,
    pub(super) start: u64,
    pub(super) duration: Option<u64>,
    pub(super) cpu: Option<u32>,
    pub(super) exit_cpu: Option<u32>,
    pub(super) flags: u8,
}

/// The attributes of such a call, each with its length in front, in their order.
const NAMES: [&[u8]; 6] = [
    b"\x03cpu",
    b"\x0bduration_ns",
    b"\x08exit_cpu",
    b"\x05flags",
    b"\x08start_ns",
    b"\x03tid",
];
/// The kind of their values.
const U64: u8 = 4;

/// Reads the call that `bytes` begin with, if they do.
#[inline]
pub(super) fn decode(bytes: &[u8], version: Version) -> Option<OrdinaryCall<'_>> {
    let mut input = Input::new(bytes);
    let parent = input.u32().ok()?;
    if input.byte() != Ok(0) {
        return None;
    }
    let start = input.taken();
    skip_metadata(&mut input).ok()?;
    let metadata = bytes.get(start..input.taken())?;
    let count = usize::from(input.byte().ok()?);
    if count > NAMES.len() {
        return None;
    }
    let mut values = [None; NAMES.len()];
    let mut rank = 0;
    match version {
        Version::V1 => {
            for _ in 0..count {
                rank = name(&mut input, rank)?;
                values[rank - 1] = Some(number(&mut input)?);
            }
        }
        Version::V2 => {
            let mut ranks = [0; NAMES.len()];
            for place in &mut ranks[..count] {
                rank = name(&mut input, rank)?;
                *place = rank - 1;
            }
            if usize::from(input.byte().ok()?) != count {
                return None;
            }
            for &place in &ranks[..count] {
                values[place] = Some(number(&mut input)?);
            }
        }
    }
    let [cpu, duration, exit_cpu, flags, start, thread] = values;
    let narrow = |value: Option<u64>| value.map(u32::try_from).transpose().ok();
    Some(OrdinaryCall {
        parent,
        metadata,
        size: input.taken(),
        thread: thread?,
        start: start?,
        duration,
        cpu: narrow(cpu)?,
        exit_cpu: narrow(exit_cpu)?,
        flags: u8::try_from(flags.unwrap_or(0)).ok()?,
    })
}

fn skip_metadata(input: &mut Input<'_>) -> Result<(), Bad> {
    // Name, target, level; module, file, line.
    input.bytes()?;
    input.bytes()?;
    input.byte()?;
    for _ in 0..2 {
        if input.present()? {
            input.bytes()?;
        }
    }
    if input.present()? {
        input.u32()?;
    }
    Ok(())
}

/// Takes the name of an attribute that comes after the first `rank` ones; returns how many ones that
/// makes.
#[inline]
fn name(input: &mut Input<'_>, rank: usize) -> Option<usize> {
    let names = NAMES.iter().skip(rank);
    let found = names.zip(rank + 1..).find(|(name, _)| input.skip(name));
    found.map(|(_, rank)| rank)
}

#[inline]
fn number(input: &mut Input<'_>) -> Option<u64> {
    if input.byte() != Ok(U64) {
        return None;
    }
    input.u64().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entrace::record::{Entry, Level, Metadata, Value, decode_entry, encode_entry};

    /// The same, taken from what the general reader has.
    fn general<'a>(bytes: &'a [u8], version: Version) -> Option<OrdinaryCall<'a>> {
        let decoded = decode_entry(bytes, version).ok()?;
        let entry = &decoded.entry;
        let number = |name| match entry.attribute(name) {
            Some(Value::U64(value)) => Some(value),
            _ => None,
        };
        let narrow = |name| number(name).map(|value| u32::try_from(value).expect("narrow"));
        let flags = number("flags").unwrap_or(0);
        let known = ["cpu", "duration_ns", "exit_cpu", "flags", "start_ns", "tid"];
        assert!(entry.is_sorted() && entry.message.is_none());
        for (name, value) in &entry.attributes {
            assert!(known.contains(name) && matches!(value, Value::U64(_)));
        }
        Some(OrdinaryCall {
            parent: entry.parent,
            metadata: decoded.metadata,
            size: decoded.size,
            thread: number("tid")?,
            start: number("start_ns")?,
            duration: number("duration_ns"),
            cpu: narrow("cpu"),
            exit_cpu: narrow("exit_cpu"),
            flags: u8::try_from(flags).expect("narrow"),
        })
    }

    #[test]
    fn what_is_taken_is_what_the_careful_reader_takes() {
        let metadata = Metadata {
            name: "a::b",
            target: "a",
            level: Level::Info,
            module_path: Some("a"),
            file: Some("ä.rs"),
            line: Some(300),
        };
        let all = [
            ("cpu", 7),
            ("duration_ns", 251),
            ("exit_cpu", u64::from(u32::MAX)),
            ("flags", 255),
            ("start_ns", u64::MAX),
            ("tid", 70_000),
        ];
        let mut taken = 0;
        for version in [Version::V1, Version::V2] {
            // Every choice of attributes.
            for choice in 0..1 << all.len() {
                let chosen = all.iter().enumerate();
                let chosen = chosen.filter(|(place, _)| choice & 1 << place != 0);
                let attributes = chosen.map(|(_, &(name, value))| (name, Value::U64(value)));
                let entry = Entry {
                    parent: 1000,
                    message: None,
                    metadata,
                    attributes: attributes.collect(),
                };
                let mut bytes = Vec::new();
                encode_entry(&entry, version, &mut bytes);
                let found = decode(&bytes, version);
                assert_eq!(found, general(&bytes, version));
                let Some(ordinary) = found else { continue };
                let known = ordinary.metadata.to_vec();
                // Whatever happens to the bytes outside of the metadata.
                for place in 0..bytes.len() {
                    for mask in 1..=255 {
                        bytes[place] ^= mask;
                        let changed = decode(&bytes, version);
                        if changed.is_some_and(|ordinary| ordinary.metadata == known) {
                            assert_eq!(changed, general(&bytes, version));
                            taken += 1;
                        }
                        bytes[place] ^= mask;
                    }
                }
            }
        }
        assert!(taken > 10_000, "{taken}");
    }
}
