//! No record is invented, lost in silence or counted twice. For every size of ring, both modes and all clocks, recorded
//! = readable + overwritten + dropped + summarised, and recorded is the program's own count. With `FDR_KEEP=0` the trace
//! holds exactly the newest (or oldest) calls of the program.

use std::collections::BTreeMap;

use fdr::{Statistics, ThreadStatistics};
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::script::Script;
use fdr_tests::support::trace::Trace;

/// Function records of a chunk in which the thread never moved to another CPU.
const PER_CHUNK: u64 = (65_536 - 48) / 8;

/// A thread of the program `exact`.
struct Thread {
    name: &'static str,
    seed: u64,
    calls: u64,
}

fn thread(name: &'static str, seed: u64, calls: u64) -> Thread {
    Thread { name, seed, calls }
}

fn wave(threads: &[Thread]) -> String {
    let words = threads
        .iter()
        .map(|thread| format!("{}:{}:{}", thread.name, thread.seed, thread.calls));
    words.collect::<Vec<String>>().join(",")
}

fn run(folder: &Folder, variables: &str, waves: &[String]) -> Outcome {
    let program = Program::named("exact", folder);
    program.set("FDR=1").set(variables).args(waves).run().ok()
}

/// What the program counted itself: calls of each thread.
fn counted(outcome: &Outcome) -> BTreeMap<String, u64> {
    let count = |words: Vec<String>| {
        let calls = words[1..].iter().map(|word| facts::number::<u64>(word));
        (words[0].clone(), calls.sum())
    };
    facts::all(&outcome.stdout, "counted")
        .into_iter()
        .map(count)
        .collect()
}

fn adds_up(thread: &ThreadStatistics) {
    let parts = thread.readable + thread.overwritten + thread.dropped + thread.summarised;
    assert_eq!(thread.recorded, parts, "{thread:?}");
}

/// By default and with every call.
fn check(variables: &str, chunks: u64) {
    for keep in ["", " FDR_KEEP=0"] {
        check_with(&format!("{variables}{keep}"), chunks);
    }
}

/// Three threads at once: one that fills its ring `chunks` chunks twice over, one that does not, and one
/// with a single call.
fn check_with(variables: &str, chunks: u64) {
    let full = variables.contains("FDR_MODE=full");
    let has_all = full || variables.contains("FDR_KEEP=0");
    let folder = Folder::new("counts");
    let threads = [
        thread("w0", 1, chunks * PER_CHUNK + 7),
        thread("w1", 2, chunks * PER_CHUNK / 4),
        thread("w2", 3, 1),
    ];
    let outcome = run(&folder, variables, &[wave(&threads)]);
    let (counted, statistics) = (counted(&outcome), facts::statistics(&outcome.stdout));
    assert_eq!(counted.len(), 3, "{outcome:?}");
    assert_eq!(facts::total(&statistics), 2 * counted.values().sum::<u64>());
    assert_eq!(statistics.threads.len(), 3, "{statistics:?}");
    let trace = Trace::verified(&folder.only_trace());
    assert_eq!(trace.threads.len(), 3);
    for (made, stats) in threads.iter().zip(ordered(&statistics)) {
        let lane = trace.thread(made.name);
        let counts = lane.checked_counts();
        adds_up(stats);
        assert_eq!(made.calls, counted[made.name]);
        assert_eq!(stats.recorded, 2 * made.calls, "{variables}: {stats:?}");
        let of_trace = [
            counts.recorded,
            counts.readable,
            counts.overwritten,
            counts.dropped,
            counts.summarised,
        ];
        let of_call = [
            stats.recorded,
            stats.readable,
            stats.overwritten,
            stats.dropped,
            stats.summarised,
        ];
        assert_eq!(of_trace, of_call, "{variables}: {stats:?}");
        assert_eq!(lane.thread.id.0, stats.id);

        if stats.summarised > 0 {
            // Which calls were short is not known. `short_calls` compares each function's calls.
            assert!(!has_all && stats.overwritten > 0, "{variables}: {stats:?}");
            continue;
        }
        let edges = Script::new(made.seed, made.calls).edges(u64::MAX);
        let readable = counts.readable as usize;
        let expected = if full {
            assert_eq!(counts.overwritten, 0);
            &edges[..readable]
        } else {
            assert_eq!(counts.dropped, 0);
            &edges[edges.len() - readable..]
        };
        assert!(
            trace.scripted(lane) == expected,
            "{variables}: {}",
            made.name
        );
    }
    let short = &ordered(&statistics)[1];
    assert_eq!(short.readable, short.recorded, "{variables}: {short:?}");
    let long = &ordered(&statistics)[0];
    if !has_all {
        // Its ring went round in less than ten seconds.
        assert!(long.summarised > 0, "{variables}: {long:?}");
        return;
    }
    // Some chunks end early: a move to another CPU takes the room of two records.
    let (least, most) = ((chunks - 1) * PER_CHUNK * 9 / 10, chunks * PER_CHUNK);
    assert!(
        (least..=most).contains(&long.readable),
        "{variables}: {long:?}"
    );
}

fn ordered(statistics: &Statistics) -> Vec<&ThreadStatistics> {
    let mut threads: Vec<&ThreadStatistics> = statistics.threads.iter().collect();
    threads.sort_by(|a, b| a.name.cmp(&b.name));
    threads
}

/// All modes and clocks with one size.
fn check_all(buffer: &str, chunks: u64) {
    for mode in ["ring", "full"] {
        for clock in ["rdtscp", "rdtsc", "monotonic"] {
            check(
                &format!("FDR_BUFFER={buffer} FDR_MODE={mode} FDR_CLOCK={clock}"),
                chunks,
            );
        }
    }
}

