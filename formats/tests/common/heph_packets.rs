//! Heph packets, taken apart with nothing but the format's document. Holds no code of the library, and
//! must never use any: it is what its files are judged by. Checks what Heph's own converter wants.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

/// The stream of what a trace says of itself.
pub const FACTS: u32 = u32::MAX;
/// More bytes than this can be more than the converter has at hand.
const MAX: usize = 128;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    Array(u8),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    pub size: usize,
    pub stream: u32,
    pub counter: u32,
    pub substream: u64,
    pub start: u64,
    pub end: u64,
    pub description: String,
    pub attributes: Vec<(String, Value)>,
}

impl Packet {
    pub fn is_array(&self) -> bool {
        let mut values = self.attributes.iter().map(|(_, value)| value);
        values.any(|value| matches!(value, Value::Array(_)))
    }

    /// All texts of that name, one behind the other.
    pub fn text(&self, name: &str) -> String {
        let texts = self.attributes.iter().filter(|(other, _)| other == name);
        texts
            .map(|(_, value)| match value {
                Value::Text(text) => &**text,
                other => panic!("{name} is {other:?}"),
            })
            .collect()
    }
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .expect("it leaves the packet");
        self.0 = rest;
        taken
    }

    fn number(&mut self, bytes: usize) -> u64 {
        let bytes = self.take(bytes).iter();
        bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    fn text(&mut self) -> String {
        let count = self.number(2) as usize;
        let text = self.take(count).to_vec();
        String::from_utf8(text).expect("UTF-8 in every packet")
    }

    fn value(&mut self) -> Value {
        match self.number(1) as u8 {
            1 => Value::Unsigned(self.number(8)),
            2 => Value::Signed(self.number(8) as i64),
            3 => Value::Float(f64::from_bits(self.number(8))),
            4 => Value::Text(self.text()),
            kind @ (0x81..=0x83) => {
                let count = self.number(2) as usize;
                let _ = self.take(8 * count);
                Value::Array(kind)
            }
            kind => panic!("type {kind:#x}"),
        }
    }
}

/// The epoch, if it stands in front, and all events. There is nothing else in the file.
pub fn packets(bytes: &[u8]) -> (Option<u64>, Vec<Packet>) {
    let (mut epoch, mut events, mut rest) = (None, Vec::new(), Fields(bytes));
    while !rest.0.is_empty() {
        let (magic, size) = (rest.number(4), rest.number(4) as usize);
        let mut fields = Fields(rest.take(size - 8));
        match magic {
            0x75d1_1d4d => {
                assert!(epoch.is_none() && events.is_empty(), "one epoch, in front");
                assert_eq!((size, &*fields.text()), (23, "epoch"));
                epoch = Some(fields.number(8));
            }
            0xc1fc_1fb7 => {
                let (stream, counter) = (fields.number(4) as u32, fields.number(4) as u32);
                let substream = fields.number(8);
                let (start, end) = (fields.number(8), fields.number(8));
                let description = fields.text();
                let mut attributes = Vec::new();
                while !fields.0.is_empty() {
                    let name = fields.text();
                    attributes.push((name, fields.value()));
                }
                events.push(Packet {
                    size,
                    stream,
                    counter,
                    substream,
                    start,
                    end,
                    description,
                    attributes,
                });
            }
            magic => panic!("magic {magic:#x}"),
        }
    }
    (epoch, events)
}

/// The packets of a trace that Heph's converter takes, and of which it makes JSON. No two events of a substream
/// begin in the same microsecond, because it may not end then.
pub fn convertible(bytes: &[u8]) -> Vec<Packet> {
    let (epoch, events) = packets(bytes);
    // The converter wants more bytes behind the epoch than it takes.
    assert!(!events.is_empty());
    let epoch = epoch.unwrap_or(0);
    let mut microseconds: BTreeSet<(u32, u64, u64)> = BTreeSet::new();
    let mut counters: BTreeMap<u32, u32> = BTreeMap::new();
    // The converter prints texts into JSON as they are.
    let breaks =
        |text: &str| text.contains(|letter: char| letter.is_control() || "\"\\".contains(letter));
    for event in &events {
        assert!(!breaks(&event.description), "{event:#?}");
        for (name, value) in &event.attributes {
            let text = matches!(value, Value::Text(text) if breaks(text));
            assert!(!text && !breaks(name), "{event:#?}");
        }
        assert!(event.size <= MAX, "{event:#?}");
        assert!(!event.is_array(), "{event:#?}");
        assert!(event.start <= event.end, "{event:#?}");
        let counter = counters.entry(event.stream).or_insert(event.counter);
        assert!(event.counter >= *counter, "{event:#?}");
        *counter = event.counter + 1;
        let microsecond = (epoch + event.start) / 1000;
        let key = (event.stream, event.substream, microsecond);
        assert!(microseconds.insert(key), "{event:#?}");
    }
    events
}
