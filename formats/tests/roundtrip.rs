//! Round trips: for any events that two targets can both hold, writing them as the one, converting that
//! into the other, and converting back gives the same, over all pairs of targets of the registry. What
//! a target holds is a table; a target that is not in it fails the test.

pub(crate) mod holds;
mod plain;
pub(crate) mod programs;

use std::ops::Range;

use crate::common::{self, Written};
use crate::golden;
use fdr_formats::registry::{self, FORMATS, targets};
use fdr_formats::source::drive;
use fdr_formats::writer::Target;
use fdr_formats::{Sink, Source, TraceInfo};
use holds::{Cpus, Holds, TABLE};
use plain::{Plain, ThreadedLog};
use programs::Program;

/// Programs per pair; in the plain run the first two of them.
const SEEDS: u64 = 6;
const FIRST_SEEDS: u64 = 2;

/// What is written as that target. Nothing may be lost.
fn write(target: &Target, info: &TraceInfo, tell: impl Fn(&mut dyn Sink)) -> WrittenTrace {
    let written = Written::new(target, info, |writer| tell(writer));
    assert_eq!(written.losses.to_string(), "", "losses of {}", target.name);
    WrittenTrace {
        source: written.open(),
        _written: written,
    }
}

/// A trace that was written, with the place where it is.
struct WrittenTrace {
    source: Box<dyn Source>,
    _written: Written,
}

fn convert(source: &dyn Source, target: &Target) -> WrittenTrace {
    write(target, source.info(), |sink| {
        drive(source, sink, &|_| {}).expect("a readable trace");
    })
}

/// Every pair of targets, with what both hold.
fn pairs() -> impl Iterator<Item = (&'static Target, &'static Target, Holds)> {
    targets().flat_map(|first_target| {
        targets().map(move |second_target| {
            let holds =
                Holds::for_target(first_target.name).and(Holds::for_target(second_target.name));
            (first_target, second_target, holds)
        })
    })
}

#[test]
fn the_table_is_that_of_the_registry() {
    for target in targets() {
        assert_eq!(Holds::for_target(target.name).target, target.name);
    }
    for holds in TABLE {
        let known = registry::target(holds.target).is_some();
        assert!(known, "{} is no target (any more)", holds.target);
    }
}

#[test]
fn some_whole_programs() {
    whole_programs(0..FIRST_SEEDS);
}

#[test]
fn some_snapshots() {
    snapshots(0..FIRST_SEEDS);
}

mod the_rest {
    use super::{FIRST_SEEDS, SEEDS};

    #[test]
    fn whole_programs() {
        super::whole_programs(FIRST_SEEDS..SEEDS);
    }

    #[test]
    fn snapshots() {
        super::snapshots(FIRST_SEEDS..SEEDS);
    }
}

fn whole_programs(seeds: Range<u64>) {
    for (first_target, second_target, holds) in pairs() {
        for seed in seeds.clone() {
            let place = format!(
                "{} and {}, program {seed}",
                first_target.name, second_target.name
            );
            let program = Program::whole(seed, holds);
            let mut log = ThreadedLog::default();
            program.push_to(&mut log, usize::MAX >> 1);
            let wanted = Plain::new(&program.info, &log, holds);

            let first = write(first_target, &program.info, |sink| {
                program.push_to(sink, 50)
            });
            same(&wanted, &Plain::read(&*first.source, holds), &place);
            let there = convert(&*first.source, second_target);
            same(&wanted, &Plain::read(&*there.source, holds), &place);
            let back = convert(&*there.source, first_target);
            same(&wanted, &Plain::read(&*back.source, holds), &place);
        }
    }
}

fn snapshots(seeds: Range<u64>) {
    for (first_target, second_target, holds) in pairs() {
        for seed in seeds.clone() {
            let place = format!(
                "{} and {}, snapshot {seed}",
                first_target.name, second_target.name
            );
            let program = Program::snapshot(seed, holds);
            let holds = program.holds;
            let first = write(first_target, &program.info, |sink| {
                program.push_to(sink, 50)
            });
            let there = convert(&*first.source, second_target);
            // A writer that balances the calls does it once; from then on nothing changes.
            let balanced = Holds::for_target(first_target.name).unbalanced
                && !Holds::for_target(second_target.name).unbalanced;
            let wanted = if balanced { &there } else { &first };
            let wanted = Plain::read(&*wanted.source, holds);
            same(&wanted, &Plain::read(&*there.source, holds), &place);
            let back = convert(&*there.source, first_target);
            same(&wanted, &Plain::read(&*back.source, holds), &place);
        }
    }
}

/// What a target holds of a trace.
fn held(source: &dyn Source, holds: Holds) -> Plain {
    let mut log = ThreadedLog::default();
    drive(source, &mut log, &|_| {}).expect("a readable trace");
    log.restrict(holds);
    Plain::new(source.info(), &log, holds)
}

