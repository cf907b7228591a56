//! Folders of state histories for tests: made, and read by a small reader of their own that shares
//! nothing with the library and checks every rule of the format.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fdr_formats::{Losses, Thread, TraceInfo, registry};
use serde_json::Value as Json;

use crate::common::{Event, Folder, ReadTrace, read_source};

/// Writes events, in pieces that belong to threads.
pub fn write(info: &TraceInfo, pieces: &[(Thread, Vec<Event>)]) -> (Folder, Losses) {
    Folder::written("tcstate", info, pieces)
}

pub fn read_folder(folder: &Path) -> Result<ReadTrace, fdr_formats::Error> {
    Ok(read_source(&*registry::open_path(folder)?))
}

/// A history, checked.
#[derive(Debug)]
pub struct History {
    pub start: i64,
    pub end: i64,
    /// Of each key.
    pub paths: Vec<String>,
    pub types: Vec<String>,
    pub state: Vec<Json>,
    /// By path: start, end and value (`Integer:1`, `String:main`, `null`) of each interval.
    pub lines: BTreeMap<String, Vec<(i64, i64, String)>>,
    pub strings: Vec<String>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("enough bytes")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(number(bytes, at))
}

fn paths(node: &Json, path: &str, out: &mut Vec<(i64, String)>) {
    out.push((int(&node["key"]), path.to_owned()));
    let Some(children) = node.get("children") else {
        return;
    };
    let children = children.as_object().expect("children are an object");
    assert!(!children.is_empty(), "a leaf has no children");
    for (name, child) in children {
        let parent = if path.is_empty() {
            String::new()
        } else {
            format!("{path}/")
        };
        paths(child, &format!("{parent}{name}"), out);
    }
}

fn int(number: &Json) -> i64 {
    number.as_i64().expect("a whole number")
}

impl History {
    /// Reads a folder and asserts every rule of the format.
    pub fn read(folder: &Path) -> History {
        let json = |name: &str| {
            let text = fs::read_to_string(folder.join(name)).expect("a file of UTF-8");
            serde_json::from_str::<Json>(&text).expect(name)
        };
        let tree = json("tree.json");
        assert_eq!(tree["version"]["major"], 1);
        let mut nodes = Vec::new();
        paths(&tree["root"], "", &mut nodes);
        nodes.sort();
        let keys: Vec<i64> = nodes.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, (0..nodes.len() as i64).collect::<Vec<_>>());
        let paths: Vec<String> = nodes.into_iter().map(|(_, path)| path).collect();
        let by_key = |list: Json, member: &str| -> Vec<Json> {
            let elements = list.as_array().expect("a list").iter().enumerate();
            let values = elements.map(|(at, element)| {
                assert_eq!(element["key"], at);
                element.get(member).expect("a member").clone()
            });
            values.collect()
        };
        let types = by_key(json("types.json"), "type");
        let text = |name: &Json| name.as_str().expect("a text").to_owned();
        let types: Vec<String> = types.iter().map(text).collect();
        let state = by_key(json("state.json"), "value");
        assert_eq!((types.len(), state.len()), (paths.len(), paths.len()));
        let meta = json("meta.json");
        let mut history = History {
            start: int(&meta["start"]),
            end: int(&meta["end"]),
            paths,
            types,
            state,
            lines: BTreeMap::new(),
            strings: Vec::new(),
        };
        assert_eq!(meta["unit"], "ns");
        history.fill(&fs::read(folder.join("history.bin")).expect("a file"));
        history.check(int(&meta["timestamp"]));
        history
    }

    fn fill(&mut self, bytes: &[u8]) {
        assert_eq!(&bytes[..8], b"TCHIST\r\n");
        assert_eq!(&bytes[8..16], [1, 0, 0, 0, 64, 0, 0, 0]);
        assert_eq!(
            (i64_at(bytes, 16), i64_at(bytes, 24)),
            (self.start, self.end)
        );
        assert_eq!(u32_at(bytes, 40) as usize, self.paths.len());
        assert_eq!(u32_at(bytes, 44), 1, "sorted");
        let strings = i64_at(bytes, 48) as usize;
        let mut at = strings;
        while at < bytes.len() {
            let size = u32_at(bytes, at) as usize;
            let text = bytes[at + 4..at + 4 + size].to_vec();
            self.strings.push(String::from_utf8(text).expect("UTF-8"));
            at += 4 + size;
        }
        assert_eq!(at, bytes.len());
        assert_eq!(i64_at(bytes, 56) as usize, self.strings.len());
        let (mut at, mut count, mut last) = (64, 0, (i64::MIN, 0, 0));
        while at < strings {
            let (start, end, word) = (
                i64_at(bytes, at),
                i64_at(bytes, at + 8),
                u32_at(bytes, at + 16),
            );
            let key = word & 0x7fff_ffff;
            assert!((end, start, key) > last, "the order at byte {at}");
            last = (end, start, key);
            at += 20;
            let value = match (&*self.types[key as usize], word >> 31) {
                (_, 1) => "null".to_owned(),
                ("int", _) => {
                    at += 8;
                    format!("Integer:{}", i64_at(bytes, at - 8))
                }
                ("string", _) => {
                    at += 4;
                    format!("String:{}", self.strings[u32_at(bytes, at - 4) as usize])
                }
                (other, _) => panic!("a value of type {other} at byte {at}"),
            };
            let line = self
                .lines
                .entry(self.paths[key as usize].clone())
                .or_default();
            line.push((start, end, value));
            count += 1;
        }
        assert_eq!((at, count), (strings, i64_at(bytes, 32)));
    }

    fn check(&self, timestamp: i64) {
        for (key, path) in self.paths.iter().enumerate() {
            let line = &self.lines[path];
            let mut next = self.start;
            for (start, end, _) in line {
                assert_eq!(*start, next, "{path}");
                assert!(start <= end, "{path}");
                next = end + 1;
            }
            assert_eq!(next, self.end + 1, "{path}");
            let now = line
                .iter()
                .find(|(start, end, _)| *start <= timestamp && timestamp <= *end);
            let state = match &self.state[key] {
                Json::Null => "null".to_owned(),
                Json::Number(number) => format!("Integer:{number}"),
                Json::String(text) => format!("String:{text}"),
                other => panic!("{other:?}"),
            };
            assert_eq!(now.expect("an interval").2, state, "{path}");
        }
    }
}
