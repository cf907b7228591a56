//! Metadata texts of CTF folders, good and hostile: what the language allows is read, what can't be
//! is an error that names the line, and a short text never costs much.

use crate::common::ctf::{covers_all, read, read_whole};
use crate::common::{Event, Folder, ReadTrace, hex};

/// A text around the fields of one event class, and the trace of one event of these bytes.
fn event(types: &str, fields: &str, bytes: &str) -> Folder {
    let text = format!(
        "/* CTF 1.8 */\n{types}\ntrace {{ major = 1; minor = 8; byte_order = le; }};\n\
         stream {{ event.header := struct {{ integer {{ size = 8; }} id; }}; }};\n\
         event {{ name = e; id = 3; fields := struct {{\n{fields}\n}}; }};\n"
    );
    let bytes = hex(&format!("03 {bytes}"));
    Folder::with_files(&[("metadata", text.as_bytes()), ("stream", &bytes)])
}

fn words(read: &ReadTrace) -> String {
    let [(_, events)] = &read.log.threads[..] else {
        panic!("one thread: {read:?}");
    };
    let [Event::Custom(_, None, data)] = &events[..] else {
        panic!("one event: {events:?}");
    };
    String::from_utf8(data.clone()).expect("UTF-8")
}

/// Types around the event, its fields, its bytes, and the words of them. Without words, the text is refused.
type TypeCase = (&'static str, &'static str, &'static str, &'static str);

const U8: &str = "typealias integer { size = 8; } := u8;";

const NUMBERS_AND_TEXTS: &[TypeCase] = &[
    (
        "",
        "integer { size = 16; byte_order = be; } a, b[2];",
        "0102 0304 0506",
        "a = 258, b = [772, 1286]",
    ),
    (
        "",
        "integer { size = 24; signed = true; } a;",
        "feffff",
        "a = -2",
    ),
    (
        "",
        "integer { size = 64; base = x; } a;",
        "efcdab8967452301",
        "a = 0x123456789abcdef",
    ),
    (
        "",
        "integer { size = 8; base = 8; } a; integer { size = 8; base = 2; } b;",
        "09 05",
        "a = 011, b = 0b101",
    ),
    (
        "",
        "floating_point { exp_dig = 11; mant_dig = 53; align = 8; } a;",
        "000000000000f8bf",
        "a = -1.5",
    ),
    (
        "",
        "string a; string { encoding = ASCII; } b;",
        "6162 00 c3bc22 00",
        "a = \"ab\", b = \"ü\\\"\"",
    ),
    (
        U8,
        "u8 n; u8 row[n]; u8 m[2][n];",
        "02 0506 01020304",
        "n = 2, row = [5, 6], m = [[1, 2], [3, 4]]",
    ),
    (
        "typealias integer { size = 8; encoding = UTF8; } := char;",
        "char a[4];",
        "68690000",
        "a = \"hi\"",
    ),
];

const NAMED_AND_COMPOUND_TYPES: &[TypeCase] = &[
    (
        "typealias integer { size = 16; } := unsigned short int;",
        "const unsigned short int a;",
        "0100",
        "a = 1",
    ),
    (
        "typealias integer { size = 8; } := t; typedef t pair[2];",
        "pair a;",
        "0102",
        "a = [1, 2]",
    ),
    (
        "enum kind : integer { size = 8; signed = true; } { A, B = 5, C ... };",
        "",
        "",
        "",
    ),
    (
        "enum kind : integer { size = 8; signed = true; } { low = -2 ... -1, \"a b\", next };",
        "enum kind a; enum kind b; enum kind c; enum kind d;",
        "ff 00 01 09",
        "a = \"low\" = -1, b = \"a b\" = 0, c = \"next\" = 1, d = (no label) = 9",
    ),
    (
        "struct point { integer { size = 8; } x, y; } align(16);",
        "integer { size = 8; } z; struct point p; struct { } nothing;",
        "00 07 00 0102",
        "z = 7, p = { x = 1, y = 2 }, nothing = { }",
    ),
    (
        "variant v { integer { size = 8; } one; string two; };",
        "enum : integer { size = 8; } { one, two } tag; variant v <tag> a; variant <event.fields.tag> { string two; } b;",
        "01 6100 6200",
        "tag = \"two\" = 1, a = { two = \"a\" }, b = { two = \"b\" }",
    ),
    (
        "",
        "struct { integer { size = 8; } n; } head; struct { integer { size = 8; } n; string all[head.n]; } body;",
        "02 00 6100 6200",
        "head = { n = 2 }, body = { n = 0, all = [\"a\", \"b\"] }",
    ),
    (
        "",
        "integer { size = 4; } a; integer { size = 12; align = 1; } b;",
        "2143",
        "a = 1, b = 1074",
    ),
    (U8, "u8 _event; u8 __x;", "01 02", "event = 1, _x = 2"),
];

