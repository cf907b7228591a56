//! The klasses that this project writes. HawkTracer's own are as its library describes them. Ours hold what HawkTracer
//! has no klass for. The stream announces ours like any other klass, so every parser can skip them. Must hold only
//! kinds and sizes that all real parsers know.
//!
//! | klass | its records, beside the header (whose time is that of the mark where it is one) |
//! | --- | --- |
//! | 9 `FDR_TraceEvent` | `known` bits ([`known`]); the rest as in `TraceInfo`; the clock's error is the bits of an f64 |
//! | 10 `FDR_ThreadEvent` | `thread_id` is the number in this file, `thread` the system's; counts |
//! | 11 `FDR_FunctionEvent` | before the mapping of `identifier`; `function_name` where the label is not the name; a name of notes has no mapping |
//! | 12 `FDR_CpuEvent` | the thread is on this CPU from here on |
//! | 13 `FDR_WallEvent` | Unix time at this place |
//! | 14 `FDR_LostEvent` | the number of function records that are missing at this place |
//! | 15 `FDR_CustomEvent` | payload, escaped |
//! | 16 `FDR_TypedEvent` | payload, escaped, and its type |
//! | 64 + n `FDR_CallEvent`n | those of `HT_CallstackIntEvent`, n arguments |
//! | 320 + n `FDR_FlaggedCallEvent`n | the same, with flags: 1 entry, 2 exit not measured; 4 tail exit |
//! | from 1024, the note's name | a note with its fields: `notes` has these klasses |
//!
//! Texts are escaped (`escape`). A field that a reader does not find is 0 or empty.

use super::record::{
    self, CALL, CALL_BASE, EVENT, Encoder, FIELD, KLASS, MAPPING, POINTER, STRUCT, SYSTEM, TEXT,
    UNSIGNED,
};
use crate::facts::{Fact, Names};
use crate::identity::Part;

/// A field of a klass, as the stream announces it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    ty: Type,
    pub(super) name: &'static str,
}

/// The types of fields.
#[derive(Clone, Copy, Debug)]
enum Type {
    U8,
    U32,
    U64,
    Text,
    Event,
    CallBase,
    Call,
    Klass,
    KlassId,
    Time,
    Number,
    Duration,
    Thread,
    Label,
}

impl Field {
    /// Its kind, its bytes, and the name of its type. The sizes of klasses are those of C's structs.
    pub(super) fn described(&self) -> (u8, u64, &'static str) {
        match self.ty {
            Type::U8 => (UNSIGNED, 1, "uint8_t"),
            Type::U32 => (UNSIGNED, 4, "uint32_t"),
            Type::U64 => (UNSIGNED, 8, "uint64_t"),
            Type::Text => (TEXT, 8, "const char*"),
            Type::Event => (STRUCT, 24, "HT_Event"),
            Type::CallBase => (STRUCT, 40, "HT_CallstackBaseEvent"),
            Type::Call => (STRUCT, 48, "HT_CallstackIntEvent"),
            Type::Klass => (POINTER, 8, "HT_EventKlass*"),
            Type::KlassId => (UNSIGNED, 4, "HT_EventKlassId"),
            Type::Time => (UNSIGNED, 8, "HT_TimestampNs"),
            Type::Number => (UNSIGNED, 8, "HT_EventId"),
            Type::Duration => (UNSIGNED, 8, "HT_DurationNs"),
            Type::Thread => (UNSIGNED, 4, "HT_ThreadId"),
            Type::Label => (UNSIGNED, 8, "HT_CallstackEventLabel"),
        }
    }
}

/// A klass, as it is announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Klass {
    pub(super) id: u32,
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

const fn field(ty: Type, name: &'static str) -> Field {
    Field { ty, name }
}

const fn u8(name: &'static str) -> Field {
    field(Type::U8, name)
}

const fn u32(name: &'static str) -> Field {
    field(Type::U32, name)
}

const fn u64(name: &'static str) -> Field {
    field(Type::U64, name)
}

const fn text(name: &'static str) -> Field {
    field(Type::Text, name)
}

const BASE: Field = field(Type::Event, "base");
const CALL_BASE_FIELD: Field = field(Type::CallBase, "base");
const CALL_FIELD: Field = field(Type::Call, "base");
const KLASS_ID: Field = field(Type::KlassId, "info_klass_id");

/// 1: the mark stands behind an entry of the same time, not before it.
pub(super) const INSIDE: Field = u8("inside");

/// The name of the field with the thread of a record.
pub(super) const THREAD_ID: &str = "thread_id";

/// Names of fields by which parsers and viewers know headers, calls and mappings.
pub(super) fn names_of_viewers() -> &'static [&'static str] {
    &[
        "base",
        "type",
        "klass",
        "timestamp",
        "id",
        "duration",
        "thread_id",
        "inside",
        "label",
        "name",
        "identifier",
    ]
}

