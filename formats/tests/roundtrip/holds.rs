//! What each target holds of a trace, one line each: the programs of a pair are cut to what both hold.
//! A target that is missing here fails the test, and so does one that loses what its line says it holds.

/// Where a change of CPU may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cpus {
    /// Nowhere.
    None,
    /// At an entry or exit.
    AtCalls,
    /// Anywhere.
    Anywhere,
}

/// What a target holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holds {
    /// The target's name.
    pub(crate) target: &'static str,
    /// Changes of the CPU.
    pub(crate) cpus: Cpus,
    /// That the CPU at a thread's first event is not known.
    pub(crate) unknown_cpu: bool,
    /// A thread's first wall-clock time.
    pub(crate) wall: bool,
    /// Arguments of calls.
    pub(crate) arguments: bool,
    /// Events with a payload.
    pub(crate) custom: bool,
    /// The CPU of such an event.
    pub(crate) custom_cpu: bool,
    /// Events with a payload and a type.
    pub(crate) typed: bool,
    /// Places where records are missing.
    pub(crate) lost: bool,
    /// That a call was left by a tail call.
    pub(crate) tail_exits: bool,
    /// That an entry or exit in the middle of a thread was not measured.
    pub(crate) holes: bool,
    /// Calls without entry or exit as they are; others get what they lack, marked as synthetic.
    pub(crate) unbalanced: bool,
    /// Calls whose entry is missing, if only by adding it.
    pub(crate) lone_exits: bool,
    /// That a time is before that of the event before.
    pub(crate) backwards: bool,
    /// The order of events of the same time.
    pub(crate) ties: bool,
    /// Source files and lines of functions.
    pub(crate) lines: bool,
    /// That a function is untimed.
    pub(crate) untimed: bool,
    /// Functions by number: also those without a name, and several of one name.
    pub(crate) ids: bool,
    /// Name, rate and error of the clock, and that it is constant.
    pub(crate) clock: bool,
    /// Reason and number of the dump, and what is missing.
    pub(crate) dump: bool,
    /// Counts of the threads.
    pub(crate) counts: bool,
    /// The process of each thread.
    pub(crate) processes: bool,
}

const ALL: Holds = Holds {
    target: "",
    cpus: Cpus::Anywhere,
    unknown_cpu: true,
    wall: true,
    arguments: true,
    custom: true,
    custom_cpu: true,
    typed: true,
    lost: true,
    tail_exits: true,
    holes: true,
    unbalanced: true,
    lone_exits: true,
    backwards: true,
    ties: true,
    lines: true,
    untimed: true,
    ids: true,
    clock: true,
    dump: true,
    counts: true,
    processes: true,
};

const XRAY: Holds = Holds {
    unbalanced: false,
    unknown_cpu: false,
    custom_cpu: false,
    typed: false,
    ..ALL
};

/// Formats whose record is a whole call.
const SPANS: Holds = Holds {
    unbalanced: false,
    cpus: Cpus::AtCalls,
    backwards: false,
    ties: false,
    ..ALL
};

const ENTRACE: Holds = Holds {
    unbalanced: true,
    ..SPANS
};

/// A line for every target.
pub(crate) const TABLE: &[Holds] = &[
    Holds {
        target: "xray",
        ..XRAY
    },
    Holds {
        target: "xray1",
        // The version has no record for it.
        processes: false,
        ..XRAY
    },
    Holds {
        target: "heph",
        ..SPANS
    },
    Holds {
        target: "htdump",
        untimed: false,
        ..SPANS
    },
    Holds {
        target: "htdump-be",
        untimed: false,
        ..SPANS
    },
    Holds {
        target: "tcstate",
        cpus: Cpus::None,
        arguments: false,
        custom: false,
        typed: false,
        lost: false,
        tail_exits: false,
        holes: false,
        unbalanced: true,
        lone_exits: false,
        ..SPANS
    },
    Holds {
        target: "ctf",
        backwards: false,
        untimed: false,
        ..ALL
    },
    Holds {
        target: "et",
        ..ENTRACE
    },
    Holds {
        target: "iet",
        ..ENTRACE
    },
    Holds {
        target: "iet-prefix",
        ..ENTRACE
    },
    Holds {
        target: "et2",
        ..ENTRACE
    },
    Holds {
        target: "iet2",
        ..ENTRACE
    },
    Holds {
        target: "iet-prefix2",
        ..ENTRACE
    },
];

impl Holds {
    /// The line of a target.
    pub(crate) fn for_target(target: &str) -> Holds {
        let found = TABLE.iter().find(|holds| holds.target == target);
        *found.unwrap_or_else(|| panic!("{target} is not in the table of roundtrip/holds.rs"))
    }

    /// What both hold, of a trace that is written as this one first.
    pub(crate) fn and(self, other: Holds) -> Holds {
        Holds {
            target: "",
            cpus: self.cpus.min(other.cpus),
            unknown_cpu: self.unknown_cpu && other.unknown_cpu,
            wall: self.wall && other.wall,
            arguments: self.arguments && other.arguments,
            custom: self.custom && other.custom,
            custom_cpu: self.custom_cpu && other.custom_cpu,
            typed: self.typed && other.typed,
            lost: self.lost && other.lost,
            tail_exits: self.tail_exits && other.tail_exits,
            holes: self.holes && other.holes,
            unbalanced: self.unbalanced && other.unbalanced,
            // The one adds what the other would leave out.
            lone_exits: self.lone_exits && (other.lone_exits || !self.unbalanced),
            backwards: self.backwards && other.backwards,
            ties: self.ties && other.ties,
            lines: self.lines && other.lines,
            untimed: self.untimed && other.untimed,
            ids: self.ids && other.ids,
            clock: self.clock && other.clock,
            dump: self.dump && other.dump,
            counts: self.counts && other.counts,
            processes: self.processes && other.processes,
        }
    }
}
