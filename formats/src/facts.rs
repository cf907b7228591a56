//! The facts that a trace states about itself, as one list. Formats that write facts with names use it. A format
//! chooses the names and the order, and encodes the values. This file alone knows which facts exist, and which values
//! are left out.

use crate::identity::Part;
use crate::model::{Counts, Ticks, TraceInfo};

/// One fact about a trace. Times are in ns since tick 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Program,
    Process,
    Reason,
    Dump,
    Start,
    End,
    MissingThreads,
    MissingOverwritten,
    MissingDropped,
    ClockName,
    /// A fact of the clock that measured. A reader of ns has no use for it.
    Frequency,
    ErrorPpm,
    Constant,
    Nonstop,
    AnchorTime,
    AnchorUnix,
    SkewNs,
    StepsBack,
    AheadNs,
    WallStepNs,
    /// One text of the identity.
    Identity(Part),
}

/// The value of a fact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Number(u64),
    Signed(i64),
    Float(f64),
    Flag(bool),
}

/// Facts with the names that a format gives them, in its order.
pub(crate) type Names = [(Fact, &'static str)];

/// The facts of a trace with these names. Facts without a value are left out.
pub(crate) fn values<'a>(
    info: &'a TraceInfo,
    names: &'static Names,
) -> impl Iterator<Item = (&'static str, Value<'a>)> {
    names
        .iter()
        .filter_map(|&(fact, name)| Some((name, fact.get(info)?)))
}

/// The fact with that name.
pub(crate) fn named(names: &Names, name: &[u8]) -> Option<Fact> {
    let known = names.iter().find(|(_, known)| known.as_bytes() == name);
    known.map(|&(fact, _)| fact)
}

impl Fact {
    /// Whether its value is a text.
    pub(crate) const fn is_text(self) -> bool {
        matches!(
            self,
            Fact::Program | Fact::Reason | Fact::ClockName | Fact::Identity(_)
        )
    }

    /// Whether it holds or does not.
    pub(crate) const fn is_flag(self) -> bool {
        matches!(self, Fact::Constant | Fact::Nonstop)
    }

    /// `None`: the trace does not state this fact.
    #[inline(never)]
    pub(crate) fn get(self, info: &TraceInfo) -> Option<Value<'_>> {
        let (clock, missing, faults) = (&info.clock, &info.missing, &info.clock.faults);
        let nanos = |tick: Option<Ticks>| tick.and_then(|tick| clock.checked_nanos(tick));
        let anchor = nanos(clock.anchor.map(|(tick, _)| tick));
        let value = match self {
            Fact::Program => Value::Text(&info.program),
            Fact::Reason => Value::Text(&info.reason),
            Fact::ClockName => Value::Text(&clock.name),
            Fact::Identity(part) => Value::Text(info.identity.get(part)),
            Fact::Process => return info.process.map(Value::Number),
            Fact::Dump => return info.dump.map(Value::Number),
            Fact::Start => return nanos(info.start).map(Value::Number),
            Fact::End => return nanos(info.end).map(Value::Number),
            Fact::AnchorTime => return anchor.map(Value::Number),
            Fact::AnchorUnix => {
                let unix = clock.anchor.filter(|_| anchor.is_some());
                return unix.map(|(_, unix)| Value::Number(unix));
            }
            Fact::Frequency => Value::Number(clock.frequency),
            Fact::ErrorPpm => return clock.error_ppm.map(Value::Float),
            Fact::Constant => Value::Flag(clock.constant),
            Fact::Nonstop => Value::Flag(clock.nonstop),
            Fact::MissingThreads => Value::Number(missing.threads),
            Fact::MissingOverwritten => Value::Number(missing.overwritten),
            Fact::MissingDropped => Value::Number(missing.dropped),
            Fact::SkewNs => Value::Number(faults.skew_ns),
            Fact::StepsBack => Value::Number(faults.steps_back),
            Fact::AheadNs => Value::Signed(faults.ahead_ns),
            Fact::WallStepNs => Value::Signed(faults.wall_step_ns),
        };
        let silent = [
            Value::Text(""),
            Value::Number(0),
            Value::Signed(0),
            Value::Flag(false),
        ];
        (!silent.contains(&value)).then_some(value)
    }

    /// Sets the fact from a value that was read, with ticks in ns. A value of another kind is ignored.
    pub(crate) fn set(self, info: &mut TraceInfo, value: Value<'_>) {
        let (clock, missing) = (&mut info.clock, &mut info.missing);
        let faults = &mut clock.faults;
        match (self, value) {
            (Fact::Program, Value::Text(text)) => text.clone_into(&mut info.program),
            (Fact::Reason, Value::Text(text)) => text.clone_into(&mut info.reason),
            (Fact::ClockName, Value::Text(text)) => text.clone_into(&mut clock.name),
            (Fact::Identity(part), Value::Text(text)) => info.identity.set(part, text),
            (Fact::Process, Value::Number(number)) => info.process = Some(number),
            (Fact::Dump, Value::Number(number)) => info.dump = Some(number),
            (Fact::Start, Value::Number(ns)) => info.start = Some(Ticks(ns)),
            (Fact::End, Value::Number(ns)) => info.end = Some(Ticks(ns)),
            (Fact::AnchorTime, Value::Number(ns)) => {
                clock.anchor.get_or_insert_default().0 = Ticks(ns);
            }
            (Fact::AnchorUnix, Value::Number(ns)) => clock.anchor.get_or_insert_default().1 = ns,
            (Fact::ErrorPpm, Value::Float(error)) => clock.error_ppm = Some(error),
            (Fact::Constant, Value::Flag(flag)) => clock.constant = flag,
            (Fact::Nonstop, Value::Flag(flag)) => clock.nonstop = flag,
            (Fact::MissingThreads, Value::Number(count)) => missing.threads = count,
            (Fact::MissingOverwritten, Value::Number(count)) => missing.overwritten = count,
            (Fact::MissingDropped, Value::Number(count)) => missing.dropped = count,
            (Fact::SkewNs, Value::Number(ns)) => faults.skew_ns = ns,
            (Fact::StepsBack, Value::Number(count)) => faults.steps_back = count,
            (Fact::AheadNs, Value::Signed(ns)) => faults.ahead_ns = ns,
            (Fact::WallStepNs, Value::Signed(ns)) => faults.wall_step_ns = ns,
            _ => {}
        }
    }
}