pub(super) const TRACE: u32 = 9;
pub(super) const THREAD: u32 = 10;
pub(super) const FUNCTION: u32 = 11;
pub(super) const CPU: u32 = 12;
pub(super) const WALL: u32 = 13;
pub(super) const LOST: u32 = 14;
pub(super) const CUSTOM: u32 = 15;
pub(super) const TYPED: u32 = 16;
/// Calls with arguments: this number + the number of arguments.
const ARGUMENTS: u32 = 64;
/// Calls with flags: this number + the number of arguments.
const FLAGGED: u32 = 320;
/// A klass has 255 fields at most: base, flags, and these.
pub(super) const MAX_ARGUMENTS: usize = 253;

/// The klass of calls with this many arguments, at most [`MAX_ARGUMENTS`].
pub(super) fn of_call(flagged: bool, arguments: usize) -> u32 {
    let first = if flagged { FLAGGED } else { ARGUMENTS };
    first + arguments as u32
}

/// The bits of `known`: the fields that have a value. Fields of different klasses share no record.
pub(super) mod known {
    pub(crate) const PROCESS: u64 = 1;
    pub(crate) const DUMP: u64 = 2;
    pub(crate) const CLOCK_ERROR: u64 = 4;
    pub(crate) const ANCHOR: u64 = 8;
    /// The clock is constant; it is nonstop.
    pub(crate) const CONSTANT: u64 = 16;
    pub(crate) const NONSTOP: u64 = 32;
    pub(crate) const START: u64 = 64;
    pub(crate) const END: u64 = 128;
    /// A thread has counts.
    pub(crate) const COUNTS: u64 = 2;
    /// A function is in the trace's table; its name differs from the label.
    pub(crate) const LISTED: u64 = 1;
    pub(crate) const NAMED: u64 = 2;
    /// A function is a name of notes: of an event, or another name.
    pub(crate) const EVENT: u64 = 4;
    pub(crate) const NAME: u64 = 8;
    /// A custom event has a CPU.
    pub(crate) const CPU: u64 = 1;
}

/// The facts of a trace behind `known`, in their order.
pub(super) const TRACE_NAMES: &Names = &[
    (Fact::Program, "program"),
    (Fact::Reason, "reason"),
    (Fact::Process, "process"),
    (Fact::Dump, "dump"),
    (Fact::MissingThreads, "retired_threads"),
    (Fact::MissingOverwritten, "retired_records"),
    (Fact::MissingDropped, "unplaced_records"),
    (Fact::ClockName, "clock"),
    (Fact::ErrorPpm, "clock_error_ppm"),
    (Fact::AnchorTime, "anchor_time"),
    (Fact::AnchorUnix, "anchor_unix"),
    (Fact::Start, "start_time"),
    (Fact::End, "end_time"),
    (Fact::Identity(Part::Host), "host"),
    (Fact::Identity(Part::Boot), "boot_id"),
    (Fact::Identity(Part::Build), "build_id"),
    (Fact::Identity(Part::Version), "program_version"),
    (Fact::Identity(Part::Tags), "tags"),
];

/// The facts that `known` has a bit for.
pub(super) static TRACE_BITS: &[(Fact, u64)] = &[
    (Fact::Process, known::PROCESS),
    (Fact::Dump, known::DUMP),
    (Fact::ErrorPpm, known::CLOCK_ERROR),
    (Fact::AnchorTime, known::ANCHOR),
    (Fact::AnchorUnix, known::ANCHOR),
    (Fact::Constant, known::CONSTANT),
    (Fact::Nonstop, known::NONSTOP),
    (Fact::Start, known::START),
    (Fact::End, known::END),
];

/// The fields of `FDR_TraceEvent`: its base, `known`, and the facts.
const TRACE_FIELDS: [Field; TRACE_NAMES.len() + 2] = {
    let mut fields = [BASE; TRACE_NAMES.len() + 2];
    fields[1] = u32("known");
    let mut at = 0;
    while at < TRACE_NAMES.len() {
        let (fact, name) = TRACE_NAMES[at];
        fields[at + 2] = if fact.is_text() {
            text(name)
        } else {
            u64(name)
        };
        at += 1;
    }
    fields
};

