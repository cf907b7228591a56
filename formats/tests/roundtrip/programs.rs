//! Programs at random, always the same for the same seed, cut to what a pair of targets holds.

use fdr_formats::identity::Part;
use fdr_formats::model::{Clock, Counts, Identity, Missing, TraceInfo};
use fdr_formats::{Call, Edge, Function, FunctionId, Sink, Thread, ThreadId, Ticks};

use super::holds::{Cpus, Holds};
use crate::common::{self, Event, Random};

/// A trace that is not in any format.
pub(crate) struct Program {
    pub(crate) info: TraceInfo,
    /// What it has of what both targets hold.
    pub(crate) holds: Holds,
    pub(crate) threads: Vec<(Thread, Vec<Event>)>,
}

impl Program {
    /// Calls that nest and end, and what may stand between them.
    pub(crate) fn whole(seed: u64, holds: Holds) -> Program {
        Program::new(seed, holds, |_, events| events)
    }

    /// What is left of such a program in a ring: it begins and ends anywhere, and here and there
    /// something is missing.
    ///
    /// A call whose exit is missing ends at the last call before, in every format. What else stands
    /// there is at another place where a format orders by time, and so are calls that a change of CPU
    /// gives the same time: such pairs get calls alone, and either holes or changes of CPU.
    pub(crate) fn snapshot(seed: u64, holds: Holds) -> Program {
        let holes = holds.holes && (holds.ties || seed % 2 == 0);
        let holds = Holds {
            custom: holds.custom && holds.backwards,
            typed: holds.typed && holds.backwards,
            lost: holds.lost && holds.ties,
            cpus: if holes && !holds.ties {
                Cpus::None
            } else {
                holds.cpus
            },
            ..holds
        };
        Program::new(seed, holds, |random, events| {
            let end = events.len() as u64;
            let (from, to) = (random.below(end), random.below(end));
            let first = if holds.lone_exits { from.min(to) } else { 0 };
            let range = first..from.max(to) + 1;
            let mut inside = Vec::new();
            for (at, event) in (0..).zip(events) {
                let wall = matches!(event, Event::Wall(..));
                let hole = holes && random.below(25) == 0;
                if wall || (range.contains(&at) && !hole) {
                    inside.push(event);
                }
            }
            inside
        })
    }

    fn new(
        seed: u64,
        holds: Holds,
        cut: impl Fn(&mut Random, Vec<Event>) -> Vec<Event>,
    ) -> Program {
        // xorshift never leaves 0.
        let random = &mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let info = info(random, holds);
        let (threads, process) = (1 + random.below(4), info.process);
        let thread = |nth: u64, random: &mut Random| {
            let program = common::program(random);
            let events = more(random, program);
            let events = cut(random, events);
            let events = begun(restricted(events, holds), holds);
            (thread(100 + nth, process, &events, holds), events)
        };
        let threads = (0..threads).map(|nth| thread(nth, random)).collect();
        Program {
            info,
            holds,
            threads,
        }
    }

    /// The same on a clock that ticks faster, by a whole number.
    pub(crate) fn faster(mut self, times: u64) -> Program {
        self.info.clock.frequency *= times;
        if let Some((tick, _)) = &mut self.info.clock.anchor {
            tick.0 *= times;
        }
        let events = self.threads.iter_mut().flat_map(|(_, events)| events);
        for time in events.filter_map(time_of) {
            *time *= times;
        }
        self
    }

    /// The same on a clock of that odd rate, long after its start. Each tick is the last one before its
    /// ns: the nearest ns is the one of before, and a time that is rounded down is 1 ns less.
    pub(crate) fn at_rate(mut self, frequency: u64) -> Program {
        let start = 1_000_000_000_000_000;
        let tick = |nanos: u64| {
            let product = u128::from(start + nanos) * u128::from(frequency);
            u64::try_from(product / 1_000_000_000).expect("a time of days")
        };
        self.info.clock.frequency = frequency;
        if let Some((anchor, _)) = &mut self.info.clock.anchor {
            anchor.0 = tick(anchor.0);
        }
        let events = self.threads.iter_mut().flat_map(|(_, events)| events);
        for time in events.filter_map(time_of) {
            *time = tick(*time);
        }
        self
    }

