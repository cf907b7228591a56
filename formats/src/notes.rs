//! Notes: what a program reports in addition to its calls. A note is an event with fields, an edge of a task, the
//! arguments of a call, or a change of its thread's state. This file defines their kinds and their bytes.
//!
//! [`Mark::Note`](crate::Mark::Note) has a note's kind and its body. In an XRay file the body stands behind the head
//! of a custom event of ours, with that kind (`xray::payload`). So `llvm-xray` skips it. A body is little-endian in
//! every file, has a multiple of 8 bytes, and at most [`MAX_BYTES`]. Readers ignore bytes behind the fields that they
//! know, and keep numbers that they have no word for. Names are ids of the table of functions: an entry has a name, a
//! file and a line. 0 is no name.
//!
//! | kind | offset | size | field |
//! | --- | --- | --- | --- |
//! | 12 event | 0 | 4 | name |
//! | | 4 | 1 | form: 0 instant, 1 begin of a span, 2 end of a span, 3 counter |
//! | | 5 | 1 | level: 0 not known, 1 trace, 2 debug, 3 info, 4 warning, 5 error |
//! | | 6 | 1 | number of fields, at most [`MAX_FIELDS`] |
//! | | 7 | 1 | zero |
//! | | 8 | 8 | id of the span, which its begin and its end share: that of its task, or a number with the top bit; 0 = none |
//! | | 16 | | the fields |
//! | 13 task | 0 | 8 | id, not 0 |
//! | | 8 | 8 | id of the parent; 0 = none |
//! | | 16 | 8 | id of the task that caused this, where it was woken; 0 = not known |
//! | | 24 | 4 | name |
//! | | 28 | 1 | state from here on: 0 created, 1 running on this thread, 2 waiting, 3 woken, 4 finished, 5 dropped |
//! | | 29 | 1 | bit 0 = the totals of a thread count its beginning, bit 1 = its end (`tasks`) |
//! | | 30 | 2 | zero |
//! | | 32 | 8 | ticks since its first poll |
//! | | 40 | 8 | ticks for which it was polled |
//! | | 48 | 8 | polls |
//! | 14 arguments | 0 | 4 | function: the note belongs to the innermost call that is open there, and that call is of it |
//! | | 4 | 1 | number of fields, at most [`MAX_FIELDS`] |
//! | | 5 | 3 | zero |
//! | | 8 | | the fields |
//! | 16 thread state | 0 | 8 | object that it waits for: an address or a number; 0 = not known |
//! | | 8 | 8 | thread that holds the object; 0 = not known |
//! | | 16 | 4 | name of the object |
//! | | 20 | 1 | state from here on: 0 running, 1 waiting for a CPU, 2 blocked |
//! | | 21 | 1 | reason: 0 not known, 1 lock, 2 condition, 3 input or output, 4 sleep, 5 end of a thread, 6 channel, 7 parked, 8 page fault, 9 taken from its CPU |
//! | | 22 | 2 | zero |
//! | | 24 | 4 | function that the holder was in when the wait began; 0 = not known |
//! | | 28 | 4 | zero |
//! | | 32 | 8 | ticks of the wait so far |
//!
//! Each note with fields of a span has its form and its id. A field that a span gets later replaces its value. A begin
//! stands inside of a call of the span. An end stands outside, because the field came when no call was open there.
//!
//! A thread state may end behind its 24th byte. Then the function and the ticks are 0. The state that follows a wait
//! has the object, the name and the reason of that wait. If the reason is a condition, the holder is the thread that
//! notified it.
//!
//! A field:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | name |
//! | 4 | 1 | type: 0 unsigned, 1 signed, 2 f64, 3 truth, 4 text (UTF-8), 5 bytes, 6 address |
//! | 5 | 1 | place: of an argument its number from 0, 254 the error of a `Result`, 255 the result; of an event 0 |
//! | 6 | 2 | bytes of the text that are here; 0 for numbers |
//! | 8 | 8 | the number; of a text its whole length, which is larger where it was cut |
//! | 16 | | the text, zeros up to a multiple of 8 |
//!
//! `xray::payload` has the other kinds, up to 23. A new kind gets a number that neither file uses.

