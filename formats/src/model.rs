//! The neutral vocabulary that every format is read into and written from.
//!
//! Three nouns, never mixed: a *record* is one on-disk unit, a *block* is one thread's run of
//! records, an *event* is neutral ([`Call`] or [`Mark`]). Units are types: no bare `u64` time
//! crosses a function boundary. Nothing in here knows any format's layout.

use std::fmt;
use std::sync::Arc;

pub use crate::identity::Identity;
pub use crate::notes::NoteKind;
use crate::scale;
use crate::trigger;
mod schedule;
mod totals;

pub use crate::scale::{Nanos, Ticks};
pub use schedule::{Account, Cause, FAULTS_OF_SAMPLE, Module, Sample, Schedule, State, Switch};
pub use totals::{EarlyCall, Estimate, Figures, FunctionTotals, Level, RecordingCost, figures};

/// A logical CPU, as the operating system numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

/// A thread, as the operating system numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u64);

/// A function of the trace: its key in [`TraceInfo::functions`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// Which side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    /// The function was entered.
    Entry,
    /// The function returned or was unwound.
    Exit,
    /// The function was left by a tail call into another one.
    TailExit,
}

/// One edge of one call: the event that traces consist of. 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When, in ticks of the trace's clock.
    pub time: Ticks,
    /// Which function.
    pub function: FunctionId,
    /// Entered or left.
    pub edge: Edge,
    /// The edge was not measured: a writer added it to balance a snapshot.
    pub synthetic: bool,
    /// Arguments follow as [`Mark::Argument`].
    pub has_arguments: bool,
}

const _: () = assert!(size_of::<Call>() == 16);

impl Call {
    /// The value of an array element that holds no call yet.
    pub const NONE: Call = Call {
        time: Ticks(0),
        function: FunctionId(0),
        edge: Edge::Entry,
        synthetic: false,
        has_arguments: false,
    };

    /// A measured entry.
    #[must_use]
    pub const fn entry(time: Ticks, function: FunctionId) -> Call {
        Call {
            time,
            function,
            ..Call::NONE
        }
    }

    /// A measured exit.
    #[must_use]
    pub const fn exit(time: Ticks, function: FunctionId) -> Call {
        Call {
            edge: Edge::Exit,
            ..Call::entry(time, function)
        }
    }
}

/// An event of a thread that is not a call, in order with its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// The thread runs on this CPU from here on.
    Cpu {
        /// When.
        time: Ticks,
        /// Where.
        cpu: CpuId,
    },
    /// Wall-clock time at this place of the stream.
    Wall {
        /// Seconds since the Unix epoch, or of the writer's own scale.
        seconds: u64,
        /// Microseconds, below 1,000,000.
        micros: u32,
    },
    /// One argument of the call just before.
    Argument {
        /// Its value.
        value: u64,
    },
    /// Function records of the thread are missing at this place: overwritten, dropped, or lost on the
    /// way to a receiver.
    Lost {
        /// The number of missing records.
        records: u64,
    },
    /// The thread's clock began anew at this place, or jumped. Readers continue at the previous time. So
    /// no time goes back, and no duration holds the jump. The durations of calls that are open here are
    /// unknown.
    Break {
        /// The last time before the break, and the first time after it.
        time: Ticks,
    },
    /// Calls of the innermost open call that left no records, since the thread's record before. Their time
    /// is no part of that call's self time.
    ShortCalls {
        /// When the last of them had surely ended.
        time: Ticks,
        /// How many.
        calls: u64,
        /// The ticks that they took together.
        ticks: u64,
    },
    /// From here on, calls of the thread that are shorter may leave no records.
    Threshold {
        /// The ticks of the shortest call that leaves records.
        ticks: u64,
    },
    /// A note: what the program reports beside its calls. [`Note::decode`](crate::notes::Note::decode) decodes it.
    Note {
        /// When.
        time: Ticks,
        /// The kind of the note.
        kind: NoteKind,
        /// Its bytes.
        body: &'a [u8],
    },
    /// An event with a payload that the format does not interpret.
    Custom {
        /// When.
        time: Ticks,
        /// The CPU, where the record carries it.
        cpu: Option<CpuId>,
        /// The payload.
        data: &'a [u8],
    },
    /// An event with a payload and the writer's number of its type.
    Typed {
        /// When.
        time: Ticks,
        /// The writer's number of the type.
        kind: u16,
        /// The payload.
        data: &'a [u8],
    },
}

impl Mark<'_> {
    /// The mark for a record at `time` that counts missing records. A count of 0 stands for a break of
    /// the clock, because most formats have no record for a break. Both marks put the open calls in
    /// doubt.
    pub(crate) fn missing(records: u64, time: Ticks) -> Mark<'static> {
        match records {
            0 => Mark::Break { time },
            records => Mark::Lost { records },
        }
    }
}

/// A traced function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its key.
    pub id: FunctionId,
    /// Name as a person would say it; empty if the trace has none.
    pub name: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
    /// The calls of this function have no times of their own. Their entries and exits are in order, and
    /// have the time of the thread's previous record. The time inside belongs to the caller.
    pub untimed: bool,
    /// What the name stands for.
    pub kind: FunctionKind,
}