    /// Gives a sink everything, each thread in pieces, taking turns.
    pub(crate) fn push_to(&self, sink: &mut dyn Sink, piece: usize) {
        let longest = self.threads.iter().map(|(_, events)| events.len()).max();
        let mut from = 0;
        while from == 0 || from < longest.unwrap_or(0) {
            for (thread, events) in &self.threads {
                // Arguments stay with their call.
                let at = |at: usize| at.min(events.len()) + arguments(events, at);
                let part = &events[at(from)..at(from + piece)];
                if from == 0 || !part.is_empty() {
                    sink.thread(thread);
                    part.iter().for_each(|event| common::push(sink, event));
                }
            }
            from += piece;
        }
    }
}

/// How many arguments stand at that place.
fn arguments(events: &[Event], at: usize) -> usize {
    let rest = events.get(at..).unwrap_or(&[]).iter();
    rest.take_while(|event| matches!(event, Event::Argument(_)))
        .count()
}

fn info(random: &mut Random, holds: Holds) -> TraceInfo {
    // Some functions have no name, if the format can say so.
    let names = if holds.ids { 30 } else { 40 };
    let function = |id: u32| Function {
        id: FunctionId(id),
        name: format!("<krate::Type{id} as krate::Trait<'_, \"ü\\\">>::method"),
        file: if holds.lines {
            format!("src/file {id}.rs")
        } else {
            String::new()
        },
        line: if holds.lines { id * 7 } else { 0 },
        untimed: holds.untimed && id % 5 == 2,
        kind: Default::default(),
    };
    let mut info = TraceInfo {
        clock: Clock {
            frequency: 1_000_000_000,
            anchor: Some((
                Ticks(random.below(2_000_000)),
                1_700_000_000_000_000_000 + random.below(1 << 50),
            )),
            ..Clock::default()
        },
        functions: (1..=names).map(function).collect(),
        program: "a program".into(),
        process: Some(1 + random.below(1 << 22)),
        ..TraceInfo::default()
    };
    info.identity = identity(&mut Random(random.0 ^ 0x1d));
    if holds.clock {
        info.clock.name = "rdtscp".into();
        info.clock.error_ppm = Some(1.25);
        (info.clock.constant, info.clock.nonstop) = (true, true);
    }
    if holds.dump {
        info.reason = "signal".into();
        info.dump = Some(1 + random.below(100));
        info.missing = Missing {
            threads: random.below(3),
            overwritten: random.below(1000),
            dropped: random.below(1000),
        };
    }
    info
}

/// Texts of any length and with any characters; some are empty.
fn identity(random: &mut Random) -> Identity {
    let letters = [
        'a', '=', ',', '"', '\\', '\n', '\u{1b}', 'ü', '🦀', '\u{202e}',
    ];
    let mut identity = Identity::default();
    for part in Part::ALL {
        let most = random.below(part.most_bytes() as u64);
        let letter = |_| letters[random.below(letters.len() as u64) as usize];
        let text: String = (0..most).map(letter).collect();
        identity.set(part, &text);
    }
    identity
}

/// Adds events of the rarer kinds.
fn more(random: &mut Random, events: Vec<Event>) -> Vec<Event> {
    let mut time = 0;
    let mut all = Vec::new();
    for event in events {
        match &event {
            Event::Call(call) => time = call.time.0,
            Event::Cpu(at, _) | Event::Custom(at, ..) => time = *at,
            _ => {}
        }
        let argument = matches!(event, Event::Argument(_));
        if time > 0 && !argument {
            match random.below(40) {
                0 => all.push(Event::Typed(time, random.below(1 << 16) as u16, vec![7; 3])),
                1 => all.push(Event::Custom(
                    time,
                    Some(random.below(8) as u32),
                    vec![0, 255],
                )),
                2 => all.push(Event::Lost(1 + random.below(1000))),
                _ => {}
            }
        }
        all.push(event);
    }
    all
}