#[test]
fn rings_of_128_kib() {
    check_all("128K", 2);
}

#[test]
fn rings_of_256_kib() {
    check_all("256K", 4);
}

#[test]
fn rings_of_1_mib() {
    check_all("1M", 16);
}

#[test]
fn rings_of_4_mib() {
    check_all("4M", 64);
}

/// Larger rings differ from rings of 4 MiB in their size only.
mod the_rest {
    use super::check;

    #[test]
    fn rings_of_64_mib() {
        check("FDR_BUFFER=64M FDR_MODE=ring", 1024);
        check("FDR_BUFFER=64M FDR_MODE=full", 1024);
    }
}

/// A budget of two regions.
const TWO_REGIONS: &str = "FDR_BUFFER=128K FDR_MEMORY=256K FDR_KEEP=0";
/// The same by default: totals are as large as these regions.
const TWO_REGIONS_WITH_TOTALS: &str = "FDR_BUFFER=128K FDR_MEMORY=512K";

#[test]
fn threads_without_room_are_counted() {
    for (mode, two_regions) in [
        ("ring", TWO_REGIONS_WITH_TOTALS),
        ("ring", TWO_REGIONS),
        ("full", TWO_REGIONS),
    ] {
        let folder = Folder::new("counts-dropped");
        let names = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"];
        let threads: Vec<Thread> = names
            .iter()
            .zip(100..)
            .map(|(name, seed)| thread(name, seed, 200_000))
            .collect();
        let variables = format!("{two_regions} FDR_MODE={mode}");
        let outcome = run(&folder, &variables, &[wave(&threads)]);
        let statistics = facts::statistics(&outcome.stdout);
        assert_eq!(
            facts::total(&statistics),
            2 * 8 * 200_000,
            "{mode}: {statistics:?}"
        );
        statistics.threads.iter().for_each(adds_up);
        assert_eq!(statistics.threads.len(), 2, "{mode}: {statistics:?}");
        // At once they are; the first two to come have the room.
        assert!(statistics.missing.dropped > 0, "{mode}: {statistics:?}");
        if mode == "full" {
            assert_eq!(statistics.missing.threads, 0, "{statistics:?}");
        }
        let trace = Trace::verified(&folder.only_trace());
        for lane in &trace.threads {
            let _ = lane.checked_counts();
        }
        let read: u64 = trace
            .threads
            .iter()
            .map(|lane| lane.edges.len() as u64)
            .sum();
        let readable: u64 = statistics
            .threads
            .iter()
            .map(|thread| thread.readable)
            .sum();
        assert_eq!(read, readable);
    }
}

#[test]
fn oldest_ended_regions_are_reused_first() {
    let folder = Folder::new("counts-recycled");
    let names = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];
    let waves: Vec<String> = names
        .iter()
        .zip(1..)
        .map(|(name, number)| wave(&[thread(name, number, 1000 * number)]))
        .collect();
    let outcome = run(&folder, TWO_REGIONS, &waves);
    let statistics = facts::statistics(&outcome.stdout);
    let calls: u64 = counted(&outcome).values().sum();
    assert_eq!(calls, 55_000);
    assert_eq!(facts::total(&statistics), 2 * calls, "{statistics:?}");
    assert_eq!(
        (statistics.missing.threads, statistics.missing.dropped),
        (8, 0)
    );
    assert_eq!(statistics.missing.overwritten, 2 * 36_000);
    let left: Vec<&str> = ordered(&statistics)
        .iter()
        .map(|thread| &*thread.name)
        .collect();
    assert_eq!(left, ["t8", "t9"]);
    let trace = Trace::read(&folder.only_trace());
    for (name, seed) in [("t8", 9), ("t9", 10)] {
        let lane = trace.thread(name);
        let edges = Script::new(seed, 1000 * seed).edges(u64::MAX);
        assert_eq!(lane.checked_counts().recorded, 2000 * seed);
        let newest = &edges[edges.len() - lane.edges.len()..];
        assert!(trace.scripted(lane) == newest, "{name}");
    }
}

#[test]
fn full_mode_keeps_the_oldest_regions() {
    let folder = Folder::new("counts-full-regions");
    let waves = ["t0", "t1", "t2", "t3"].map(|name| wave(&[thread(name, 5, 300)]));
    let outcome = run(&folder, &format!("{TWO_REGIONS} FDR_MODE=full"), &waves);
    let statistics = facts::statistics(&outcome.stdout);
    let names: Vec<&str> = ordered(&statistics)
        .iter()
        .map(|thread| &*thread.name)
        .collect();
    assert_eq!(names, ["t0", "t1"]);
    assert_eq!(
        (statistics.missing.threads, statistics.missing.dropped),
        (0, 2 * 600)
    );
}

#[test]
fn threads_competing_for_regions_lose_no_count() {
    let folder = Folder::new("counts-fight");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let waves: Vec<String> = (0..30)
        .map(|seed| wave(&names.map(|name| thread(name, seed, 3 + seed * 40))))
        .collect();
    let outcome = run(&folder, "FDR_BUFFER=128K FDR_MEMORY=1280K", &waves);
    let statistics = facts::statistics(&outcome.stdout);
    let calls: u64 = (0..30).map(|seed| 12 * (3 + seed * 40)).sum();
    assert_eq!(facts::total(&statistics), 2 * calls, "{statistics:?}");
    assert!(statistics.missing.threads > 0, "{statistics:?}");
    for lane in Trace::verified(&folder.only_trace()).threads {
        let _ = lane.checked_counts();
    }
}
