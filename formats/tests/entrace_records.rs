//! The layout of ENTRACE: each kind of value typed by hand, and files of other people's programs taken
//! apart and put together again, byte for byte.

use crate::common::{golden, hex};
use fdr_formats::entrace::bincode::{Bad, Input, put_u64};
use fdr_formats::entrace::record::{
    BadHead, Container, Entry, HEAD_SIZE, Kind, Level, MAX_ATTRIBUTES, Metadata, ROOT, Value,
    Version, decode_entry, decode_head, encode_entry, encode_head, probe,
};

/// The files of `entrace_core`: container, version, name.
const CRATES: [(&str, Container, Version); 7] = [
    ("v1.et", Container::Et, Version::V1),
    ("v1.iet", Container::Iet, Version::V1),
    ("v1.prefix.iet", Container::IetPrefix, Version::V1),
    ("v2.et", Container::Et, Version::V2),
    ("v2.iet", Container::Iet, Version::V2),
    ("v2.prefix.iet", Container::IetPrefix, Version::V2),
    ("scoreman.iet", Container::Iet, Version::V1),
];

#[test]
fn numbers_of_every_size() {
    let cases = [
        ("00", 0),
        ("fa", 250),
        ("fb fb00", 251),
        ("fb ffff", 0xffff),
        ("fc 00000100", 0x1_0000),
        ("fc ffffffff", 0xffff_ffff),
        ("fd 0000000001000000", 1 << 32),
        ("fd ffffffffffffffff", u64::MAX),
    ];
    for (bytes, value) in cases {
        let bytes = hex(bytes);
        let mut input = Input::new(&bytes);
        assert_eq!(input.u64(), Ok(value));
        assert_eq!((input.consumed(), input.remaining()), (bytes.len(), 0));
        let mut out = Vec::new();
        put_u64(&mut out, value);
        assert_eq!(out, bytes);
        for end in 0..bytes.len() {
            assert_eq!(Input::new(&bytes[..end]).u64(), Err(Bad::Short));
        }
    }
    let read = |text: &str| hex(text);
    // More bytes than need be are no damage; more than the type has are.
    assert_eq!(Input::new(&read("fb 0500")).u32(), Ok(5));
    assert_eq!(Input::new(&read("fd 0500000000000000")).u64(), Ok(5));
    assert_eq!(
        Input::new(&read("fd 0500000000000000")).u32(),
        Err(Bad::Width(253))
    );
    let wide = read("fe ffffffffffffffffffffffffffffffff");
    assert_eq!(Input::new(&wide).u64(), Err(Bad::Width(254)));
    assert_eq!(Input::new(&wide).u128(), Ok(u128::MAX));
    assert_eq!(Input::new(&wide).i128(), Ok(i128::MIN));
    assert_eq!(Input::new(&read("ff")).u128(), Err(Bad::Width(255)));
    for (text, value) in [
        ("00", 0),
        ("01", -1),
        ("02", 1),
        ("0d", -7),
        ("fd ffffffffffffffff", i64::MIN),
    ] {
        assert_eq!(Input::new(&read(text)).i64(), Ok(value));
    }
    assert_eq!(Input::new(&read("02")).bool(), Err(Bad::Bool(2)));
    assert_eq!(Input::new(&read("02")).present(), Err(Bad::Presence(2)));
    assert_eq!(Input::new(&read("0000000000000ac0")).f64(), Ok(-3.25));
    assert_eq!(Input::new(&read("02 c3a9")).text(), Ok("é"));
    assert_eq!(Input::new(&read("02 c3c3")).text(), Err(Bad::Text));
    assert_eq!(Input::new(&read("03 c3a9")).text(), Err(Bad::Short));
    assert_eq!(
        Input::new(&read("fd ffffffffffffffff 00")).bytes(),
        Err(Bad::Short)
    );
}

