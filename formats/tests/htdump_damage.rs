//! Damaged and hostile HTDUMP: which problem is reported at which offset, and where reading continues. The time and the
//! memory for a stream are in proportion to its size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::htdump::Stream;
use crate::common::{CountingBytes, Event, ReadTrace, list, read};
use fdr_formats::bytes::ReadAt;
use fdr_formats::{Error, registry};

fn parse(stream: &Stream) -> ReadTrace {
    read(&stream.bytes).expect("a readable stream")
}

#[test]
fn what_is_no_htdump_is_an_error() {
    let mut zeros = vec![0; 100];
    assert!(matches!(read(&zeros), Err(Error::NotATrace(_))));
    zeros[20] = 2;
    assert!(matches!(read(&zeros), Err(Error::NotATrace(_))));
    // All of a stream that was begun: nothing in it, nothing wrong.
    for big in [false, true] {
        let empty = parse(&Stream::new(big));
        assert!(empty.diagnostics.is_empty() && empty.log.threads.is_empty());
    }
}

#[test]
fn a_klass_that_nobody_announced_ends_the_stream() {
    let mut stream = Stream::new(false);
    stream.hawktracer().mapping(1, "f").call(10, 5, 1, 1);
    let offset = stream.bytes.len() as u64;
    stream.header(99, 20).u64(3).call(30, 5, 1, 1);
    let size = stream.bytes.len() as u64;
    let read = parse(&stream);
    assert_eq!(read.log.calls(1).len(), 2);
    let wanted = format!(
        "at byte {offset}: klass 99 was not announced, so its records have no known size: {} bytes \
         are left out, up to the end",
        size - offset
    );
    assert_eq!(read.messages(), [wanted]);
    let (at, bytes, kind, _) = list(&stream.bytes).pop().expect("lines");
    assert_eq!((at, bytes, &*kind), (offset, size - offset, "Skipped"));
}

#[test]
fn reading_goes_on_where_another_stream_begins() {
    // A receiver's file: the sender was cut off in the middle of a record, and connected again.
    for (first, second) in [(false, false), (false, true), (true, false)] {
        for is_text in [false, true] {
            for cut in 1..40 {
                let mut stream = Stream::new(first);
                stream.hawktracer().mapping(1, "f").call(10, 5, 1, 1);
                let damage = stream.bytes.len();
                if is_text {
                    stream.named(20, 5, 1, "a name that is cut");
                } else {
                    stream.call(20, 5, 1, 1);
                }
                stream.bytes.truncate(damage + cut);
                let resumed = stream.bytes.len();
                let mut again = Stream::new(second);
                again.core().hawktracer().mapping(2, "g").call(30, 5, 1, 2);
                stream.bytes.extend(again.bytes);
                let read = parse(&stream);
                let times = read.log.times(1);
                assert_eq!(times, [10, 15, 30, 35], "cut after {cut} bytes");
                let messages = read.messages();
                assert_eq!(messages.len(), 1, "{messages:?}");
                let (at, end) = (
                    format!("at byte {damage}: "),
                    format!(
                        "is not whole: {cut} bytes are left out, up to byte {resumed}, where another stream begins"
                    ),
                );
                let is_header = messages[0].contains("was not announced");
                assert!(
                    messages[0].starts_with(&at) && (is_header || messages[0].ends_with(&end)),
                    "{messages:?}"
                );
            }
        }
    }
}

#[test]
fn the_next_stream_is_found_wherever_it_lies() {
    // Around the places where one window ends and the next begins.
    let window = 256 * 1024;
    for distance in [
        1,
        20,
        25,
        window - 30,
        window - 21,
        window - 1,
        window,
        window + 3,
    ] {
        let mut stream = Stream::new(false);
        stream.hawktracer().mapping(1, "f").call(10, 5, 1, 1);
        let offset = stream.bytes.len();
        stream.header(99, 1);
        stream.bytes.resize(offset + 20 + distance, 0x55);
        let next = stream.bytes.len();
        let mut again = Stream::new(true);
        again.core().hawktracer().mapping(2, "g").call(30, 5, 1, 2);
        stream.bytes.extend(again.bytes);
        let read = parse(&stream);
        assert_eq!(read.log.calls(1).len(), 4, "{distance} bytes");
        let wanted = format!(
            "at byte {offset}: klass 99 was not announced, so its records have no known size: {} \
             bytes are left out, up to byte {next}, where another stream begins",
            next - offset
        );
        assert_eq!(read.messages(), [wanted]);
    }
}

type Announce<'a> = &'a dyn Fn(&mut Stream);

