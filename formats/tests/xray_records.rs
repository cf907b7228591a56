//! One byte vector per record kind and byte order, typed by hand from the document, independent of
//! the encoder. Little-endian ones were also put before llvm-xray, as parts of the golden files.

use crate::common::hex;
use fdr_formats::bytes::ByteOrder;
use fdr_formats::xray::record::{
    Action, Bad, Header, Layout, Record, RecordTime, decode, decode_header, encode_function,
    encode_header, encode_metadata,
};

const LITTLE: ByteOrder = ByteOrder::Little;
const BIG: ByteOrder = ByteOrder::Big;

/// Both directions.
fn check(order: ByteOrder, version: u16, record: Record, text: &str) {
    let (layout, bytes) = (Layout { order, version }, hex(text));
    assert_eq!(decode(&bytes, layout), Ok(record), "{text}");
    assert_eq!(record.size(), bytes.len());
    let encoded = match record {
        Record::Function { id, action, delta } => {
            encode_function(id, action, delta, order).to_vec()
        }
        _ => encode_metadata(&record, layout).to_vec(),
    };
    assert_eq!(encoded, bytes, "{record:?}");
    for cut in 0..bytes.len() {
        assert_eq!(
            decode(&bytes[..cut], layout),
            Err(Bad::Short),
            "{text} cut at {cut}"
        );
    }
}

#[test]
fn headers() {
    let little = "0100 0100 03000000 00ca9a3b00000000 0040000000000000 0000000000000000";
    let big = "0001 0001 c0000000 000000003b9aca00 0000000000004000 0000000000000000";
    for (order, text) in [(LITTLE, little), (BIG, big)] {
        let wanted = Header {
            layout: Layout { order, version: 1 },
            constant: true,
            nonstop: true,
            frequency: 1_000_000_000,
            buffer_size: 16_384,
        };
        assert_eq!(decode_header(&hex(text)), Some(wanted));
        assert_eq!(encode_header(&wanted).to_vec(), hex(text));
    }
    // Only the top bit: constant, not nonstop.
    let half = hex("0005 0001 80000000 0000000000000001 0000000000000000 0000000000000000");
    let half = decode_header(&half).expect("version 5, big-endian");
    assert_eq!(
        (half.layout.version, half.constant, half.nonstop),
        (5, true, false)
    );
}

#[test]
fn headers_of_others_are_refused() {
    let rest = "00000000 0000000000000000 0000000000000000 0000000000000000";
    for start in [
        "0000 0100",
        "0600 0100",
        "0100 0000",
        "0100 0200",
        "0006 0001",
        "0101 0001",
        "",
    ] {
        assert_eq!(
            decode_header(&hex(&format!("{start}{rest}"))),
            None,
            "{start}"
        );
    }
    assert_eq!(decode_header(&hex("0100 0100 0000")), None);
}

#[test]
fn function_records() {
    let cases = [
        (
            1,
            Action::Entry,
            0,
            "10000000 00000000",
            "00000001 00000000",
        ),
        (
            0x0abc_def1,
            Action::Exit,
            0x1234_5678,
            "12efcdab 78563412",
            "1abcdef1 12345678",
        ),
        (
            3,
            Action::TailExit,
            7,
            "34000000 07000000",
            "20000003 00000007",
        ),
        (
            0x0fff_ffff,
            Action::EntryArgs,
            u32::MAX,
            "f6ffffff ffffffff",
            "3fffffff ffffffff",
        ),
    ];
    for (id, action, delta, little, big) in cases {
        check(LITTLE, 1, Record::Function { id, action, delta }, little);
        check(BIG, 5, Record::Function { id, action, delta }, big);
    }
    let layout = Layout {
        order: LITTLE,
        version: 3,
    };
    assert_eq!(
        decode(&hex("18000000 00000000"), layout),
        Err(Bad::Action(4))
    );
    let layout = Layout {
        order: BIG,
        version: 3,
    };
    assert_eq!(
        decode(&hex("70000001 00000000"), layout),
        Err(Bad::Action(7))
    );
}