fn every_value() -> Entry<'static> {
    Entry {
        parent: 300,
        message: Some("hi"),
        metadata: Metadata {
            name: "n",
            target: "t",
            level: Level::Error,
            module_path: Some("m"),
            file: Some("f.rs"),
            line: Some(70_000),
        },
        attributes: vec![
            ("a", Value::String("x")),
            ("b", Value::Bytes(&[0, 251, 255])),
            ("c", Value::Bool(true)),
            ("d", Value::Float(3.25)),
            ("e", Value::U64(251)),
            ("f", Value::I64(-7)),
            ("g", Value::U128(u128::MAX)),
            ("h", Value::I128(-1)),
        ],
    }
}

#[test]
fn every_kind_of_value_typed_by_hand() {
    let head = "fb2c01 01 02 6869 01 6e 01 74 04 01 01 6d 01 04 662e7273 01 fc70110100 08";
    let pairs = "01 61 00 01 78   01 62 01 03 00fbff   01 63 02 01   01 64 03 0000000000000a40 \
                 01 65 04 fbfb00  01 66 05 0d  01 67 06 fe ffffffffffffffffffffffffffffffff \
                 01 68 07 01";
    let lists = "01 61 01 62 01 63 01 64 01 65 01 66 01 67 01 68  08 \
                 00 01 78  01 03 00fbff  02 01  03 0000000000000a40  04 fbfb00  05 0d \
                 06 fe ffffffffffffffffffffffffffffffff  07 01";
    for (version, attributes) in [(Version::V1, pairs), (Version::V2, lists)] {
        let bytes = hex(&[head, attributes].concat());
        let decoded = decode_entry(&bytes, version).expect("an entry");
        assert_eq!(decoded.entry, every_value());
        assert_eq!(decoded.size, bytes.len());
        assert_eq!(
            decoded.metadata,
            hex("01 6e 01 74 04 01 01 6d 01 04 662e7273 01 fc70110100")
        );
        assert!(decoded.entry.is_sorted());
        let mut out = Vec::new();
        encode_entry(&decoded.entry, version, &mut out);
        assert_eq!(out, bytes);
        for end in 0..bytes.len() {
            let fault = decode_entry(&bytes[..end], version).expect_err("cut");
            assert_eq!(fault.bad, Bad::Short, "cut at {end}");
            assert!(fault.at <= end);
        }
    }
    // Every level, and an entry of nothing but defaults.
    for (level, number) in [
        Level::Trace,
        Level::Debug,
        Level::Info,
        Level::Warn,
        Level::Error,
    ]
    .iter()
    .zip(0u8..)
    {
        let bytes = [0, 0, 0, 0, number, 0, 0, 0, 0];
        let decoded = decode_entry(&bytes, Version::V1).expect("an entry");
        assert_eq!(decoded.entry.metadata.level, *level);
        assert_eq!(decoded.entry.metadata.name, "");
    }
}

#[test]
fn what_is_no_entry() {
    let fault = |text: &str, version| {
        let bytes = hex(text);
        let fault = decode_entry(&bytes, version).expect_err("no entry");
        (fault.at, fault.bad)
    };
    let (version_1, version_2) = (Version::V1, Version::V2);
    assert_eq!(
        fault("fd 0000000000000000", version_1),
        (1, Bad::Width(253))
    );
    assert_eq!(fault("00 02", version_1), (2, Bad::Presence(2)));
    assert_eq!(fault("00 00 01 ff", version_1), (4, Bad::Text));
    assert_eq!(
        fault("00 00 00 00 05", version_1),
        (5, Bad::Variant("level", 5))
    );
    let empty = "00 00 00 00 00 00 00 00";
    assert_eq!(
        fault(&[empty, "01 00 08"].concat(), version_1),
        (11, Bad::Variant("kind of value", 8))
    );
    assert_eq!(
        fault(&[empty, "01 00 00 00"].concat(), version_2),
        (11, Bad::Lengths)
    );
    let many = format!(
        "{empty} fc {:08x}",
        (MAX_ATTRIBUTES as u32 + 1).swap_bytes()
    );
    let bytes = [hex(&many), vec![0; MAX_ATTRIBUTES + 1]].concat();
    assert_eq!(
        decode_entry(&bytes, version_2).expect_err("too many").bad,
        Bad::Many
    );
    assert_eq!(Bad::Variant("level", 5).to_string(), "there is no level 5");
}