#[test]
fn every_type_is_read() {
    let cases = NUMBERS_AND_TEXTS.iter().chain(NAMED_AND_COMPOUND_TYPES);
    for &(types, fields, bytes, wanted) in cases {
        let folder = event(types, fields, bytes);
        match read(folder.path()) {
            Ok(read) => {
                assert_eq!(
                    words(&read),
                    format!("e: {{ {wanted} }}"),
                    "{types} {fields}"
                );
                assert_eq!(read.diagnostics, [], "{fields}");
                covers_all(folder.path());
            }
            Err(error) => {
                assert_eq!(wanted, "", "{types} {fields}: {error}");
                assert!(error.to_string().contains("`}` is wanted"), "{error}");
            }
        }
    }
}

#[test]
fn what_is_not_understood_names_its_line() {
    let cases = [
        ("/* CTF 1.8 */\n\nenv {};", "no `trace` block"),
        (
            "/* CTF 1.8 */\ntrace { major = 2; };",
            "line 2 of the metadata: only major version 1",
        ),
        (
            "/* CTF 1.8 */\n\n\ntrace { byte_order = middle; };",
            "line 4 of the metadata: a byte order",
        ),
        (
            "/* CTF 1.8 */\ntrace { uuid = \"12\"; };",
            "line 2 of the metadata: the trace's UUID",
        ),
        (
            "/* CTF 1.8 */\nstream\n{ id = -1; };",
            "line 3 of the metadata: an id is",
        ),
        (
            "/* CTF 1.8 */\nstruct s {\n nobody a; };",
            "line 3 of the metadata: no type `nobody`",
        ),
        (
            "/* CTF 1.8 */\nstruct { integer { size = 65; } a; };",
            "1 to 64 bits",
        ),
        (
            "/* CTF 1.8 */\nstruct { integer { align = 8; } a; };",
            "without a size",
        ),
        (
            "/* CTF 1.8 */\nstruct { integer { size = 8; align = 3; } a; };",
            "a power of two",
        ),
        (
            "/* CTF 1.8 */\nstruct { floating_point { exp_dig = 15; mant_dig = 113; } a; };",
            "15 and 113",
        ),
        (
            "/* CTF 1.8 */\nstruct { enum : struct { } { a } b; };",
            "made of an integer",
        ),
        ("/* CTF 1.8 */\nstruct { enum { a } b; };", "no type `int`"),
        ("/* CTF 1.8 */\nclock { freq = 0; };", "above 0 Hz"),
        ("/* CTF 1.8 */\ntrace { ", "the end of the metadata"),
        (
            "/* CTF 1.8 */\ntrace { major = 1 }",
            "`;` is wanted here, not `}`",
        ),
        (
            "/* CTF 1.8 */\n/* never",
            "line 2 of the metadata: a comment",
        ),
        ("/* CTF 1.8 */\ntrace { a = \"b", "a quoted text"),
        (
            "/* CTF 1.8 */\ntypealias integer { size = 8; } := t *;",
            "`;` is wanted here, not `*`",
        ),
        ("/* CTF 1.8 */ 5", "a declaration is wanted here, not `5`"),
    ];
    for (text, wanted) in cases {
        let folder = Folder::with_files(&[("metadata", text.as_bytes())]);
        let error = read(folder.path()).expect_err(text).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn what_can_not_be_read_names_its_part() {
    let trace = "/* CTF 1.8 */\ntypealias integer { size = 8; } := u8;\ntrace { major = 1; };\n";
    let cases = [
        (
            "event { name = e; fields := struct { u8 a[n]; }; };",
            "event class \"e\": no field `n`",
        ),
        (
            "event { name = e; fields := struct { string n; u8 a[n]; }; };",
            "`n` is no number",
        ),
        (
            "event { name = e; fields := struct { u8 t; variant <t> { u8 a; } b; }; };",
            "the tag `t` is no enum",
        ),
        (
            "event { name = e; fields := struct { variant { u8 a; } b; }; };",
            "a variant without a tag",
        ),
        (
            "stream { packet.context := struct { string a; }; };",
            "stream class 0: its size is not fixed",
        ),
        (
            "stream { packet.context := struct { u8 a[2000]; }; };",
            "longer than 1024 bytes",
        ),
    ];
    for (text, wanted) in cases {
        let folder = Folder::with_files(&[("metadata", format!("{trace}{text}").as_bytes())]);
        let error = read(folder.path()).expect_err(text).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn towers_of_types_are_refused() {
    let nested = |depth: usize| {
        let (open, close) = ("struct { ".repeat(depth), " } a;".repeat(depth - 1));
        format!("/* CTF 1.8 */\n{open} string a; {close} }};\ntrace {{ }};")
    };
    let named = |depth: usize| {
        let mut text = "/* CTF 1.8 */\ntypealias integer { size = 8; } := t0;\n".to_owned();
        for level in 1..=depth {
            text += &format!("typedef t{} t{level}[1];\n", level - 1);
        }
        text + "trace { };"
    };
    let structs = |depth: usize| {
        let mut text = "/* CTF 1.8 */\nstruct s0 { string a; };\n".to_owned();
        for level in 1..=depth {
            text += &format!("struct s{level} {{ struct s{} a; }};\n", level - 1);
        }
        text + "trace { };"
    };
    let dimensions = |depth: usize| {
        let fields = format!("string a{};", "[1]".repeat(depth));
        format!("/* CTF 1.8 */\nstruct {{ {fields} }};\ntrace {{ }};")
    };
    for make in [
        &nested as &dyn Fn(usize) -> String,
        &named,
        &structs,
        &dimensions,
    ] {
        for (depth, fits) in [(10, true), (100, false), (100_000, false)] {
            let folder = Folder::with_files(&[("metadata", make(depth).as_bytes())]);
            let result = read(folder.path())
                .map(|_| ())
                .map_err(|error| error.to_string());
            match result {
                Ok(()) => assert!(fits, "{depth} deep"),
                Err(error) => {
                    assert!(
                        !fits && error.contains("more than 32 deep"),
                        "{depth}: {error}"
                    );
                }
            }
        }
    }
}

#[test]
fn short_texts_of_huge_types_are_refused() {
    // Each struct holds the one before twice: 2^30 fields in 31 lines.
    let mut text = "/* CTF 1.8 */\nstruct s0 { string a; };\n".to_owned();
    for level in 1..=30 {
        text += &format!(
            "struct s{level} {{ struct s{0} a; struct s{0} b; }};\n",
            level - 1
        );
    }
    text += "trace { };\nevent { fields := struct s30; };";
    let folder = Folder::with_files(&[("metadata", text.as_bytes())]);
    let error = read(folder.path()).expect_err("too large").to_string();
    assert!(error.contains("more than 262144 fields"), "{error}");

    // Names that are far from what names them.
    let mut fields = String::new();
    for field in 0..20_000 {
        fields += &format!("u8 n{field}; ");
    }
    fields += &"u8 a[ n0 ]; ".repeat(20_000);
    let text = format!(
        "/* CTF 1.8 */\ntypealias integer {{ size = 8; }} := u8;\ntrace {{ }};\n\
         event {{ fields := struct {{ {fields} }}; }};"
    );
    let folder = Folder::with_files(&[("metadata", text.as_bytes())]);
    let error = read(folder.path()).expect_err("too much work").to_string();
    assert!(error.contains("too many to look up"), "{error}");
}

#[test]
fn lengths_out_of_nowhere_end_with_their_packet() {
    let u64 = "typealias integer { size = 64; } := u64;";
    let most = "ffffffffffffffff";
    let cases = [
        ("u64 n; u64 a[n];", most, "longer than its packet"),
        ("u64 n; string a[n];", most, "longer than its packet"),
        (
            "u64 n; integer { size = 3; align = 1; } a[n];",
            most,
            "longer than its packet",
        ),
        (
            "u64 a[18446744073709551615];",
            most,
            "longer than its packet",
        ),
        ("string a;", "616263", "longer than its packet"),
        (
            "enum : u64 { one } t; variant <t> { string one; } v;",
            most,
            "a variant of no known option",
        ),
    ];
    for (fields, bytes, wanted) in cases {
        let folder = event(u64, fields, bytes);
        let read = read(folder.path()).expect("a trace");
        let messages = read.messages();
        assert!(
            messages.len() == 1 && messages[0].contains(wanted),
            "{fields}: {messages:?}"
        );
        assert!(
            messages[0].starts_with("at byte 0: of stream: an event"),
            "{messages:?}"
        );
        covers_all(folder.path());
    }
    // 2^64 elements without a bit are one look.
    let folder = event(
        u64,
        "u64 n; struct { } a[n]; u64 none; struct { u64 b[ none ]; } c[n];",
        &format!("{most} {}", "00".repeat(8)),
    );
    let words = words(&read_whole(folder.path()));
    assert!(
        words.starts_with("e: { n = 18446744073709551615, a = [{ }]"),
        "{words}"
    );
    // An event without a byte never ends.
    let text = "/* CTF 1.8 */ trace { };\nevent { name = e; };";
    let folder = Folder::with_files(&[("metadata", text.as_bytes()), ("stream", b"abc")]);
    let read = read(folder.path()).expect("a trace");
    let messages = read
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect::<String>();
    assert!(messages.contains("an event without a byte"), "{messages}");
}

#[test]
fn metadata_packets_may_be_damaged() {
    let text = b"/* CTF 1.8 */ trace { major = 1; };";
    let packet = |magic: &str, bits: u32, compression: &str| {
        let bits: String = bits
            .to_be_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut bytes = hex(&format!(
            "{magic} {} 00000000 {bits} {bits} {compression} 00 00 01 08",
            "00".repeat(16)
        ));
        bytes.extend(text);
        bytes
    };
    let size = (37 + text.len() as u32) * 8;
    let good = packet("75d11d57", size, "00");
    let folder = Folder::with_files(&[("metadata", &good)]);
    assert_eq!(
        read_whole(folder.path()).info.format,
        "CTF 1.8, little-endian"
    );
    let mut two = good.clone();
    two.extend(packet("75d11d58", size, "00"));
    let cases = [
        (packet("75d11d57", size + 8, "00"), "a packet of"),
        (packet("75d11d57", 36 * 8, "00"), "a packet of 36 bytes"),
        (packet("75d11d57", size, "01"), "compressed or encrypted"),
        (good[..30].to_vec(), "inside a packet's head"),
        (two, "0x75d11d58 is not the magic number"),
    ];
    for (bytes, wanted) in cases {
        let folder = Folder::with_files(&[("metadata", &bytes)]);
        let error = read(folder.path()).expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn foreign_folders_are_no_trace() {
    let open = |folder: &Folder| {
        let error = fdr_formats::registry::open_path(folder.path()).err();
        error.expect("no trace").to_string()
    };
    let folder = Folder::new();
    assert!(open(&folder).contains("not a trace folder"));
    folder.put("metadata", b"something else");
    assert!(open(&folder).contains("not a trace folder"));
    folder.put("metadata", b"/* CTF 1.8 */\nwhat");
    assert!(open(&folder).contains("line 2 of the metadata"));
}