#[test]
fn metadata_of_every_version() {
    let cases = [
        (
            Record::NewBuffer {
                thread: 0x0001_2345,
            },
            "01 45230100 0000000000000000000000",
            "80 00012345 0000000000000000000000",
        ),
        (
            Record::EndOfBuffer,
            "03 000000000000000000000000000000",
            "81 000000000000000000000000000000",
        ),
        (
            Record::NewCpu {
                cpu: 0x0102,
                tsc: 0x1122_3344_5566_7788,
            },
            "05 0201 8877665544332211 0000000000",
            "82 0102 1122334455667788 0000000000",
        ),
        (
            Record::TscWrap {
                tsc: 0x1122_3344_5566_7788,
            },
            "07 8877665544332211 00000000000000",
            "83 1122334455667788 00000000000000",
        ),
        (
            Record::WallTime {
                seconds: 0x0102_0304_0506_0708,
                micros: 999_999,
            },
            "09 0807060504030201 3f420f00 000000",
            "84 0102030405060708 000f423f 000000",
        ),
        (
            Record::CallArgument { value: 0xdead_beef },
            "0d efbeadde00000000 00000000000000",
            "86 00000000deadbeef 00000000000000",
        ),
        (
            Record::BufferExtents { bytes: 0x1234 },
            "0f 3412000000000000 00000000000000",
            "87 0000000000001234 00000000000000",
        ),
        (
            Record::Typed {
                size: 6,
                delta: -2,
                kind: 0x0304,
            },
            "11 06000000 feffffff 0403 0000000000",
            "88 00000006 fffffffe 0304 0000000000",
        ),
        (
            Record::Pid { process: 4242 },
            "13 92100000 0000000000000000000000",
            "89 00001092 0000000000000000000000",
        ),
    ];
    for version in 1..=5 {
        for (record, little, big) in cases {
            check(LITTLE, version, record, little);
            check(BIG, version, record, big);
        }
    }
}

#[test]
fn custom_events_by_version() {
    let when = RecordTime::Absolute(0x1122_3344_5566_7788);
    let three = Record::Custom {
        size: 5,
        when,
        cpu: None,
    };
    let four = Record::Custom {
        size: 5,
        when,
        cpu: Some(0x0102),
    };
    let five = Record::Custom {
        size: 5,
        when: RecordTime::Delta(-3),
        cpu: None,
    };
    for version in 1..=3 {
        check(
            LITTLE,
            version,
            three,
            "0b 05000000 8877665544332211 000000",
        );
        check(BIG, version, three, "85 00000005 1122334455667788 000000");
    }
    check(LITTLE, 4, four, "0b 05000000 8877665544332211 0201 00");
    check(BIG, 4, four, "85 00000005 1122334455667788 0102 00");
    check(LITTLE, 5, five, "0b 05000000 fdffffff 00000000000000");
    check(BIG, 5, five, "85 00000005 fffffffd 00000000000000");
}

#[test]
fn unknown_kinds_are_named() {
    let zeros = " 000000000000000000000000000000";
    let little = Layout {
        order: LITTLE,
        version: 3,
    };
    assert_eq!(
        decode(&hex(&format!("15{zeros}")), little),
        Err(Bad::Kind(10))
    );
    let big = Layout {
        order: BIG,
        version: 3,
    };
    assert_eq!(
        decode(&hex(&format!("ff{zeros}")), big),
        Err(Bad::Kind(127))
    );
}

#[test]
fn threads_of_two_bytes_in_the_documents_version() {
    // The document: u16 thread, 13 bytes unused. Programs: four bytes.
    let documented = hex("80 0165 00000000000000000000000000");
    let read = |version| {
        decode(
            &documented,
            Layout {
                order: BIG,
                version,
            },
        )
    };
    assert_eq!(read(1), Ok(Record::NewBuffer { thread: 0x165 }));
    assert_eq!(
        read(2),
        Ok(Record::NewBuffer {
            thread: 0x0165_0000
        })
    );
}
