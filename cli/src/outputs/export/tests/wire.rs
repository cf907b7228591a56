//! A reader of protobuf's wire format, and of the exports in this format. It follows the format's description alone.
//! The numbers of fields are those of the formats' own descriptions.

use std::collections::HashMap;
use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::parse::{ByName, Span, Stack, of_spans};

/// The value of a field.
#[derive(Clone, Copy, Debug)]
enum Item<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message.
struct Fields<'a>(Vec<(u64, Item<'a>)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a byte");
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return number;
        }
    }
    panic!("a number that is too long");
}

impl<'a> Fields<'a> {
    fn new(mut bytes: &'a [u8]) -> Fields<'a> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let item = match key & 7 {
                0 => Item::Number(varint(&mut bytes)),
                1 => {
                    let (number, rest) = bytes.split_at(8);
                    bytes = rest;
                    Item::Number(u64::from_le_bytes(number.try_into().expect("8 bytes")))
                }
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (inside, rest) = bytes.split_at(length);
                    bytes = rest;
                    Item::Bytes(inside)
                }
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, item));
        }
        Fields(fields)
    }

    fn items(&self, field: u64) -> impl Iterator<Item = Item<'a>> + '_ {
        self.0
            .iter()
            .filter(move |(number, _)| *number == field)
            .map(|(_, item)| *item)
    }

    fn bytes(&self, field: u64) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.items(field).map(move |item| match item {
            Item::Bytes(bytes) => bytes,
            Item::Number(number) => panic!("{field} is {number}"),
        })
    }

    fn messages(&self, field: u64) -> impl Iterator<Item = Fields<'a>> + '_ {
        self.bytes(field).map(Fields::new)
    }

    /// A number, 0 where it is not there.
    fn number(&self, field: u64) -> u64 {
        self.numbers(field).last().copied().unwrap_or_default()
    }

    /// All of them, packed or not.
    fn numbers(&self, field: u64) -> Vec<u64> {
        let mut all = Vec::new();
        for item in self.items(field) {
            match item {
                Item::Number(number) => all.push(number),
                Item::Bytes(mut bytes) => {
                    while !bytes.is_empty() {
                        all.push(varint(&mut bytes));
                    }
                }
            }
        }
        all
    }

    fn text(&self, field: u64) -> String {
        let bytes = self.bytes(field).last().unwrap_or_default();
        String::from_utf8(bytes.to_vec()).expect("UTF-8")
    }
}

pub(super) fn pprof(bytes: &[u8]) -> ByName {
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes)
        .read_to_end(&mut plain)
        .expect("gzip");
    let profile = Fields::new(&plain);
    let texts: Vec<&str> = profile
        .bytes(6)
        .map(|text| std::str::from_utf8(text).expect("UTF-8"))
        .collect();
    assert_eq!(texts[0], "");
    let units: Vec<[&str; 2]> = profile
        .messages(1)
        .map(|kind| [1, 2].map(|field| texts[kind.number(field) as usize]))
        .collect();
    assert_eq!(units, [["calls", "count"], ["time", "nanoseconds"]]);
    let functions: HashMap<u64, &str> = profile
        .messages(5)
        .map(|function| {
            // If the system's name is the same text, Go's pprof takes the name for one of C++, and cuts it.
            assert_eq!(function.items(3).count(), 0);
            (function.number(1), texts[function.number(2) as usize])
        })
        .collect();
    let locations: HashMap<u64, &str> = profile
        .messages(4)
        .map(|place| {
            let line = place.messages(4).next().expect("a line");
            (place.number(1), functions[&line.number(1)])
        })
        .collect();
    assert!(!locations.contains_key(&0));
    let mut sums = ByName::new();
    for sample in profile.messages(2) {
        let names: Vec<&str> = sample.numbers(1).iter().map(|id| locations[id]).collect();
        let values = sample.numbers(2);
        for (at, name) in names.iter().enumerate() {
            if *name == "[short]" || names[..at].contains(name) {
                continue;
            }
            let sums = sums.entry((*name).to_owned()).or_default();
            sums.total += values[1];
            if at == 0 {
                sums.calls += values[0];
                sums.own += values[1];
            }
        }
    }
    sums
}

pub(super) fn otlp(bytes: &[u8]) -> ByName {
    let mut spans: Vec<Span> = Vec::new();
    for resource in Fields::new(bytes).messages(1) {
        let about = resource.messages(1).next().expect("a resource");
        assert_eq!(
            about.messages(1).next().expect("an attribute").text(1),
            "service.name"
        );
        for scope in resource.messages(2) {
            for span in scope.messages(2) {
                let id = |field| span.bytes(field).last().unwrap_or_default().to_vec();
                assert_eq!((id(1).len(), id(2).len()), (16, 8));
                let own = span.messages(9).find(|pair| pair.text(1) == "fdr.self_ns");
                let own = own
                    .expect("its own time")
                    .messages(2)
                    .next()
                    .expect("a value");
                let total = span.number(8) - span.number(7);
                spans.push((id(2), id(4), span.text(5), total, own.number(3)));
            }
        }
    }
    of_spans(&spans)
}

pub(super) fn perfetto(bytes: &[u8]) -> ByName {
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut tracks = Vec::new();
    let mut stacks: HashMap<u64, Stack> = HashMap::new();
    let mut sums = ByName::new();
    for (at, packet) in Fields::new(bytes).messages(1).enumerate() {
        assert_eq!(packet.number(10) == 0, packet.bytes(1).next().is_some());
        // Names are forgotten before the first one.
        assert_eq!(packet.number(13) & 1 == 1, at == 0);
        for interned in packet.messages(12) {
            let new = interned
                .messages(2)
                .map(|name| (name.number(1), name.text(2)));
            names.extend(new);
        }
        tracks.extend(packet.messages(60).map(|track| track.number(1)));
        let time = packet.number(8);
        for event in packet.messages(11) {
            let track = event.number(11);
            assert!(tracks.contains(&track), "{track} is described");
            let stack = stacks.entry(track).or_default();
            match event.number(9) {
                1 => stack.open(&names[&event.number(10)], time),
                2 => stack.close(None, time, &mut sums),
                3 | 4 => {}
                other => panic!("{other}"),
            }
        }
    }
    assert!(stacks.values().all(|stack| stack.open.is_empty()));
    sums
}

/// The context switches in a Perfetto trace: CPU, time, thread that leaves, its state, thread that comes.
pub(super) fn switches(bytes: &[u8]) -> Vec<[u64; 5]> {
    let mut switches = Vec::new();
    for packet in Fields::new(bytes).messages(1) {
        for bundle in packet.messages(1) {
            for event in bundle.messages(2) {
                let switch = event.messages(4).next().expect("a switch");
                let [from, state, to] = [2, 4, 6].map(|field| switch.number(field));
                switches.push([bundle.number(1), event.number(1), from, state, to]);
            }
        }
    }
    switches
}