/// HawkTracer's klasses, then ours, in the order of their numbers.
pub(super) static KLASSES: &[Klass] = &[
    Klass {
        id: record::ENDIANNESS,
        name: "HT_EndiannessInfoEvent",
        fields: &[BASE, u8("endianness")],
    },
    Klass {
        id: EVENT,
        name: "HT_Event",
        fields: &[
            field(Type::Klass, "klass"),
            field(Type::Time, "timestamp"),
            field(Type::Number, "id"),
        ],
    },
    Klass {
        id: KLASS,
        name: "HT_EventKlassInfoEvent",
        fields: &[BASE, KLASS_ID, text("event_klass_name"), u8("field_count")],
    },
    Klass {
        id: FIELD,
        name: "HT_EventKlassFieldInfoEvent",
        fields: &[
            BASE,
            KLASS_ID,
            text("field_type"),
            text("field_name"),
            u64("size"),
            u8("data_type"),
        ],
    },
    Klass {
        id: CALL_BASE,
        name: "HT_CallstackBaseEvent",
        fields: &[
            BASE,
            field(Type::Duration, "duration"),
            field(Type::Thread, "thread_id"),
        ],
    },
    Klass {
        id: CALL,
        name: "HT_CallstackIntEvent",
        fields: &[CALL_BASE_FIELD, field(Type::Label, "label")],
    },
    Klass {
        id: record::CALL_TEXT,
        name: "HT_CallstackStringEvent",
        fields: &[CALL_BASE_FIELD, text("label")],
    },
    Klass {
        id: MAPPING,
        name: "HT_StringMappingEvent",
        fields: &[BASE, u64("identifier"), text("label")],
    },
    Klass {
        id: SYSTEM,
        name: "HT_SystemInfoEvent",
        fields: &[
            BASE,
            u8("version_major"),
            u8("version_minor"),
            u8("version_patch"),
        ],
    },
    Klass {
        id: TRACE,
        name: "FDR_TraceEvent",
        fields: &TRACE_FIELDS,
    },
    Klass {
        id: THREAD,
        name: "FDR_ThreadEvent",
        fields: &[
            BASE,
            u32("thread_id"),
            u64("thread"),
            u32("known"),
            u64("process"),
            text("thread_name"),
            u64("recorded"),
            u64("readable"),
            u64("overwritten"),
            u64("dropped"),
            u64("synthetic_entries"),
            u64("synthetic_exits"),
        ],
    },
    Klass {
        id: FUNCTION,
        name: "FDR_FunctionEvent",
        fields: &[
            BASE,
            u64("identifier"),
            u32("function"),
            u32("known"),
            text("function_name"),
            text("file"),
            u32("line"),
        ],
    },
    Klass {
        id: CPU,
        name: "FDR_CpuEvent",
        fields: &[BASE, u32("thread_id"), u32("cpu")],
    },
    Klass {
        id: WALL,
        name: "FDR_WallEvent",
        fields: &[
            BASE,
            u32("thread_id"),
            INSIDE,
            u64("seconds"),
            u32("micros"),
        ],
    },
    Klass {
        id: LOST,
        name: "FDR_LostEvent",
        fields: &[BASE, u32("thread_id"), INSIDE, u64("records")],
    },
    Klass {
        id: CUSTOM,
        name: "FDR_CustomEvent",
        fields: &[
            BASE,
            u32("thread_id"),
            INSIDE,
            u32("known"),
            u32("cpu"),
            text("payload"),
        ],
    },
    Klass {
        id: TYPED,
        name: "FDR_TypedEvent",
        fields: &[BASE, u32("thread_id"), INSIDE, u32("kind"), text("payload")],
    },
];

/// HawkTracer's klass of that number, as parsers must know it or may expect it.
pub(super) fn standard(id: u32) -> Option<&'static Klass> {
    KLASSES.iter().find(|klass| klass.id == id && id <= SYSTEM)
}

/// The announcing part: descriptions of klasses.
impl Encoder {
    pub(super) fn klass(&mut self, out: &mut Vec<u8>, id: u32, name: &str, fields: u8) {
        let record = self.begin(out, KLASS, 0);
        let _ = record.u32(id).text(name).u8(fields);
    }

    /// Describes a field: its kind, its bytes, the name of its type, and its own.
    pub(super) fn field(
        &mut self,
        out: &mut Vec<u8>,
        id: u32,
        (kind, size, type_name): (u8, u64, &str),
        name: &str,
    ) {
        let record = self.begin(out, FIELD, 0).u32(id).text(type_name).text(name);
        let _ = record.u64(size).u8(kind);
    }

    /// Announces one of [`KLASSES`].
    pub(super) fn announce(&mut self, out: &mut Vec<u8>, klass: &Klass) {
        self.klass(out, klass.id, klass.name, klass.fields.len() as u8);
        for field in klass.fields {
            self.field(out, klass.id, field.described(), field.name);
        }
    }

    /// Announces the klass of calls with this many arguments, at most [`MAX_ARGUMENTS`].
    pub(super) fn call_klass(&mut self, out: &mut Vec<u8>, flagged: bool, arguments: usize) {
        let id = of_call(flagged, arguments);
        let kind = if flagged { "Flagged" } else { "" };
        let name = format!("FDR_{kind}CallEvent{arguments}");
        let fields = 1 + usize::from(flagged) + arguments;
        self.klass(out, id, &name, fields as u8);
        self.field(out, id, CALL_FIELD.described(), CALL_FIELD.name);
        if flagged {
            self.field(out, id, u32("flags").described(), "flags");
        }
        for argument in 1..=arguments {
            let name = format!("argument{argument}");
            self.field(out, id, u64("").described(), &name);
        }
    }
}
