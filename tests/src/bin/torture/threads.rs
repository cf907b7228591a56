//! Short threads without number. What the process holds after all of them is what it held after a tenth,
//! and not one call is missing in the sum.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use fdr_tests::support::truth::{MADE, PHASE, STOP};

use crate::look::{Look, look};
use crate::plan::{Failure, Folder, Plan, Tally, Try, Verdict, lock};
use crate::victim::{Part, Setting};

const AT_ONCE: u64 = 25;
const ROUND: u64 = 100_000;
const LIMIT: Duration = Duration::from_secs(300);
/// Memory of all rings, KiB; head and table of the ring's file come on top.
const BUDGET_KIB: u64 = 4 << 10;
const HEAD_KIB: u64 = 1 << 10;
/// What a process may hold in addition at its end: stacks that the C library keeps for later threads, the allocator's
/// arenas, and the dumper's buffer.
const SLACK_KIB: u64 = 4 << 10;
const SLACK_MAPPINGS: u64 = 64;

pub(crate) fn run(plan: &Plan) -> Tally {
    let round = plan.tries.clamp(AT_ONCE, ROUND);
    plan.each(1, round, |one, tally| {
        one.within(true, |folder| process(one, round, folder, tally))
    })
}

/// What a process holds.
#[derive(Clone, Copy)]
struct Holds {
    descriptors: u64,
    mappings: u64,
    resident_kib: u64,
    ring_kib: u64,
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holds {
            descriptors,
            mappings,
            resident_kib,
            ring_kib,
        } = self;
        write!(
            f,
            "{descriptors} descriptors, {mappings} mappings, {resident_kib} KiB resident, {ring_kib} KiB ring"
        )
    }
}

impl Holds {
    fn now(process: u32, ring: &Path) -> Result<Holds, String> {
        let failed = |error: std::io::Error| format!("process {process}: {error}");
        let of = |name: &str| Path::new("/proc").join(process.to_string()).join(name);
        let descriptors = fs::read_dir(of("fd")).map_err(failed)?.count() as u64;
        let maps = fs::read_to_string(of("maps")).map_err(failed)?;
        let status = fs::read_to_string(of("status")).map_err(failed)?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|line| line.split_whitespace().next());
        Ok(Holds {
            descriptors,
            mappings: maps.lines().count() as u64,
            resident_kib: resident.and_then(|word| word.parse().ok()).unwrap_or(0),
            ring_kib: fs::metadata(ring).map_err(failed)?.blocks() / 2,
        })
    }

    fn is_bounded(&self, before: &Holds) -> bool {
        self.descriptors <= before.descriptors
            && self.mappings <= before.mappings + SLACK_MAPPINGS
            && self.resident_kib <= before.resident_kib + SLACK_KIB
            && self.ring_kib <= BUDGET_KIB + HEAD_KIB
    }
}

/// Records that were asked for, as a trace accounts for them.
fn recorded(look: &Look) -> u64 {
    let kept: u64 = look.lanes.iter().map(|lane| lane.counts.recorded).sum();
    kept + look.info.missing.overwritten + look.info.missing.dropped
}

fn process(one: &Try<'_>, count: u64, folder: &Folder, tally: &Mutex<Tally>) -> Verdict {
    let part = Part("threads", [0, count, AT_ONCE]);
    let variables = &format!("FDR_MEMORY={BUDGET_KIB}K FDR_OUT=%n.fdr");
    let setting = Setting::plain();
    setting.count(tally);
    let (mut child, truth) = part.start(one.plan, folder, 2, setting, variables)?;
    child.until("a tenth", LIMIT, || truth.get(0, PHASE) >= 1)?;
    let rings = folder.ending(".fdr-ring");
    let ring = rings.first().ok_or_else(|| "there is no ring".to_owned())?;
    let first = Holds::now(child.id(), ring)?;
    truth.set(0, STOP, 1);
    child.until("the last thread", LIMIT, || truth.get(0, PHASE) >= 2)?;
    let last = Holds::now(child.id(), ring)?;
    if !last.is_bounded(&first) {
        return Err(Failure::Wrong(format!("{first}; in the end {last}")));
    }
    let asked = 2 * truth.get(1, MADE);
    let in_ring = recorded(&look(ring)?);
    truth.set(0, STOP, 2);
    child.succeed(folder.path(), LIMIT)?;
    let traces = folder.ending(".fdr");
    let trace = traces.first().ok_or_else(|| "no file".to_owned())?;
    let in_trace = recorded(&look(trace)?);
    if in_ring != asked || in_trace != asked {
        let why = format!("{asked} records, {in_ring} in the ring, {in_trace} in the trace");
        return Err(match in_ring.max(in_trace) > asked {
            true => Failure::Wrong(why),
            false => Failure::Lost(asked - in_ring.min(in_trace), why),
        });
    }
    lock(tally).say(format!("after a tenth {first}; in the end {last}"));
    Ok(())
}
