//! Parts of a ring, typed by hand.

use super::*;

#[test]
fn a_header_typed_by_hand() {
    let mut bytes = b"FDRRING\x01".to_vec();
    bytes.extend(7u32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    for field in [0x1000u64, 4096, 256, 8192, 24, 65536, 131_072] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(2u32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    for field in [100u64, 101, 102, 103, 104, 105, 106] {
        bytes.extend(field.to_le_bytes());
    }
    for field in [3u32 | 5 << 8, 11, 2, 71] {
        bytes.extend(field.to_le_bytes());
    }
    for field in [0x2000u64, 107] {
        bytes.extend(field.to_le_bytes());
    }
    let mut program = [0; 64];
    program[..4].copy_from_slice(b"demo");
    bytes.extend(program);
    for number in 108..=116_u64 {
        bytes.extend(number.to_le_bytes());
    }
    assert_eq!(bytes.len(), HEADER_SIZE);
    let header = decode_header(&bytes).expect("a header");
    let wanted = Header {
        process: 7,
        clock: 1,
        base: 0x1000,
        slots: 4096,
        slot_stride: 256,
        functions: 8192,
        functions_length: 24,
        regions: 65536,
        region_size: 131_072,
        capacity: 2,
        made: 1,
        start_ticks: 100,
        start_monotonic: 101,
        start_realtime: 102,
        frequency: 103,
        missing_overwritten: 104,
        missing_threads: 105,
        missing_dropped: 106,
        clock_constant: true,
        clock_nonstop: true,
        clock_skew_ns: 5000,
        crash: Some(Crash {
            signal: 11,
            code: 2,
            thread: 71,
            address: 0x2000,
            ticks: 107,
        }),
        program,
        open_calls: 108,
        identity: 109,
        control: 110,
        totals: 111,
        totals_size: 112,
        schedule: 113,
        schedule_size: 114,
        modules: 115,
        modules_size: 116,
    };
    assert_eq!(header, wanted);
    for end in 0..bytes.len() {
        assert_eq!(decode_header(&bytes[..end]), None);
    }
}

#[test]
fn a_function_typed_by_hand() {
    let bytes = b"\x18\0\0\0\x07\0\0\0\x02\x01\0\0\x04\0\x04\0a::bx.rsrest";
    let (function, size) = decode_function(bytes).expect("a function");
    assert_eq!((function.name.as_str(), size), ("a::b", 24));
    assert_eq!((function.file.as_str(), function.line), ("x.rs", 258));
    assert!(!function.untimed);
    assert_eq!(decode_function(&bytes[..23]), None);
    // Smaller than what it holds.
    let mut small = *bytes;
    small[0] = 0x10;
    assert_eq!(decode_function(&small), None);
}

#[test]
fn an_untimed_function_typed_by_hand() {
    let mut bytes =
        *b"\x28\0\0\0\x07\0\0\0\x02\0\0\0\x04\0\x05\0a::bxy.rs\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0rest";
    let (function, size) = decode_function(&bytes).expect("a function");
    assert_eq!((function.file.as_str(), size), ("xy.rs", 40));
    assert!(function.untimed);
    assert_eq!(decode_function(&bytes[..39]), None);
    // A name, and a bit of a later version.
    bytes[32] = 0x0C;
    let (function, _) = decode_function(&bytes).expect("a function");
    assert_eq!((function.untimed, function.what), (false, What::Name));
    bytes[0] = 0x20; // without the flags
    assert!(!decode_function(&bytes).expect("a function").0.untimed);
}