use crate::bytes::{ByteOrder, Fields};

/// The most bytes of a body.
pub const MAX_BYTES: usize = 4096;
/// The most fields of an event.
pub const MAX_FIELDS: usize = 32;
/// The place of a field that is a call's result.
pub const RESULT: u8 = 255;
/// The place of a field that is the error of a call's result.
pub const ERROR: u8 = 254;

/// The states of a task that the recorder writes.
pub mod task_state {
    /// It waits for its next poll.
    pub const WAITING: u8 = 2;
    /// It gave its result.
    pub const FINISHED: u8 = 4;
    /// It was dropped before, or panicked.
    pub const DROPPED: u8 = 5;
}

/// The states of a thread that the recorder writes.
pub mod thread_state {
    /// It runs.
    pub const RUNNING: u8 = 0;
    /// It waits for something.
    pub const BLOCKED: u8 = 2;
}

/// The reasons of waits that the recorder writes.
pub mod reason {
    /// For a lock.
    pub const LOCK: u8 = 1;
    /// For a condition.
    pub const CONDITION: u8 = 2;
    /// For a message of a channel, or for room in it.
    pub const CHANNEL: u8 = 6;
}

/// The kind of a note, as files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// An event with fields.
    Event = 12,
    /// An edge of a task.
    Task = 13,
    /// Arguments or the result of a call.
    Arguments = 14,
    /// A change of the thread's state.
    ThreadState = 16,
}

impl NoteKind {
    /// All kinds.
    pub const ALL: [NoteKind; 4] = [
        NoteKind::Event,
        NoteKind::Task,
        NoteKind::Arguments,
        NoteKind::ThreadState,
    ];

    /// The kind with that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<NoteKind> {
        let mut all = NoteKind::ALL.into_iter();
        all.find(|kind| *kind as u8 == number)
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NoteKind::Event => "event",
            NoteKind::Task => "task",
            NoteKind::Arguments => "arguments",
            NoteKind::ThreadState => "thread state",
        }
    }
}

/// The forms of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// At a moment.
    Instant = 0,
    /// The fields of a span, where it begins.
    Begin = 1,
    /// Where it ends.
    End = 2,
    /// The value of a counter.
    Counter = 3,
}

impl Form {
    /// The form with this number. `None`: this version does not know it.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Form> {
        let all = [Form::Instant, Form::Begin, Form::End, Form::Counter];
        all.get(usize::from(number)).copied()
    }
}