impl Function {
    /// Whether it has calls. Else it is a name that notes use.
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.kind == FunctionKind::Calls
    }
}

/// What an entry of the table of functions stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FunctionKind {
    /// A function or a span: something that has calls. Also every entry about which the trace states nothing else.
    #[default]
    Calls = 0,
    /// An event or a counter of [`notes`](crate::notes).
    Event = 1,
    /// A name that notes use, such as that of a field.
    Name = 2,
}

impl FunctionKind {
    /// The value with this number. Unknown numbers, of later versions, count as names.
    #[must_use]
    pub fn from_number(number: u8) -> FunctionKind {
        match number {
            0 => FunctionKind::Calls,
            1 => FunctionKind::Event,
            _ => FunctionKind::Name,
        }
    }
}

/// A thread of the trace, with the recorder's counts if the trace has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The operating system's number.
    pub id: ThreadId,
    /// The process, if the trace has it.
    pub process: Option<u64>,
    /// Name; empty if unknown.
    pub name: String,
    /// The recorded, kept and lost records; `None` if the trace does not say.
    pub counts: Option<Counts>,
    /// The totals of its calls, since the thread began; empty if the trace has none.
    pub totals: Vec<FunctionTotals>,
    /// The outermost calls that were open all the time from its first record to its last, the outermost first. Their
    /// entries are overwritten. Their calls in the trace are synthetic.
    pub early_calls: Vec<EarlyCall>,
}

/// Function records of one thread: `recorded = readable + overwritten + dropped + summarised`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The records that the program asked for.
    pub recorded: u64,
    /// The records in the trace, without synthetic ones.
    pub readable: u64,
    /// Records that newer ones have overwritten.
    pub overwritten: u64,
    /// Records that were never written. There was no space, a signal came during the making of a record,
    /// or a conversion left them out because the format cannot hold them.
    pub dropped: u64,
    /// Records of calls that left none, because they were short: see [`Mark::ShortCalls`].
    pub summarised: u64,
    /// Entries that a writer added at the start, for frames that were open before it.
    pub synthetic_entries: u64,
    /// Exits that a writer added at the end, for frames that were still open.
    pub synthetic_exits: u64,
}

impl Counts {
    /// The counts for a format that can't tell of short calls: their records count as dropped.
    #[must_use]
    pub(crate) fn without_summaries(self) -> Counts {
        Counts {
            dropped: self.dropped.saturating_add(self.summarised),
            summarised: 0,
            ..self
        }
    }
}

/// Function records of threads that are not in the trace. The words are those of [`Counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Ended threads whose rings were given to newer ones.
    pub threads: u64,
    /// All records of those threads.
    pub overwritten: u64,
    /// Records of threads that had no ring.
    pub dropped: u64,
}

/// A moment that a user named while the program ran (`fdr ctl PID mark`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The number of the moment in its process, from 1.
    pub number: u64,
    /// When.
    pub time: Ticks,
    /// Its name.
    pub name: String,
}

/// How ticks become time.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Ticks per second, in Hz. Never zero: if a trace says 0, the reader puts 1 GHz and gives a
    /// diagnostic.
    pub frequency: u64,
    /// Name of the clock; empty if the trace has none.
    pub name: String,
    /// Error of `frequency` in parts per million, if the trace says it.
    pub error_ppm: Option<f64>,
    /// The counter has a constant rate.
    pub constant: bool,
    /// The counter runs on in low-power states.
    pub nonstop: bool,
    /// A tick and the Unix time in nanoseconds at that tick, if the trace has the pair.
    pub anchor: Option<(Ticks, u64)>,
    /// A second pair, taken when the trace was written. Nearly all events are older than it.
    pub until: Option<(Ticks, u64)>,
    /// The faults of the clock that the recorder found.
    pub faults: ClockFaults,
}

/// The faults that a recorder found in its clock while it ran. All zeros: no fault, or the trace does
/// not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockFaults {
    /// The least difference between the counters of two CPUs, in ns.
    pub skew_ns: u64,
    /// How often a thread found the clock behind its last record: on another CPU, or after a reset.
    pub steps_back: u64,
    /// How far the clock is ahead of the operating system's steady clock since the anchor, in ns.
    /// Negative: behind. 0: the two agree within their errors.
    pub ahead_ns: i64,
    /// How far the time of day was moved ahead of that steady clock, in ns. Negative: back. It was set,
    /// or the machine slept. No duration is affected.
    pub wall_step_ns: i64,
}

impl Default for Clock {
    fn default() -> Self {
        Clock {
            frequency: 1_000_000_000,
            name: String::new(),
            error_ppm: None,
            constant: false,
            nonstop: false,
            anchor: None,
            until: None,
            faults: ClockFaults::default(),
        }
    }
}

impl Clock {
    /// The time of a tick, or a duration, in nanoseconds, by the rule of [`scale`].
    #[must_use]
    pub fn nanos(&self, ticks: Ticks) -> Nanos {
        scale::nanos(ticks, self.frequency)
    }

