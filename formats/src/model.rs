//! The neutral vocabulary that every format is read into and written from.
//!
//! Three nouns, never mixed: a *record* is one on-disk unit, a *block* is one thread's run of
//! records, an *event* is neutral ([`Call`] or [`Mark`]). Units are types: no bare `u64` time
//! crosses a function boundary. Nothing in here knows any format's layout.

use std::fmt;

use crate::scale;
pub use crate::scale::{Nanos, Ticks};

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
    /// Not measured: added by a writer to balance a snapshot.
    pub synthetic: bool,
    /// Arguments follow as [`Mark::Argument`].
    pub has_arguments: bool,
}

const _: () = assert!(size_of::<Call>() == 16);

impl Call {
    /// What is in a place that has none yet.
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

/// Everything of a thread that is not a call, in order with its calls.
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
    /// So many function records of the thread are missing at this place: overwritten, dropped, or
    /// lost on the way to a receiver.
    Lost {
        /// How many.
        records: u64,
    },
    /// The thread's clock began anew at this place, or jumped. Readers go on where it was, so that no
    /// time goes back and no duration holds the jump; what calls that are open here took is not known.
    Break {
        /// The last time before it, and the first one after it.
        time: Ticks,
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
    /// What a record at that time says that counts missing records. Where it counts none, it stands for a break of
    /// the clock, for which most formats have no record: both put calls in doubt that are open there.
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
    /// Name as a person would say it; empty where the trace has none.
    pub name: String,
    /// Source file; empty where unknown.
    pub file: String,
    /// Line, from 1; 0 where unknown.
    pub line: u32,
    /// Its calls have no times of their own: an entry and an exit are in their order, and have the time
    /// of the thread's record before them. The time inside is its caller's.
    pub untimed: bool,
}

/// A thread of the trace, with the recorder's own count of it where the trace has that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The operating system's number.
    pub id: ThreadId,
    /// The process, where the trace has it.
    pub process: Option<u64>,
    /// Name; empty where unknown.
    pub name: String,
    /// What was recorded, kept and lost; `None` where the trace does not say.
    pub counts: Option<Counts>,
}

/// Function records of one thread: `recorded = readable + overwritten + dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Asked to be recorded.
    pub recorded: u64,
    /// In the trace (without synthetic ones).
    pub readable: u64,
    /// Written, then overwritten by newer ones.
    pub overwritten: u64,
    /// Never written: no space, or a signal came while a record was being made; or left out by a
    /// conversion into a format that can't hold them.
    pub dropped: u64,
    /// Entries that a writer put at the start for frames that were open before it.
    pub synthetic_entries: u64,
    /// Exits that a writer put at the end for frames that were still open.
    pub synthetic_exits: u64,
}

/// Function records of threads that are not in the trace at all. The words are those of [`Counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Threads that ended and whose rings were given to newer ones.
    pub threads: u64,
    /// All that those had recorded.
    pub overwritten: u64,
    /// Records of threads that had no ring.
    pub dropped: u64,
}

/// How ticks become time.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Ticks per second, in Hz. Never zero: readers put 1 GHz where a trace says 0, and a diagnostic.
    pub frequency: u64,
    /// Name of the clock; empty where the trace has none.
    pub name: String,
    /// Error of `frequency` in parts per million, where the trace says it.
    pub error_ppm: Option<f64>,
    /// The counter has a constant rate.
    pub constant: bool,
    /// The counter runs on in low-power states.
    pub nonstop: bool,
    /// A tick and the Unix time in nanoseconds at that tick, where the trace has such a pair.
    pub anchor: Option<(Ticks, u64)>,
    /// The same when the trace was written: nearly all of it is older.
    pub until: Option<(Ticks, u64)>,
    /// What the recorder found wrong with it.
    pub trouble: Trouble,
}

/// What a recorder found wrong with its clock while it ran. All zeros: nothing, or it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// By how much the counters of two CPUs differ at least, in ns.
    pub skew_ns: u64,
    /// How often a thread found the clock behind its last record, on another CPU or after a reset.
    pub steps_back: u64,
    /// How far the clock is ahead of what the operating system's steady clock says has passed since
    /// the anchor (negative: behind), in ns; 0 where the two agree within their errors.
    pub ahead_ns: i64,
    /// How far the time of day was moved on against that steady clock (negative: back), in ns: it was
    /// set, or the machine slept. No duration is affected.
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
            trouble: Trouble::default(),
        }
    }
}

impl Clock {
    /// The time of a tick, or a duration, in nanoseconds, by the rule of [`scale`].
    #[must_use]
    pub fn nanos(&self, ticks: Ticks) -> Nanos {
        scale::nanos(ticks, self.frequency)
    }

    /// The same where 64 bits can hold it.
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

/// What a trace says of itself, known before the first event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceInfo {
    /// The format and its version, for people: `XRay FDR, version 3, little-endian`.
    pub format: String,
    /// Its clock.
    pub clock: Clock,
    /// Its functions, sorted by id.
    pub functions: Vec<Function>,
    /// Its threads, in the order of the file. A thread of several blocks is listed once.
    pub threads: Vec<Thread>,
    /// Name of the program; empty where unknown.
    pub program: String,
    /// Its process id, where known.
    pub process: Option<u64>,
    /// Why the trace was written (`exit`, `signal`, …); empty where unknown.
    pub reason: String,
    /// Number of the dump within its process, counted from 1; `None` where the trace has none.
    pub dump: Option<u64>,
    /// Records of threads that are not in it.
    pub missing: Missing,
    /// Earliest time of the trace, where it is known without reading all of it.
    pub start: Option<Ticks>,
    /// The moment of the dump, or of the process's death as far as it is known. Calls that are open then
    /// last until then. `None` where the trace does not say.
    pub end: Option<Ticks>,
}

impl TraceInfo {
    /// The thread whose crash or panic made the recorder write, where the reason names it.
    #[must_use]
    pub fn failed_thread(&self) -> Option<ThreadId> {
        // What comes before the number is the recorder's own words.
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

    /// The function of that id. `None`: the trace has no name for it.
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