/// The form of an event, from its body. `None`: this version does not know it.
#[must_use]
pub fn form_of(body: &[u8]) -> Option<Form> {
    body.get(4).and_then(|&number| Form::from_number(number))
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Truth(bool),
    /// The part of a text that was kept, and the length of the whole text in bytes.
    Text(&'a [u8], u64),
    /// Bytes, in the same way.
    Bytes(&'a [u8], u64),
    /// An address.
    Address(u64),
    /// A type that this version does not know: its number, the number, and the text.
    Other(u8, u64, &'a [u8]),
}

/// A named value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// Its name, in the table of functions.
    pub name: u32,
    /// For an argument: its number, [`RESULT`] or [`ERROR`].
    pub place: u8,
    /// Its value.
    pub value: FieldValue<'a>,
}

/// A note. Its numbers are those of the tables above.
#[derive(Clone, Debug, PartialEq)]
pub enum Note<'a> {
    /// An event with fields.
    Event {
        /// Its name.
        name: u32,
        /// Instant, begin, end or counter.
        form: u8,
        /// How much it matters.
        level: u8,
        /// The span that it begins or ends.
        span: u64,
        /// Its fields.
        fields: Vec<Field<'a>>,
    },
    /// An edge of a task.
    Task {
        /// The task.
        task: u64,
        /// The task that made it.
        parent: u64,
        /// The task that woke it.
        by: u64,
        /// Its name.
        name: u32,
        /// Its state from here on: one of [`task_state`].
        state: u8,
        /// Whether the totals of a thread count its beginning (bit 0), and its end (bit 1).
        counted: u8,
        /// Ticks since its first poll.
        elapsed: u64,
        /// Ticks for which it was polled.
        busy: u64,
        /// How often it was polled.
        polls: u64,
    },
    /// Arguments or the result of the innermost open call.
    Arguments {
        /// The function of the call, in the table of functions.
        function: u32,
        /// Its arguments, result and error.
        fields: Vec<Field<'a>>,
    },
    /// A change of the thread's state.
    ThreadState {
        /// The object that the thread waits for.
        object: u64,
        /// The thread that holds the object.
        holder: u64,
        /// The object's name.
        name: u32,
        /// The state from here on.
        state: u8,
        /// Why.
        reason: u8,
        /// The function that the holder was in when the wait began.
        function: u32,
        /// Ticks of the wait so far.
        waited: u64,
    },
}

impl<'a> Note<'a> {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> NoteKind {
        match self {
            Note::Event { .. } => NoteKind::Event,
            Note::Task { .. } => NoteKind::Task,
            Note::Arguments { .. } => NoteKind::Arguments,
            Note::ThreadState { .. } => NoteKind::ThreadState,
        }
    }

    /// Its name, in the table of functions; 0 = none. Arguments have the function of their call.
    #[must_use]
    pub fn name(&self) -> u32 {
        match self {
            Note::Event { name, .. } | Note::Task { name, .. } | Note::ThreadState { name, .. } => {
                *name
            }
            Note::Arguments { function, .. } => *function,
        }
    }

    /// Its body. `None`: it has more fields or bytes than a note may have, or a task without an id.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        let long = |body: &mut Vec<u8>, numbers: &[u64]| {
            numbers
                .iter()
                .for_each(|number| body.extend(number.to_le_bytes()));
        };
        match self {
            Note::Event {
                name,
                form,
                level,
                span,
                fields,
            } => {
                if fields.len() > MAX_FIELDS {
                    return None;
                }
                body.extend(name.to_le_bytes());
                body.extend([*form, *level, fields.len() as u8, 0]);
                long(&mut body, &[*span]);
                fields.iter().try_for_each(|field| field.put(&mut body))?;
            }
            Note::Task {
                task,
                parent,
                by,
                name,
                state,
                counted,
                elapsed,
                busy,
                polls,
            } => {
                long(&mut body, &[*task, *parent, *by]);
                body.extend(name.to_le_bytes());
                body.extend([*state, *counted, 0, 0]);
                long(&mut body, &[*elapsed, *busy, *polls]);
                if *task == 0 {
                    return None;
                }
            }
            Note::Arguments { function, fields } => {
                if fields.len() > MAX_FIELDS {
                    return None;
                }
                body.extend(function.to_le_bytes());
                body.extend([fields.len() as u8, 0, 0, 0]);
                fields.iter().try_for_each(|field| field.put(&mut body))?;
            }
            Note::ThreadState {
                object,
                holder,
                name,
                state,
                reason,
                function,
                waited,
            } => {
                long(&mut body, &[*object, *holder]);
                body.extend(name.to_le_bytes());
                body.extend([*state, *reason, 0, 0]);
                long(&mut body, &[u64::from(*function), *waited]);
            }
        }
        (body.len() <= MAX_BYTES).then_some(body)
    }

    /// Decodes a body. `None`: it is damaged.
    #[must_use]
    pub fn decode(kind: NoteKind, body: &'a [u8]) -> Option<Note<'a>> {
        if body.len() > MAX_BYTES || body.len() % 8 != 0 {
            return None;
        }
        let mut bytes = Fields::new(body, ByteOrder::Little);
        let note = match kind {
            NoteKind::Event => {
                let (name, form, level) = (bytes.u32()?, bytes.u8()?, bytes.u8()?);
                let (count, _zero, span) = (bytes.u8()?, bytes.u8()?, bytes.u64()?);
                Note::Event {
                    name,
                    form,
                    level,
                    span,
                    fields: Field::take_all(&mut bytes, count)?,
                }
            }
            NoteKind::Task => Note::Task {
                task: bytes.u64().filter(|&task| task != 0)?,
                parent: bytes.u64()?,
                by: bytes.u64()?,
                name: bytes.u32()?,
                state: bytes.u8()?,
                counted: bytes.u8()?,
                elapsed: bytes.u16().and_then(|_zero| bytes.u64())?,
                busy: bytes.u64()?,
                polls: bytes.u64()?,
            },
            NoteKind::Arguments => {
                let (function, count) = (bytes.u32()?, bytes.u8()?);
                bytes.bytes(3)?;
                Note::Arguments {
                    function,
                    fields: Field::take_all(&mut bytes, count)?,
                }
            }
            NoteKind::ThreadState => {
                let (object, holder) = (bytes.u64()?, bytes.u64()?);
                let (name, state, reason) = (bytes.u32()?, bytes.u8()?, bytes.u8()?);
                bytes.u16()?;
                let function = bytes.u32().unwrap_or_default();
                let _zero = bytes.u32();
                Note::ThreadState {
                    object,
                    holder,
                    name,
                    state,
                    reason,
                    function,
                    waited: bytes.u64().unwrap_or_default(),
                }
            }
        };
        Some(note)
    }
}