#[test]
fn heads() {
    for (name, container, version) in CRATES {
        let bytes = golden(&format!("entrace/{name}"));
        let kind = Kind { version, container };
        assert!(probe(&bytes));
        assert_eq!(decode_head(&bytes), Ok(kind), "{name}");
        assert_eq!(encode_head(kind), bytes[..HEAD_SIZE]);
    }
    assert_eq!(decode_head(b"\0ENTRACE\x01"), Err(BadHead::Magic));
    assert_eq!(decode_head(b"\0ENTRACE\x03\x00"), Err(BadHead::Version(3)));
    assert_eq!(
        decode_head(b"\0ENTRACE\x02\x03"),
        Err(BadHead::Container(3))
    );
    assert_eq!(decode_head(b"\0ENTRANCE\x01\x00"), Err(BadHead::Magic));
}

/// A list of numbers.
fn list(input: &mut Input<'_>) -> Vec<u64> {
    let length = input.length().expect("a list");
    (0..length)
        .map(|_| input.u64().expect("a number"))
        .collect()
}

#[test]
fn crate_files_are_reencoded_byte_for_byte() {
    for (name, container, version) in CRATES {
        let bytes = golden(&format!("entrace/{name}"));
        let mut input = Input::new(&bytes[HEAD_SIZE..]);
        let (mut offsets, mut pool) = (Vec::new(), Vec::new());
        if container == Container::Et {
            offsets = list(&mut input);
            let lists = input.length().expect("a pool");
            pool = (0..lists).map(|_| list(&mut input)).collect();
        }
        let mut at = HEAD_SIZE + input.consumed();
        let first = at;
        let mut entries = Vec::new();
        while at < bytes.len() {
            let prefix = if container == Container::IetPrefix {
                8
            } else {
                0
            };
            let decoded = decode_entry(&bytes[at + prefix..], version).expect("an entry");
            entries.push((at - first, prefix, decoded.clone()));
            at += prefix + decoded.size;
        }
        assert_eq!(
            entries.len(),
            if name.starts_with("scoreman") { 736 } else { 7 }
        );
        assert_eq!(entries[0].2.entry, ROOT);

        let mut out = encode_head(Kind { version, container }).to_vec();
        if container == Container::Et {
            // Both tables follow from the entries.
            let places: Vec<u64> = entries.iter().map(|(at, ..)| *at as u64).collect();
            assert_eq!(offsets, places, "{name}");
            let mut children = vec![Vec::new(); entries.len()];
            for (nth, (.., decoded)) in entries.iter().enumerate().skip(1) {
                children[decoded.entry.parent as usize].push(nth as u64);
            }
            assert_eq!(pool, children, "{name}");
            for list in [vec![offsets.clone()], children]
                .iter()
                .enumerate()
                .flat_map(|(table, lists)| {
                    let count = (table == 1).then_some(lists.len() as u64);
                    let lists = lists.iter().map(|list| (list.len() as u64, list.clone()));
                    count
                        .map(|count| (count, Vec::new()))
                        .into_iter()
                        .chain(lists)
                })
            {
                put_u64(&mut out, list.0);
                list.1.iter().for_each(|&number| put_u64(&mut out, number));
            }
        }
        for (_, prefix, decoded) in &entries {
            if *prefix > 0 {
                out.extend_from_slice(&(decoded.size as u64).to_le_bytes());
            }
            encode_entry(&decoded.entry, version, &mut out);
        }
        assert!(out == bytes, "{name}");
    }
}