    /// The same if 64 bits can hold it.
    #[must_use]
    pub(crate) fn checked_nanos(&self, ticks: Ticks) -> Option<u64> {
        u64::try_from(scale::nanos_between(Ticks(0), ticks, self.frequency)).ok()
    }

    /// Unix time in nanoseconds at a tick, by the anchor. `None`: there is no anchor, or the time is
    /// before 1970 or after 2554.
    #[must_use]
    pub fn unix_nanos(&self, tick: Ticks) -> Option<u64> {
        let (anchor, unix) = self.anchor?;
        let nanos = scale::nanos_between(anchor, tick, self.frequency);
        u64::try_from(i128::from(unix) + nanos).ok()
    }
}

/// The facts of a trace that are known before the first event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceInfo {
    /// The format and its version, for people: `XRay FDR, version 3, little-endian`.
    pub format: String,
    /// Its clock.
    pub clock: Clock,
    /// Its functions, sorted by id.
    pub functions: Vec<Function>,
    /// Its threads, in the order of the file. A thread with several blocks is listed once.
    pub threads: Vec<Thread>,
    /// Name of the program; empty if unknown.
    pub program: String,
    /// The process id, if known.
    pub process: Option<u64>,
    /// Host, boot, build, version and tags, as far as they are known.
    pub identity: Identity,
    /// Why the trace was written (`exit`, `signal`, …); empty if unknown.
    pub reason: String,
    /// Number of the dump within its process, counted from 1; `None` if the trace has none.
    pub dump: Option<u64>,
    /// Records of threads that are not in the trace.
    pub missing: Missing,
    /// The totals of those missing threads that have ended; empty if the trace has none.
    pub missing_totals: Vec<FunctionTotals>,
    /// The cost of recording; `None` if the trace does not state it, or there is no budget.
    pub recording_cost: Option<RecordingCost>,
    /// The named moments, in the order of their numbers.
    pub moments: Vec<Moment>,
    /// The known states of its threads.
    pub schedule: Schedule,
    /// Earliest time of the trace, if it is known without reading the whole trace.
    pub start: Option<Ticks>,
    /// The moment of the dump, or of the process's death as far as it is known. Calls that are open then
    /// last until that moment. `None` if the trace does not say.
    pub end: Option<Ticks>,
}

/// The bytes that the kernel keeps of a thread's name.
const MAX_KERNEL_NAME: usize = 15;

impl TraceInfo {
    /// The facts, without the format, and without functions and threads, which writers keep elsewhere. In an `Arc`,
    /// because that is dropped out of line, so its many parts are compiled once.
    #[inline(never)]
    pub(crate) fn without_lists(&self) -> Arc<TraceInfo> {
        Arc::new(TraceInfo {
            format: String::new(),
            clock: self.clock.clone(),
            functions: Vec::new(),
            threads: Vec::new(),
            missing_totals: Vec::new(),
            recording_cost: self.recording_cost,
            moments: Vec::new(),
            schedule: Schedule::default(),
            program: self.program.clone(),
            reason: self.reason.clone(),
            identity: self.identity.clone(),
            ..*self
        })
    }

    /// The whole name of a thread of that name. The kernel keeps 15 bytes of a name, and the program's name is that of
    /// each thread without a name of its own.
    #[must_use]
    pub fn whole_thread_name<'a>(&'a self, name: &'a str) -> &'a str {
        match name.len() == MAX_KERNEL_NAME && self.program.starts_with(name) {
            true => &self.program,
            false => name,
        }
    }

    /// The thread whose crash or panic made the recorder write, if the reason names it.
    #[must_use]
    pub fn failed_thread(&self) -> Option<ThreadId> {
        // The recorder's own words stand before the number.
        let rest = match self.reason.strip_prefix("panic in thread ") {
            Some(rest) => rest,
            None => {
                let crash = self.reason.strip_prefix("crash: ")?;
                crash.split_once(" in thread ")?.1
            }
        };
        let digits = rest.split(' ').next()?;
        digits.parse().ok().map(ThreadId)
    }

    /// The functions: what has calls. The table has names of events and fields besides.
    pub fn called(&self) -> impl Iterator<Item = &Function> {
        let all = self.functions.iter();
        all.filter(|function| function.is_called())
    }

    /// The reason, if a trigger made the trace. `None`: something else made it.
    #[must_use]
    pub fn trigger(&self) -> Option<trigger::Reason<'_>> {
        trigger::Reason::parse(&self.reason)
    }

    /// The thread that the reason names: of the crash, the panic, or the slow call that a trigger waited for.
    #[must_use]
    pub fn thread_of_reason(&self) -> Option<ThreadId> {
        let slow = || Some(ThreadId(self.trigger()?.call()?.thread));
        self.failed_thread().or_else(slow)
    }

    /// The function with that id. `None`: the trace has no name for it.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        let at = self
            .functions
            .binary_search_by_key(&id, |function| function.id)
            .ok()?;
        self.functions.get(at)
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
