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
    let header = Header::decode(&bytes).expect("a header");
    assert_eq!((header.pid, header.clock, header.base), (7, 1, 0x1000));
    assert_eq!((header.slots, header.slot_stride), (4096, 256));
    assert_eq!((header.functions, header.functions_length), (8192, 24));
    assert_eq!((header.regions, header.region_size), (65536, 131_072));
    assert_eq!((header.capacity, header.made), (2, 1));
    let start = (
        header.start_ticks,
        header.start_monotonic,
        header.start_realtime,
    );
    assert_eq!((start, header.frequency), ((100, 101, 102), 103));
    let missing = (
        header.missing_overwritten,
        header.missing_threads,
        header.missing_dropped,
    );
    assert_eq!(missing, (104, 105, 106));
    assert!(header.is_clock_constant() && header.is_clock_nonstop());
    assert_eq!(header.clock_skew_ns(), 5000);
    let crash = Crash {
        signal: 11,
        code: 2,
        thread: 71,
        address: 0x2000,
        ticks: 107,
    };
    assert_eq!(header.crash(), Some(crash));
    assert_eq!(header.program(), "demo");
    assert_eq!(
        (header.open_calls, header.identity, header.control),
        (108, 109, 110)
    );
    assert_eq!((header.totals, header.totals_size), (111, 112));
    assert_eq!((header.schedule, header.schedule_size), (113, 114));
    assert_eq!((header.modules, header.modules_size), (115, 116));
    for end in 0..bytes.len() {
        assert_eq!(Header::decode(&bytes[..end]), None);
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
    assert_eq!(
        (function.untimed, function.kind),
        (false, FunctionKind::Name)
    );
    bytes[0] = 0x20; // without the flags
    assert!(!decode_function(&bytes).expect("a function").0.untimed);
}