/// Leaves out what the pair can't hold.
pub(crate) fn restricted(events: Vec<Event>, holds: Holds) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    let (mut shift, mut last, mut has_wall, mut after_call) = (0, 0, false, false);
    for mut event in events {
        let wanted = match &mut event {
            Event::Call(call) => {
                if !holds.tail_exits && call.edge == Edge::TailExit {
                    call.edge = Edge::Exit;
                }
                call.has_arguments &= holds.arguments;
                true
            }
            Event::Cpu(..) => holds.cpus != Cpus::None,
            Event::Wall(..) => holds.wall && !std::mem::replace(&mut has_wall, true),
            // A cut may have taken its call.
            Event::Argument(_) => holds.arguments && after_call,
            Event::Lost(_) | Event::Break(_) => holds.lost,
            Event::Custom(_, cpu, _) => {
                *cpu = cpu.filter(|_| holds.custom_cpu);
                holds.custom
            }
            Event::Typed(..) => holds.typed,
            Event::Short(..) | Event::Threshold(_) | Event::Note(..) => false,
        };
        if !wanted {
            continue;
        }
        after_call = match event {
            Event::Call(call) => call.has_arguments,
            Event::Argument(_) => true,
            _ => false,
        };
        if let Some(time) = time_of(&mut event) {
            *time += shift;
            if !holds.ties && *time <= last {
                shift += last + 1 - *time;
                *time = last + 1;
            }
            last = *time;
        }
        all.push(event);
    }
    if holds.cpus == Cpus::AtCalls {
        all = at_calls(all);
    }
    marked_arguments(all)
}

/// A thread has a call, and begins with its CPU where that must be known.
fn begun(mut events: Vec<Event>, holds: Holds) -> Vec<Event> {
    let is_call = |event: &Event| matches!(event, Event::Call(_));
    if !events.iter().any(is_call) {
        let time = events
            .iter_mut()
            .filter_map(time_of)
            .map(|time| *time)
            .max();
        let time = time.unwrap_or(1_000_000) + 1;
        events.extend([common::enter(time, 1), common::exit(time + 1, 1)].map(Event::Call));
    }
    if holds.unknown_cpu || holds.cpus == Cpus::None {
        return events;
    }
    if holds.cpus == Cpus::AtCalls {
        // What comes before the first call, whose CPU is the first.
        let mut begun = false;
        events.retain(|event| {
            begun |= is_call(event) || matches!(event, Event::Cpu(..));
            begun || matches!(event, Event::Wall(..))
        });
    }
    // What is missing before the first event is so on its CPU.
    let first = events.iter_mut().position(|event| time_of(event).is_some());
    let first = first.unwrap_or(0);
    let cpu = match events[first] {
        Event::Cpu(..) => events.remove(first),
        ref mut event => Event::Cpu(time_of(event).map_or(0, |time| *time), 5),
    };
    let wall = usize::from(matches!(events.first(), Some(Event::Wall(..))));
    events.insert(wall, cpu);
    events
}

fn time_of(event: &mut Event) -> Option<&mut u64> {
    match event {
        Event::Call(call) => Some(&mut call.time.0),
        Event::Cpu(time, _)
        | Event::Custom(time, ..)
        | Event::Typed(time, ..)
        | Event::Note(time, ..)
        | Event::Short(time, ..) => Some(time),
        Event::Wall(..)
        | Event::Argument(_)
        | Event::Lost(_)
        | Event::Break(_)
        | Event::Threshold(_) => None,
    }
}

/// Moves each change of CPU to the next call; of several, the last one counts.
fn at_calls(events: Vec<Event>) -> Vec<Event> {
    let (mut moved, mut cpu) = (None, None);
    let mut all = Vec::new();
    for event in events {
        match event {
            Event::Cpu(_, number) => moved = Some(number),
            Event::Call(call) => {
                if let Some(number) = moved.take().filter(|number| cpu != Some(*number)) {
                    cpu = Some(number);
                    all.push(Event::Cpu(call.time.0, number));
                }
                all.push(Event::Call(call));
            }
            other => all.push(other),
        }
    }
    all
}

/// A call says that it has arguments exactly where some follow.
fn marked_arguments(mut events: Vec<Event>) -> Vec<Event> {
    for at in 0..events.len() {
        let has_arguments = matches!(events.get(at + 1), Some(Event::Argument(_)));
        if let Event::Call(call) = &mut events[at] {
            call.has_arguments = has_arguments;
        }
    }
    events
}

fn thread(id: u64, process: Option<u64>, events: &[Event], holds: Holds) -> Thread {
    let readable = events
        .iter()
        .filter(|event| matches!(event, Event::Call(Call { .. })))
        .count() as u64;
    Thread {
        id: ThreadId(id),
        process: process.filter(|_| holds.processes),
        name: format!("worker {id} \"ß\""),
        counts: holds.counts.then_some(Counts {
            recorded: readable + 7,
            readable,
            overwritten: 5,
            dropped: 2,
            ..Counts::default()
        }),
        totals: Vec::new(),
        early_calls: Vec::new(),
    }
}