#[test]
fn klasses_that_cannot_be_read_are_named() {
    let cases: [(&str, Announce<'_>); 7] = [
        ("2 fields of klass A were not described", &|stream| {
            stream.klass(50, "A", 3).field(50, 99, 8, "uint64_t", "a");
        }),
        (
            "klass A contains itself, or 32 klasses in one another",
            &|stream| {
                stream.derived(50, "A", "B", &[]).derived(51, "B", "A", &[]);
            },
        ),
        (
            "klass A contains itself, or 32 klasses in one another",
            &|stream| {
                stream.derived(50, "A", "K0", &[]);
                for nth in 0..100 {
                    let (name, base) = (format!("K{nth}"), format!("K{}", nth + 1));
                    stream.derived(60 + nth, &name, &base, &[]);
                }
            },
        ),
        (
            "klass A contains Nobody, which was not announced",
            &|stream| {
                stream.derived(50, "A", "Nobody", &[]);
            },
        ),
        ("klass A has more than 1024 fields", &|stream| {
            // Each level has ten of the one below: 10,000 fields.
            for (id, name, inner) in [(50, "A", "B"), (51, "B", "C"), (52, "C", "D")] {
                stream.klass(id, name, 10);
                for nth in 0..10 {
                    stream.field(id, 1, 1, inner, &format!("f{nth}"));
                }
            }
            let fields: Vec<String> = (0..10).map(|nth| format!("f{nth}")).collect();
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            stream.derived(53, "D", "HT_Event", &fields);
        }),
        (
            "field big of klass A has 4097 bytes of kind 99",
            &|stream| {
                stream.klass(50, "A", 1).field(50, 99, 4097, "odd", "big");
            },
        ),
        (
            "field big of klass A has 18446744073709551615 bytes of kind 200",
            &|stream| {
                stream
                    .klass(50, "A", 1)
                    .field(50, 200, u64::MAX, "odd", "big");
            },
        ),
    ];
    for (problem, announce) in cases {
        let mut stream = Stream::new(false);
        announce(&mut stream);
        let offset = stream.bytes.len();
        stream.header(50, 1).u64(1);
        let wanted = format!(
            "at byte {offset}: {problem}, so its records have no known size: 28 bytes are left out, up \
             to the end"
        );
        assert_eq!(parse(&stream).messages(), [wanted]);
    }
}

#[test]
fn odd_descriptions_are_reported_where_they_stand() {
    let mut stream = Stream::new(false);
    let offset = stream.bytes.len();
    stream.field(70, 99, 8, "uint64_t", "a");
    // Klasses that every parser knows stay as they are.
    stream.klass(2, "Mine", 1).field(2, 99, 1, "uint8_t", "x");
    stream.klass(72, "Full", 255);
    for nth in 0..255 {
        stream.field(72, 99, 1, "uint8_t", &format!("f{nth}"));
    }
    let full = stream.bytes.len();
    stream.field(72, 99, 1, "uint8_t", "one too many");
    let order = stream.bytes.len();
    stream.header(0, 0).u8(9);
    let read = parse(&stream);
    let wanted = [
        (
            offset,
            "field a of klass 70, which was not announced: ignored".to_owned(),
        ),
        (
            full,
            "field one too many of klass 72, which has 255 already: ignored".to_owned(),
        ),
        (
            order,
            "byte order 9 is neither 0 nor 1: 21 bytes are left out, up to the end".to_owned(),
        ),
    ];
    assert_eq!(
        read.messages(),
        wanted.map(|(at, problem)| format!("at byte {at}: {problem}"))
    );
}

#[test]
fn more_problems_than_are_listed_are_counted() {
    let mut stream = Stream::new(false);
    for nth in 0..300 {
        stream.field(1000 + nth, 99, 8, "uint64_t", "a");
    }
    let messages = parse(&stream).messages();
    assert_eq!(messages.len(), 101);
    assert!(
        messages[100].ends_with("200 more problems are not listed"),
        "{}",
        messages[100]
    );
}

/// Asserts how often a stream is read, in all of its passes.
fn is_read_cheaply(case: &str, bytes: Vec<u8>, times: u64) {
    let size = bytes.len() as u64;
    let count = Arc::new(AtomicU64::new(0));
    let source =
        registry::open(Box::new(CountingBytes(bytes, Arc::clone(&count)))).expect("readable");
    let mut log = crate::common::EventLog::default();
    source.decode(0, &mut log, &|_| {}).expect("readable");
    let read = count.load(Ordering::Relaxed);
    assert!(
        read <= times * size + (1 << 20),
        "{case}: {read} bytes of {size} were read"
    );
}

#[test]
fn hostile_streams_cost_what_their_size_explains() {
    // A klass that changes before each of its records.
    let mut stream = Stream::new(false);
    stream
        .klass(80, "Flip", 2)
        .field(80, 1, 24, "HT_Event", "base");
    for nth in 0..4000u64 {
        stream
            .field(80, 99, 1 + 7 * (nth % 2), "uint", "a")
            .header(80, nth);
        if nth % 2 == 0 {
            stream.u8(1);
        } else {
            stream.u64(1);
        }
    }
    let read = parse(&stream);
    assert_eq!((read.log.count(), read.diagnostics.len()), (4000, 0));
    is_read_cheaply("a klass that flips", stream.bytes, 8);

    // Layouts that take more memory than their description.
    let mut stream = Stream::new(false);
    let fields: Vec<String> = (0..250).map(|nth| nth.to_string()).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    stream.derived(81, "Wide1", "HT_Event", &fields);
    for (id, base) in [(82, "Wide1"), (83, "Wide2"), (84, "Wide3")] {
        stream.derived(id, &format!("Wide{}", id - 80), base, &fields);
    }
    for nth in 0..2000 {
        stream
            .derived(100 + nth, &format!("D{nth}"), "Wide4", &[])
            .header(100 + nth, 1);
        let size = stream.bytes.len() + 8 * 1000;
        stream.bytes.resize(size, 0);
    }
    let messages = parse(&stream).messages();
    assert_eq!(messages.len(), 1);
    assert!(
        messages[0].contains("klasses change more often than any program's"),
        "{messages:?}"
    );

    // Many beginnings of streams, each with a text behind it that does not end.
    let mut stream = Stream::new(false);
    stream.core();
    for _ in 0..3000 {
        stream
            .turn()
            .klass(90, "T", 1)
            .field(90, 2, 8, "text", "t")
            .header(90, 1);
        stream.bytes.extend([b'x'; 100]);
    }
    is_read_cheaply("texts that do not end", stream.bytes, 8);

    // The same, each with a long record that is cut off at once.
    let mut stream = Stream::new(false);
    stream.core();
    wide(&mut stream, 91, 4096, "");
    for _ in 0..2000 {
        stream.turn().core().header(91, 1);
    }
    is_read_cheaply("long records that are cut", stream.bytes, 8);
}

/// A klass of 249 fields of an unknown kind. The names of the klass and of the fields end with `name`.
fn wide(stream: &mut Stream, id: u32, size: u64, name: &str) {
    stream.klass(id, &format!("Wide{name}"), 250);
    stream.field(id, 1, 24, "HT_Event", "base");
    for nth in 0..249 {
        stream.field(id, 7, size, "unknown", &format!("{nth}{name}"));
    }
}

#[test]
fn long_names_are_not_given_with_every_record() {
    let mut stream = Stream::new(false);
    stream.core();
    wide(&mut stream, 92, 0, &"n".repeat(10_000));
    for nth in 0..50 {
        stream.header(92, nth);
    }
    let read = parse(&stream);
    assert_eq!((read.log.count(), read.diagnostics.len()), (50, 0));
    for event in read.log.events(0) {
        let Event::Custom(_, _, data) = event else {
            panic!("{event:?}");
        };
        assert!(data.len() < 20_000, "{} bytes", data.len());
        assert!(data.ends_with("…".as_bytes()));
    }
}

/// A record whose text is longer than any that is read, without the memory for it.
struct Endless {
    head: Vec<u8>,
    size: u64,
}

impl ReadAt for Endless {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        buffer[..count].fill(b'x');
        let head = self.head.get(offset as usize..).unwrap_or(&[]);
        let of_head = head.len().min(count);
        buffer[..of_head].copy_from_slice(&head[..of_head]);
        Ok(count)
    }
}

#[test]
fn texts_as_long_as_the_file_are_refused() {
    let mut stream = Stream::new(false);
    stream.hawktracer().named(10, 5, 1, "f");
    let offset = stream.bytes.len();
    stream.header(6, 20).u64(5).u32(1);
    let (head, size) = (stream.bytes, 100 << 20);
    let source = registry::open(Box::new(Endless { head, size })).expect("readable");
    let wanted = format!(
        "at byte {offset}: a record of klass 6 is longer than 64 MiB: {} bytes are left out, up to \
         the end",
        size - offset as u64
    );
    let messages: Vec<String> = source
        .diagnostics()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(messages, [wanted]);
}
