//! Does every format, written and read back, tell the same calls as the trace? What a format can't hold, its writer must
//! say.

use fdr_formats::bytes::FileBytes;
use fdr_formats::source::drive;
use fdr_formats::writer::{Kind, Output, Target};
use fdr_formats::{Losses, Mark, Source, TraceInfo, registry};

use super::{
    Reference, Sums, has, traces, traces_that_go_back, traces_with_short_calls, whole_run,
};
use crate::input;
use crate::output_file::{self, Pending};

/// A trace in another format, with what the format can't hold. Its folder, if it has one, is removed with it.
pub(super) struct Converted {
    pub(super) back: Box<dyn Source>,
    losses: Losses,
    _folder: Option<Pending>,
}

/// The trace in another format. `late`: the writer learns last when the trace ends, as that of a stream does, if the
/// recorder writes the format.
pub(super) fn converted(source: &dyn Source, target: &Target, late: bool) -> Converted {
    let late = late && registry::recorded().any(|recorded| recorded.name == target.name);
    let end = source.info().end;
    let info = TraceInfo {
        end: end.filter(|_| !late),
        ..source.info().clone()
    };
    let write = |output| {
        let mut writer = (target.create)(output, &info).expect("a writer");
        drive(source, &mut *writer, &|_| {}).expect("readable");
        if let Some(end) = end.filter(|_| late) {
            writer.end(end);
        }
        writer.finish().expect("a trace")
    };
    if target.kind == Kind::Folder {
        let folder = output_file::unnamed_folder().expect("a folder");
        let losses = write(Output::Folder(folder.temporary().to_owned()));
        let back = input::open(folder.temporary()).expect("a trace");
        return Converted {
            back,
            losses,
            _folder: Some(folder),
        };
    }
    let file = output_file::unnamed().expect("a file");
    let losses = write(Output::File(file.try_clone().expect("a file")));
    let bytes = FileBytes::new(file).expect("a file");
    Converted {
        back: registry::open(Box::new(bytes)).expect("a trace"),
        losses,
        _folder: None,
    }
}

/// Trace Compass leaves out calls without an entry. It ends calls inside together with the exit of the outer call.
const OTHER_RULE: &str = "tcstate";
/// Their record is a whole call. A call that begins together with the call around it is written behind that call and
/// the marks between them. So it is clipped, too.
const OF_WHOLE_CALLS: [&str; 2] = ["heph", "htdump"];

/// One of this many traces is converted.
const STEP: usize = 25;

#[test]
fn conversions_read_back_tell_the_same_calls() {
    conversions_tell_the_same_calls(|| traces(1, STEP), STEP);
}

#[test]
fn conversions_keep_totals_or_report_losses() {
    conversions_tell_the_same_calls(|| traces_with_short_calls(1, STEP), STEP);
}

mod the_rest {
    use super::{conversions_tell_the_same_calls, traces, traces_with_short_calls};

    #[test]
    fn more_conversions_read_back_tell_the_same_calls() {
        conversions_tell_the_same_calls(|| traces(1, 5), 5);
    }

    #[test]
    fn more_conversions_keep_totals_or_report_losses() {
        conversions_tell_the_same_calls(|| traces_with_short_calls(1, 5), 5);
    }
}

fn conversions_tell_the_same_calls<I: Iterator<Item = (u64, Box<dyn Source>)>>(
    traces: impl Fn() -> I,
    step: usize,
) {
    for target in registry::targets() {
        let (name, mut compared) = (target.name, 0);
        // Only these formats have records for them.
        let keeps = name.starts_with("xray");
        for (seed, source) in traces() {
            let source = &*source;
            let found = Reference::follow(source, !keeps).finish(source.info().end);
            let whole = found.missing.entries + found.missing.exits == 0;
            let is_odd =
                |mark: &Mark<'_>| !matches!(mark, Mark::ShortCalls { .. } | Mark::Threshold { .. });
            let whole = whole && !has(source, is_odd, |call| call.synthetic);
            if name == OTHER_RULE && !whole {
                continue;
            }
            compared += 1;
            let Converted {
                back,
                losses,
                _folder,
            } = converted(source, target, seed.is_multiple_of(2));
            assert_eq!(back.info().end, source.info().end, "{name}, trace {seed}");
            let identity = |source: &dyn Source| source.info().identity.clone();
            assert_eq!(identity(&*back), identity(source), "{name}, trace {seed}");
            let all_short = Reference::read(source).found.short[0];
            let told = losses
                .iter()
                .find(|(what, _)| what.starts_with("short calls"));
            assert_eq!(
                told.map_or(0, |(_, count)| count) + Reference::read(&*back).found.short[0],
                all_short,
                "{name}, trace {seed}"
            );
            if keeps {
                assert_eq!(whole_run(&*back), whole_run(source), "trace {seed}");
            }
            let again = Reference::read(&*back).finish(back.info().end).sums;
            let (mut again, mut wanted) = (again, found.sums);
            if OF_WHOLE_CALLS.iter().any(|format| name.starts_with(format)) {
                let fewer = |(id, sums): (&u32, &[u64; 3])| sums[1] < wanted[id][1];
                assert!(!again.iter().any(fewer), "{name}, trace {seed}");
                for sums in again.values_mut().chain(wanted.values_mut()) {
                    sums[1] = 0;
                }
            }
            assert_eq!(again, wanted, "{name}, trace {seed}");
        }
        let least = if name == OTHER_RULE { 25 } else { 1000 } / step;
        assert!(compared >= least, "{name}: {compared}");
    }
}

/// Some formats can't hold a time that is before the previous one. Then the writer reports a loss, and only the number
/// of calls must be that of the trace. If the writer reports no loss, the times must be the same, too.
#[test]
fn conversions_of_backward_clocks_report_changes() {
    let mut wrong = Vec::new();
    for target in registry::targets() {
        let (name, mut same, mut told) = (target.name, 0, 0);
        for (seed, source) in traces_that_go_back(2) {
            let source = &*source;
            let found = Reference::read(source).finish(source.info().end);
            if name == OTHER_RULE && found.missing.entries + found.missing.exits > 0 {
                continue;
            }
            let Converted {
                back,
                losses,
                _folder,
            } = converted(source, target, seed.is_multiple_of(2));
            let again = Reference::read(&*back).finish(back.info().end).sums;
            let nth = |sums: &Sums, nth: usize| -> Vec<u64> {
                sums.values().map(|sums| sums[nth]).collect()
            };
            let changed = |(what, _): (&str, u64)| what.contains("time") || what.contains("clock");
            // Trace Compass also leaves out a call that has no duration any more.
            let is_told = losses.iter().any(changed) || name == OTHER_RULE && !losses.is_empty();
            match is_told {
                true => told += 1,
                false => same += 1,
            }
            let is_counted = name != OTHER_RULE || !is_told;
            if back.info().end != source.info().end
                || is_counted && nth(&again, 0) != nth(&found.sums, 0)
                || !is_told && nth(&again, 2) != nth(&found.sums, 2)
            {
                let found = found.sums;
                wrong.push(format!(
                    "{name}, trace {seed}: {again:?}, not {found:?}: {losses}"
                ));
            }
        }
        // XRay and ENTRACE hold such times. The other writers report the changes.
        let holding = ["xray", "et", "iet"];
        match holding.iter().any(|start| name.starts_with(start)) {
            true => assert_eq!((same, told), (250, 0), "{name}"),
            false => assert!(told >= 5, "{name}: {told} of {}", same + told),
        }
    }
    let first: Vec<_> = wrong.iter().take(5).collect();
    assert!(wrong.is_empty(), "{} {first:#?}", wrong.len());
}
