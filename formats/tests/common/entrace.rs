//! ENTRACE bytes put together without the library's encoder, and events written and read again.
#![allow(dead_code, unreachable_pub, missing_docs)]

use fdr_formats::TraceInfo;

use crate::common::{Event, ReadTrace, intact, thread, write_pieces};

/// Every target.
pub const TARGETS: [&str; 6] = ["et", "iet", "iet-prefix", "et2", "iet2", "iet-prefix2"];

/// Writes one thread's events to a file of that target, and reads them.
pub fn round(name: &str, info: &TraceInfo, events: &[Event]) -> ReadTrace {
    let (bytes, losses) = write_pieces(name, info, &[(thread(7), events.to_vec())]);
    assert_eq!(losses.to_string(), "", "{name}");
    intact(&bytes)
}

/// A number of bincode, typed by its document.
pub fn number(value: u64) -> Vec<u8> {
    match value {
        0..251 => vec![value as u8],
        251..0x1_0000 => [&[251][..], &(value as u16).to_le_bytes()].concat(),
        0x1_0000..0x1_0000_0000 => [&[252][..], &(value as u32).to_le_bytes()].concat(),
        _ => [&[253][..], &value.to_le_bytes()].concat(),
    }
}

pub fn text(text: &str) -> Vec<u8> {
    [&number(text.len() as u64)[..], text.as_bytes()].concat()
}

/// An entry of version 2 with unsigned attributes, level Info, no module, file and line.
pub fn entry(parent: u64, name: &str, target: &str, attributes: &[(&str, u64)]) -> Vec<u8> {
    let mut bytes = [number(parent), vec![0], text(name), text(target)].concat();
    bytes.extend([2, 0, 0, 0]);
    bytes.extend(number(attributes.len() as u64));
    for (name, _) in attributes {
        bytes.extend(text(name));
    }
    bytes.extend(number(attributes.len() as u64));
    for (_, value) in attributes {
        bytes.push(4);
        bytes.extend(number(*value));
    }
    bytes
}

pub fn root() -> Vec<u8> {
    [&[0, 0, 4][..], b"root", &[0, 0, 0, 0, 0, 0, 0]].concat()
}

/// A call of thread 7.
pub fn call(parent: u64, name: &str, start: u64, duration: u64) -> Vec<u8> {
    let attributes = [("duration_ns", duration), ("start_ns", start), ("tid", 7)];
    entry(parent, name, "", &attributes)
}

/// A file of version 2: head, and entries in that container (1 IET, 2 `IETPrefix`).
pub fn file(container: u8, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = [&b"\0ENTRACE\x02"[..], &[container]].concat();
    for entry in entries {
        if container == 2 {
            bytes.extend((entry.len() as u64).to_le_bytes());
        }
        bytes.extend(entry);
    }
    bytes
}

/// An ET of version 2; the pool as given.
pub fn et(entries: &[Vec<u8>], pool: &[&[u64]]) -> Vec<u8> {
    let mut bytes = b"\0ENTRACE\x02\x00".to_vec();
    bytes.extend(number(entries.len() as u64));
    let mut offset = 0;
    for entry in entries {
        bytes.extend(number(offset));
        offset += entry.len() as u64;
    }
    bytes.extend(number(pool.len() as u64));
    for children in pool {
        bytes.extend(number(children.len() as u64));
        children
            .iter()
            .for_each(|&child| bytes.extend(number(child)));
    }
    bytes.extend(entries.concat());
    bytes
}