#[test]
fn golden_traces_of_xray_come_back() {
    let xray = FORMATS.iter().find(|format| format.name == "xray");
    for path in golden::traces(xray.expect("the native format")) {
        let source = registry::open_path(&path).expect("a golden trace");
        if !source.diagnostics().is_empty() {
            continue;
        }
        for target in targets() {
            let place = format!("{} as {}", path.display(), target.name);
            // Events of equal times keep their order.
            let holds = Holds {
                ties: true,
                ..Holds::for_target(target.name)
            };
            let is_held = match common::file_name(&path).as_str() {
                "v1-open.fdr" => holds.unbalanced,
                "v1-strayexit.fdr" => holds.unbalanced && holds.lone_exits,
                // Typed events become custom ones.
                "v5-std.fdr" | "v5-mt.fdr" => holds.typed || !holds.custom,
                // An event and a call begin at one time. In Heph, no event has a place beside a call.
                "v3-mt-epoch.fdr" => target.name != "heph",
                _ => true,
            };
            if !is_held {
                continue;
            }
            let written = Written::new(target, source.info(), |writer| {
                drive(&*source, writer, &|_| {}).expect("a golden trace");
            });
            let (all, found) = (
                Plain::read(&*source, holds),
                Plain::read(&*written.open(), holds),
            );
            let wanted = held(&*source, holds);
            if found != all {
                same(&wanted, &found, &place);
            }
            if wanted == all && holds.cpus != Cpus::None {
                let losses = written.losses.to_string();
                let is_rounded = losses.ends_with("llvm-xray rounds them");
                assert!(losses.is_empty() || is_rounded, "{place}: {losses}");
            }
        }
    }
}

#[test]
fn ticks_become_nanoseconds() {
    for target in targets() {
        let holds = Holds::for_target(target.name);
        for seed in 0..SEEDS {
            let mut log = ThreadedLog::default();
            let program = Program::whole(seed, holds);
            program.push_to(&mut log, usize::MAX >> 1);
            let wanted = Plain::new(&program.info, &log, holds);
            // Not too fast: where a count of ticks is long, XRay's tools round it.
            let program = program.faster(3);
            let written = write(target, &program.info, |sink| program.push_to(sink, 50));
            let place = format!("{} at 3 GHz, program {seed}", target.name);
            same(&wanted, &Plain::read(&*written.source, holds), &place);
        }
    }
}

#[test]
fn odd_tick_rates_become_equal_nanoseconds() {
    let xray = registry::target("xray").expect("the native format");
    for target in targets() {
        let holds = Holds::for_target(target.name).and(Holds::for_target("xray"));
        for seed in 0..SEEDS {
            let mut log = ThreadedLog::default();
            let program = Program::whole(seed, holds);
            program.push_to(&mut log, usize::MAX >> 1);
            let wanted = Plain::new(&program.info, &log, holds);
            let program = program.at_rate(2_095_000_000);
            let place = format!("{} at 2.095 GHz, program {seed}", target.name);

            let recorded = write(xray, &program.info, |sink| program.push_to(sink, 50));
            same(&wanted, &Plain::read(&*recorded.source, holds), &place);
            let there = convert(&*recorded.source, target);
            same(&wanted, &Plain::read(&*there.source, holds), &place);
            let back = convert(&*there.source, xray);
            same(&wanted, &Plain::read(&*back.source, holds), &place);
        }
    }
}

#[test]
#[should_panic(expected = "two programs, thread 100: event")]
fn a_difference_is_found() {
    let holds = Holds::for_target("xray");
    let read = |program: &Program| {
        let xray = registry::target("xray").expect("the native format");
        let written = write(xray, &program.info, |sink| program.push_to(sink, 50));
        Plain::read(&*written.source, holds)
    };
    let mut program = Program::whole(3, holds);
    let wanted = read(&program);
    for event in &mut program.threads[0].1 {
        if let common::Event::Call(call) = event {
            call.time.0 += 1;
        }
    }
    same(&wanted, &read(&program), "two programs");
}

/// Compares piece by piece, so that the message shows the difference without the equal parts.
fn same(wanted: &Plain, found: &Plain, place: &str) {
    assert_eq!(wanted.program, found.program, "{place}");
    assert_eq!(wanted.process, found.process, "{place}");
    assert_eq!(wanted.identity, found.identity, "{place}");
    assert_eq!(wanted.dump, found.dump, "{place}");
    assert_eq!(wanted.clock, found.clock, "{place}");
    assert_eq!(wanted.unix, found.unix, "{place}");
    assert_eq!(wanted.lines, found.lines, "{place}");
    let threads: Vec<_> = wanted.threads.keys().collect();
    assert_eq!(threads, found.threads.keys().collect::<Vec<_>>(), "{place}");
    for (id, wanted) in &wanted.threads {
        let found = &found.threads[id];
        let what =
            |thread: &plain::PlainThread| (thread.name.clone(), thread.process, thread.counts);
        assert_eq!(what(wanted), what(found), "{place}, thread {id}");
        let (ours, theirs) = (&wanted.events, &found.events);
        let differ = ours
            .iter()
            .zip(theirs)
            .position(|(one, other)| one != other);
        let at = differ.unwrap_or(ours.len().min(theirs.len()));
        let near = |events: &[plain::PlainEvent]| {
            let from = at.saturating_sub(3).min(events.len());
            format!("{:#?}", &events[from..events.len().min(at + 3)])
        };
        assert!(
            ours == theirs,
            "{place}, thread {id}: event {at} of {} and {}; wanted {}, found {}",
            ours.len(),
            theirs.len(),
            near(ours),
            near(theirs)
        );
    }
}