impl<'a> Field<'a> {
    fn put(&self, body: &mut Vec<u8>) -> Option<()> {
        let (kind, number, text): (u8, u64, &[u8]) = match self.value {
            FieldValue::Unsigned(number) => (0, number, &[]),
            FieldValue::Signed(number) => (1, number as u64, &[]),
            FieldValue::Float(number) => (2, number.to_bits(), &[]),
            FieldValue::Truth(truth) => (3, truth.into(), &[]),
            FieldValue::Text(text, whole) => (4, whole, text),
            FieldValue::Bytes(bytes, whole) => (5, whole, bytes),
            FieldValue::Address(address) => (6, address, &[]),
            FieldValue::Other(kind, number, text) => (kind, number, text),
        };
        let length = u16::try_from(text.len()).ok()?;
        body.extend(self.name.to_le_bytes());
        body.extend([kind, self.place]);
        body.extend(length.to_le_bytes());
        body.extend(number.to_le_bytes());
        body.extend_from_slice(text);
        body.resize(body.len().next_multiple_of(8), 0);
        Some(())
    }

    fn take_all(bytes: &mut Fields<'a>, count: u8) -> Option<Vec<Field<'a>>> {
        if usize::from(count) > MAX_FIELDS {
            return None;
        }
        let mut fields = Vec::new();
        for _ in 0..count {
            fields.push(Field::take(bytes)?);
        }
        Some(fields)
    }

    fn take(bytes: &mut Fields<'a>) -> Option<Field<'a>> {
        let (name, kind, place) = (bytes.u32()?, bytes.u8()?, bytes.u8()?);
        let (length, number) = (usize::from(bytes.u16()?), bytes.u64()?);
        let text = bytes.bytes(length)?;
        bytes.bytes(length.next_multiple_of(8) - length)?;
        let value = match (kind, length) {
            (0, 0) => FieldValue::Unsigned(number),
            (1, 0) => FieldValue::Signed(number as i64),
            (2, 0) => FieldValue::Float(f64::from_bits(number)),
            (3, 0) if number <= 1 => FieldValue::Truth(number == 1),
            (4, _) => FieldValue::Text(text, number),
            (5, _) => FieldValue::Bytes(text, number),
            (6, 0) => FieldValue::Address(number),
            (kind, _) => FieldValue::Other(kind, number, text),
        };
        Some(Field { name, place, value })
    }
}
