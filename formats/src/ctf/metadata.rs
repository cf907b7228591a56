//! The text that describes our stream files to every reader: types, clock, environment, classes of streams
//! and events. It must state exactly the layout of `record`. Names of a trace must never break it: quotes
//! and control characters are left out.

use std::fmt::Write as _;

use super::note_classes::{self, NoteClasses};
use super::record::{TRACE, TRACE_NAMES, plain};
use super::states;
use crate::facts::Fact;
use crate::model::TraceInfo;

/// The version of our facts and flags. It is raised when their meaning changes.
pub(super) const LAYOUT_VERSION: u64 = 1;
/// The name of that version in the environment.
pub(super) const LAYOUT_KEY: &str = "fdr_layout";

const TYPES: &str = "\
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias integer { size = 32; align = 8; signed = false; base = 16; } := address_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := value_t;
typealias integer { size = 8; align = 8; signed = false; base = 16; } := byte_t;
typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := utf8_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.fdr.value; } := time_t;
typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := float64_t;
";

const STREAMS: &str = "
struct packet_context {
\ttime_t timestamp_begin;
\ttime_t timestamp_end;
\tuint64_t content_size;
\tuint64_t packet_size;
\tuint64_t packet_seq_num;
\tuint64_t events_discarded;
\tuint32_t cpu_id;
\tuint8_t cpu_seen;
};

struct event_header {
\tuint8_t id;
\ttime_t timestamp;
};

stream {
\tid = 0;
\tevent.header := struct event_header;
\tpacket.context := struct packet_context;
\tevent.context := struct {
\t\tint32_t _vpid;
\t\tint32_t _vtid;
\t\tstring { encoding = UTF8; } _procname;
\t};
};

stream {
\tid = 1;
\tevent.header := struct event_header;
\tpacket.context := struct packet_context;
};
";

/// Name, stream class, id, fields. `?` stands for a text's name and length.
const EVENTS: &[(&str, u32, u8, &[&str])] = &[
    ("lttng_ust_cyg_profile:func_entry", 0, 0, CALL),
    ("lttng_ust_cyg_profile:func_exit", 0, 1, CALL),
    (
        "fdr:arguments",
        0,
        2,
        &["uint32_t count", "value_t values[ count ]"],
    ),
    (
        "fdr:custom",
        0,
        3,
        &["int64_t cpu", "uint32_t size", "byte_t data[ size ]"],
    ),
    (
        "fdr:typed",
        0,
        4,
        &["uint16_t type", "uint32_t size", "byte_t data[ size ]"],
    ),
    ("fdr:lost", 0, 5, &["uint64_t records"]),
    ("fdr:wall", 0, 6, &["uint64_t seconds", "uint32_t micros"]),
    ("fdr:head", 0, 7, &[]),
    // The facts of the trace.
    ("fdr:trace", 1, 0, &[]),
    (
        "fdr:function",
        1,
        1,
        &["uint32_t id", "uint32_t line", "?name", "?file"],
    ),
    (
        "fdr:thread",
        1,
        2,
        &[
            "uint64_t id",
            "uint8_t known",
            "uint64_t process",
            "?name",
            "uint64_t recorded",
            "uint64_t readable",
            "uint64_t overwritten",
            "uint64_t dropped",
            "uint64_t synthetic_entries",
            "uint64_t synthetic_exits",
        ],
    ),
];

const CALL: &[&str] = &["address_t addr", "address_t call_site", "uint8_t flags"];

/// The metadata of a trace. `offset`: the Unix time in ns at 0 ns of its clock.
/// `notes` has the classes of notes, if the trace has any.
pub(super) fn text(info: &TraceInfo, uuid: [u8; 16], offset: i64, notes: &NoteClasses) -> String {
    let mut text = format!("/* CTF 1.8 */\n\n{TYPES}\n");
    let uuid = hyphenated(uuid);
    let (seconds, nanos) = (
        offset.div_euclid(1_000_000_000),
        offset.rem_euclid(1_000_000_000),
    );
    let _ = write!(
        text,
        "trace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{uuid}\";\n\tbyte_order = le;\n\
         \tpacket.header := struct {{\n\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\
         \t\tuint32_t stream_id;\n\t\tuint64_t stream_instance_id;\n\t}};\n}};\n\n\
         env {{\n\tdomain = \"ust\";\n\ttracer_name = \"lttng-ust\";\n\ttracer_major = 2;\n\
         \ttracer_minor = 13;\n\ttracer_patchlevel = 0;\n\t{LAYOUT_KEY} = {LAYOUT_VERSION};\n"
    );
    for (name, value) in [("program", &info.program), ("reason", &info.reason)] {
        if !value.is_empty() {
            let _ = writeln!(text, "\t{name} = \"{}\";", plain(value, 256));
        }
    }
    if let Some(process) = info.process.and_then(|process| i64::try_from(process).ok()) {
        let _ = writeln!(text, "\tvpid = {process};");
    }
    let _ = write!(
        text,
        "}};\n\nclock {{\n\tname = \"fdr\";\n\tdescription = \"the recorder's clock, in ns\";\n\
         \tfreq = 1000000000;\n\toffset_s = {seconds};\n\toffset = {nanos};\n}};\n{STREAMS}"
    );
    let of_notes = match notes.is_used {
        true => note_classes::EVENTS,
        false => &[],
    };
    let mut of_states: &[_] = &[];
    if !info.schedule.is_empty() {
        text.push_str(states::STREAM);
        of_states = states::EVENTS;
    }
    for (name, stream, id, fields) in EVENTS.iter().chain(of_notes).chain(of_states) {
        let _ = write!(
            text,
            "\nevent {{\n\tname = \"{name}\";\n\tid = {id};\n\tstream_id = {stream};\n\
             \tfields := struct {{\n"
        );
        if (*stream, *id) == (1, TRACE) {
            push_facts(&mut text);
        }
        for field in *fields {
            push_field(&mut text, field);
        }
        text.push_str("\t};\n};\n");
    }
    text + &notes.text
}

fn push_field(text: &mut String, field: &str) {
    let _ = match field.strip_prefix('?') {
        Some(name) => writeln!(
            text,
            "\t\tuint32_t {name}_length;\n\t\tutf8_t {name}[ {name}_length ];"
        ),
        None => writeln!(text, "\t\t{field};"),
    };
}

/// The fields of `fdr:trace`.
fn push_facts(text: &mut String) {
    let mut known = Some("uint8_t known");
    for &(fact, name) in TRACE_NAMES {
        let kind = match fact {
            fact if fact.is_text() => "?",
            fact if fact.is_flag() => "uint8_t ",
            Fact::ErrorPpm => "float64_t ",
            _ => "uint64_t ",
        };
        if let Some(known) = known.take_if(|_| !fact.is_text()) {
            push_field(text, known);
        }
        push_field(text, &format!("{kind}{name}"));
    }
}

/// A UUID as people write it.
pub(super) fn hyphenated(uuid: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A UUID of version 8. The same trace always gets the same UUID. Two dumps of a program get different ones.
pub(super) fn uuid(info: &TraceInfo) -> [u8; 16] {
    let facts = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        info.program, info.process, info.reason, info.dump, info.clock, info.start
    );
    // FNV-1a, 128 bits.
    let mix = |hash: u128, byte: u8| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    let hash = facts
        .bytes()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, mix);
    let mut uuid = hash.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