/// The names that all formats give the counts of a thread, in the order of their fields.
const COUNT_NAMES: [&str; 6] = [
    "recorded",
    "readable",
    "overwritten",
    "dropped",
    "synthetic_entries",
    "synthetic_exits",
];

/// The places of the counts with these names.
fn count_places(counts: &mut Counts) -> [&mut u64; 6] {
    [
        &mut counts.recorded,
        &mut counts.readable,
        &mut counts.overwritten,
        &mut counts.dropped,
        &mut counts.synthetic_entries,
        &mut counts.synthetic_exits,
    ]
}

/// The counts of a thread, with their names.
pub(crate) fn of_counts(counts: &Counts) -> [(&'static str, u64); 6] {
    let mut counts = counts.without_summaries();
    let mut values = count_places(&mut counts).into_iter();
    COUNT_NAMES.map(|name| (name, values.next().map_or(0, |value| *value)))
}

/// The counts of a thread, from the number of each name.
pub(crate) fn counts_of(number: impl Fn(&str) -> u64) -> Counts {
    let mut counts = Counts::default();
    for (place, name) in count_places(&mut counts).into_iter().zip(COUNT_NAMES) {
        *place = number(name);
    }
    counts
}

/// Sets a count that was read. Returns whether a count has this name.
pub(crate) fn set_count(counts: &mut Option<Counts>, name: &[u8], value: u64) -> bool {
    let mut names = COUNT_NAMES.iter();
    let Some(nth) = names.position(|known| known.as_bytes() == name) else {
        return false;
    };
    *count_places(counts.get_or_insert_default())[nth] = value;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Clock, ClockFaults, Identity, Missing};

    const ALL: [Fact; 25] = [
        Fact::Program,
        Fact::Process,
        Fact::Reason,
        Fact::Dump,
        Fact::Start,
        Fact::End,
        Fact::MissingThreads,
        Fact::MissingOverwritten,
        Fact::MissingDropped,
        Fact::ClockName,
        Fact::Frequency,
        Fact::ErrorPpm,
        Fact::Constant,
        Fact::Nonstop,
        Fact::AnchorTime,
        Fact::AnchorUnix,
        Fact::SkewNs,
        Fact::StepsBack,
        Fact::AheadNs,
        Fact::WallStepNs,
        Fact::Identity(Part::Host),
        Fact::Identity(Part::Boot),
        Fact::Identity(Part::Build),
        Fact::Identity(Part::Version),
        Fact::Identity(Part::Tags),
    ];

    #[test]
    fn facts_come_back_and_absent_ones_are_absent() {
        let info = TraceInfo {
            clock: Clock {
                name: "rdtsc".into(),
                error_ppm: Some(0.5),
                constant: true,
                nonstop: true,
                anchor: Some((Ticks(7), 8)),
                faults: ClockFaults {
                    skew_ns: 9,
                    steps_back: 10,
                    ahead_ns: -11,
                    wall_step_ns: 12,
                },
                ..Clock::default()
            },
            program: "app".into(),
            process: Some(0),
            identity: Identity::from_bytes(b"h\0b\0i\x001.0\0k=v\x001/9\0"),
            reason: "exit".into(),
            dump: Some(1),
            missing: Missing {
                threads: 2,
                overwritten: 3,
                dropped: 4,
            },
            start: Some(Ticks(5)),
            end: Some(Ticks(6)),
            ..TraceInfo::default()
        };
        let (mut back, nothing) = (TraceInfo::default(), TraceInfo::default());
        for fact in ALL {
            let value = fact.get(&info);
            fact.set(&mut back, value.expect("it is said"));
            let silent = fact.get(&nothing).is_none();
            assert_eq!(silent, fact != Fact::Frequency, "{fact:?}");
            // A value of another kind is left.
            let odd = match value {
                Some(Value::Text(_)) => Value::Number(1),
                _ => Value::Text("1"),
            };
            fact.set(&mut back, odd);
        }
        assert_eq!(back, info);
    }

    #[test]
    fn anchors_without_ns_are_left_out() {
        let mut info = TraceInfo::default();
        info.clock.frequency = 1;
        info.clock.anchor = Some((Ticks(u64::MAX), 8));
        assert_eq!(Fact::AnchorTime.get(&info), None);
        assert_eq!(Fact::AnchorUnix.get(&info), None);
    }
}
