//! The assembly against the writer: it reads the real clock, so times are compared with readings
//! around it, and the slot is put into each state that makes a record uncommon.

use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};

use super::{FN_1, FN_2, PER_CHUNK, Rig};
use crate::site::COUNTED;
use fdr_formats::lengths::class;

use crate::clock::{self, Kind};
use crate::config;
use crate::recorder::stub::OTHER_WAY;
use crate::recorder::{
    CLOCK, EXIT, UNCLAIMED, call, call_entry, call_untimed, call_untimed_entry, entrance,
    entrance_untimed, prepare, tls,
};
use crate::ring::layout::TOTALS_IDS;
use crate::ring::record::PREAMBLE;
use crate::ring::{layout, totals};

/// What a site's word holds besides, for the kind that is tested; and that of an untimed one.
static BIT: AtomicU32 = AtomicU32::new(0);
static UNTIMED_BIT: AtomicU32 = AtomicU32::new(0);
/// Of a timed one whose calls are only counted.
static COUNTED_BITS: AtomicU32 = AtomicU32::new(0);
static FORCED: AtomicU32 = AtomicU32::new(0);
/// Whether calls may leave no records.
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Runs `body` on a thread whose slot is the rig's.
fn with_slot(kind: Kind, rig: &Rig, body: impl FnOnce()) {
    clock::choose(config::Clock::Rdtsc);
    CLOCK.store(kind as u32, Relaxed);
    let bits = prepare(kind, tls::fixed_offset(), KEEPS.load(Relaxed));
    BIT.store(bits.timed | FORCED.load(Relaxed), Relaxed);
    UNTIMED_BIT.store(bits.untimed | FORCED.load(Relaxed), Relaxed);
    COUNTED_BITS.store(bits.counted | COUNTED, Relaxed);
    let address = core::ptr::from_ref(rig.slot()).expose_provenance();
    // SAFETY: the rig outlives the thread's use of its slot, which ends below.
    tls::set(unsafe { &*core::ptr::with_exposed_provenance(address) });
    body();
    tls::set(&UNCLAIMED);
}

/// A record as a site makes it.
fn edge(word: u32) {
    call(word | BIT.load(Relaxed));
}

/// The same of a function without times.
fn untimed(word: u32) {
    call_untimed(word | UNTIMED_BIT.load(Relaxed));
}

fn now(kind: Kind) -> u64 {
    clock::read(kind).ticks
}

fn last(rig: &Rig) -> u64 {
    let slot = rig.slot();
    u64::from(slot.high.load(Relaxed)) << 32 | u64::from(slot.last_low.load(Relaxed))
}

/// All of it in one test: the clock's kind is one for all threads.
#[test]
fn the_stub_makes_what_the_writer_makes() {
    stay_on_one_cpu();
    let mut kinds = vec![Kind::Tscp, Kind::Monotonic];
    for request in [config::Clock::Rdtsc, config::Clock::Rdtscp] {
        kinds.push(clock::choose(request).kind);
    }
    if has_rdpid() {
        kinds.push(Kind::TscPid);
    }
    for kind in kinds {
        // With the bit as well: that is how they come where slots can't be reached.
        for (forced, keeps) in [(0, false), (OTHER_WAY, false), (0, true)] {
            FORCED.store(forced, Relaxed);
            KEEPS.store(keeps, Relaxed);
            records_follow_each_other(kind);
            each_uncommon_state_is_handed_over(kind);
            chunks_follow_each_other(kind);
            untimed_ones_are_as_the_writer_makes_them(kind);
            untimed_ones_fill_chunks(kind);
            registers_are_kept(kind, entrance(), &BIT);
            registers_are_kept(kind, entrance_untimed(), &UNTIMED_BIT);
            if keeps {
                short_calls_count_as_in_the_writer(kind);
                calls_are_counted_by_function(kind);
                some_calls_are_only_counted(kind);
                chunks_are_filled_by_both(kind);
                registers_are_kept_where_calls_are_short(kind);
            }
        }
    }
}

/// The counters of two CPUs may differ, and the tests compare ticks.
fn stay_on_one_cpu() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(&first) = cores.first() {
        core_affinity::set_for_current(first);
    }
}

fn has_rdpid() -> bool {
    #[allow(unused_unsafe)]
    // SAFETY: each x86-64 processor has CPUID, and an unknown leaf is zeros or another leaf.
    let leaf = unsafe { core::arch::x86_64::__cpuid_count(7, 0) };
    leaf.ecx >> 22 & 1 == 1
}

fn records_follow_each_other(kind: Kind) {
    let rig = Rig::new(2, false);
    let before = now(kind);
    let mut lasts = Vec::new();
    with_slot(kind, &rig, || {
        for word in [FN_1, FN_2, FN_2 | EXIT, FN_1 | EXIT] {
            edge(word);
            lasts.push(last(&rig));
        }
    });
    let after = now(kind);
    assert!(
        before <= lasts[0] && lasts.is_sorted() && lasts[3] <= after,
        "{kind:?}"
    );
    let (_, counts) = rig.read();
    assert_eq!((counts.recorded, counts.readable), (4, 4));
    // Unless the thread was moved or the counter's upper half changed in these few instructions.
    if rig.slot().metadata.load(Relaxed) == PREAMBLE {
        let expected: Vec<u8> = [FN_1, FN_2, FN_2 | EXIT, FN_1 | EXIT]
            .iter()
            .enumerate()
            .flat_map(|(at, word)| {
                let delta = if at == 0 {
                    0
                } else {
                    lasts[at] - lasts[at - 1]
                };
                (u64::from(*word) | delta << 32).to_le_bytes()
            })
            .collect();
        assert_eq!(rig.records(), expected, "{kind:?}");
    }
}

fn each_uncommon_state_is_handed_over(kind: Kind) {
    let rig = Rig::new(2, false);
    let slot = rig.slot();
    with_slot(kind, &rig, || {
        edge(FN_1);
        // The last record in the future, by less than a reset: it keeps its time.
        let future = now(kind) + 1_000_000_000;
        slot.last_low.store(future as u32, Relaxed);
        slot.last_high.store((future >> 32) as u32, Relaxed);
        slot.high.store((future >> 32) as u32, Relaxed);
        edge(FN_2);
        assert_eq!(last(&rig), future, "{kind:?}");
        // The upper half changed: the lower half is behind, the difference is small.
        let past = now(kind) - 5;
        slot.last_low.store(past as u32, Relaxed);
        slot.last_high.store((past >> 32) as u32, Relaxed);
        slot.high.store((past >> 32) as u32, Relaxed);
        edge(FN_2 | EXIT);
        assert!(last(&rig) > past, "{kind:?}");
        // A long silence.
        let long_ago = now(kind) - (5 << 32);
        slot.last_low.store(long_ago as u32, Relaxed);
        slot.last_high.store((long_ago >> 32) as u32, Relaxed);
        slot.high.store((long_ago >> 32) as u32, Relaxed);
        let metadata = slot.metadata.load(Relaxed);
        edge(FN_1 | EXIT);
        assert!(
            slot.metadata.load(Relaxed) >= metadata + 16,
            "{kind:?}: no wrap"
        );
        assert!(last(&rig) > long_ago);
        // Another record is being made.
        slot.cpu.store(layout::BUSY, Relaxed);
        edge(FN_1);
        assert_eq!(slot.dropped.load(Relaxed), 1);
        let cpu = slot.cpu.load(Relaxed);
        assert_eq!(
            cpu,
            layout::BUSY,
            "{kind:?}: it is the interrupted record's to end"
        );
        slot.cpu.store(layout::NO_CPU, Relaxed);
        edge(FN_1);
    });
    let (_, counts) = rig.read();
    assert_eq!(
        (counts.recorded, counts.readable, counts.dropped),
        (6, 5, 1),
        "{kind:?}"
    );
}

fn chunks_follow_each_other(kind: Kind) {
    let rig = Rig::new(3, false);
    let total = 7 * PER_CHUNK + 11;
    with_slot(kind, &rig, || (0..total).for_each(|_| edge(FN_1)));
    let (chunks, counts) = rig.read();
    assert_eq!(counts.recorded, total, "{kind:?}");
    assert_eq!(counts.readable + counts.overwritten, total);
    assert_eq!(chunks.len(), 3);
}

fn untimed_ones_are_as_the_writer_makes_them(kind: Kind) {
    let rig = Rig::new(2, false);
    let slot = rig.slot();
    with_slot(kind, &rig, || {
        let before = now(kind);
        // The first of all: it opens the chunk, and has a time.
        untimed(FN_2);
        let opened = last(&rig);
        assert!((before..=now(kind)).contains(&opened), "{kind:?}");
        let cpu = slot.cpu.load(Relaxed);
        untimed(FN_2 | EXIT);
        untimed(FN_1);
        assert_eq!(
            (last(&rig), slot.cpu.load(Relaxed)),
            (opened, cpu),
            "{kind:?}"
        );
        assert_eq!(
            rig.records(),
            [FN_2, FN_2 | EXIT, FN_1]
                .map(|word| u64::from(word).to_le_bytes())
                .concat(),
            "{kind:?}"
        );
        // Another record is being made.
        slot.cpu.store(layout::BUSY, Relaxed);
        untimed(FN_1);
        assert_eq!(slot.dropped.load(Relaxed), 1, "{kind:?}");
        assert_eq!(slot.cpu.load(Relaxed), layout::BUSY, "{kind:?}");
        slot.cpu.store(cpu, Relaxed);
        edge(FN_1 | EXIT);
    });
    let (_, counts) = rig.read();
    assert_eq!((counts.recorded, counts.readable), (5, 4), "{kind:?}");
}

fn untimed_ones_fill_chunks(kind: Kind) {
    for others in [2, 5, PER_CHUNK] {
        let rig = Rig::new(3, false);
        let total = 7 * PER_CHUNK + 11;
        with_slot(kind, &rig, || {
            for at in 0..total {
                if at % others == 1 {
                    edge(FN_1);
                } else {
                    untimed(FN_2);
                }
            }
        });
        let (chunks, counts) = rig.read();
        assert_eq!(counts.recorded, total, "{kind:?}");
        assert_eq!(counts.readable + counts.overwritten, total);
        assert_eq!(chunks.len(), 3);
        for record in chunks[1][PREAMBLE as usize..].chunks(8) {
            assert!(record[0] != 0x20 || record[4..] == [0; 4], "{record:?}");
        }
    }
}

/// Registers that the convention keeps, across a record of the common kind, the second one, and across two
/// that go the long way through the writer.
fn registers_are_kept(kind: Kind, stub: *mut (), bit: &AtomicU32) {
    let rig = Rig::new(2, false);
    with_slot(kind, &rig, || {
        for nth in 0..3 {
            let sent = u64::from(FN_1 | bit.load(Relaxed));
            let (mut di, mut si, mut r8, mut word) = (11_u64, 12_u64, 13_u64, sent);
            let (mut low, mut high) = ([1.5_f64, 2.5], [3.5_f64, 4.5]);
            // SAFETY: as in `stub::call`; the vector registers are ours to load and store.
            unsafe {
                asm!(
                    "movupd xmm0, [r12]",
                    "movupd xmm15, [r13]",
                    "call {stub}",
                    "movupd [r12], xmm0",
                    "movupd [r13], xmm15",
                    stub = in(reg) stub,
                    in("r12") low.as_mut_ptr(),
                    in("r13") high.as_mut_ptr(),
                    inout("rdi") di, inout("rsi") si, inout("r8") r8, inout("r11") word,
                    out("rax") _, out("rcx") _, out("rdx") _, out("r9") _, out("r10") _,
                    out("xmm0") _, out("xmm15") _,
                );
            }
            assert_eq!((di, si, r8, word), (11, 12, 13, sent), "{kind:?}");
            assert_eq!((low, high), ([1.5, 2.5], [3.5, 4.5]), "{kind:?}");
            if nth == 1 {
                rig.slot().cpu.store(layout::NO_CPU, Relaxed);
            }
        }
    });
    assert_eq!(rig.read().1.recorded, 3);
}

fn short_calls_count_as_in_the_writer(kind: Kind) {
    for (threshold, records) in [(u64::MAX, 2), (0, 6)] {
        let rig = Rig::new(2, false);
        with_slot(kind, &rig, || {
            edge(FN_1);
            rig.set_threshold(threshold);
            let calls = rig.open_calls();
            let before = now(kind);
            edge(FN_1);
            edge(FN_2);
            assert_eq!(calls.open().0, 2, "{kind:?}");
            let frame = &calls.frames[2];
            assert_eq!(frame.word.load(Relaxed), FN_2, "{kind:?}");
            let entered = frame.ticks.load(Relaxed);
            let inside = now(kind);
            assert!((before..=inside).contains(&entered), "{kind:?}");
            let least = now(kind) - inside;
            edge(FN_2 | EXIT);
            let inside = calls.frames[1].short_calls.load(Relaxed);
            assert_eq!(inside, u64::from(threshold > 0), "{kind:?}");
            edge(FN_1 | EXIT);
            let root = &calls.frames[0];
            let (count, ticks) = (
                root.short_calls.load(Relaxed),
                root.short_ticks.load(Relaxed),
            );
            assert_eq!(count, if threshold > 0 { 2 } else { 0 }, "{kind:?}");
            let most = now(kind) - before;
            let least = if threshold > 0 { least } else { 0 };
            assert!((least..=most).contains(&ticks), "{kind:?}: {ticks}");
            assert_eq!(
                crate::ring::open_calls::summarised(calls),
                count,
                "{kind:?}"
            );
            assert_eq!(calls.open().0, 0, "{kind:?}");
            // Without an entry.
            edge(FN_2 | EXIT);
            // Another record is being made.
            let cpu = rig.slot().cpu.load(Relaxed);
            rig.slot().cpu.store(layout::BUSY, Relaxed);
            edge(FN_1);
            assert_eq!(rig.slot().dropped.load(Relaxed), 1, "{kind:?}");
            rig.slot().cpu.store(cpu, Relaxed);
        });
        let (_, counts) = rig.read();
        assert_eq!((counts.recorded, counts.readable), (7, records), "{kind:?}");
    }
}

/// The first call of a function is counted by Rust, later ones by the assembly.
fn calls_are_counted_by_function(kind: Kind) {
    for (threshold, records) in [(u64::MAX, 0), (0, 12)] {
        let rig = Rig::new(2, false);
        with_slot(kind, &rig, || {
            edge(FN_1);
            rig.set_threshold(threshold);
            for _ in 0..3 {
                for word in [FN_1, FN_2, FN_2 | EXIT, FN_1 | EXIT] {
                    edge(word);
                }
            }
        });
        let row = |function: u32| {
            let mut rows = totals::rows(rig.totals());
            let row = rows.find(|row| row.function.load(Relaxed) == function);
            let mut copy = totals::Copy::EMPTY;
            copy.read(row.expect("a row"));
            copy
        };
        let (outer, inner) = (row(1), row(2));
        assert_eq!((outer.calls, inner.calls), (3, 3), "{kind:?}");
        assert_eq!(outer.own + inner.total, outer.total, "{kind:?}");
        assert_eq!(inner.own, inner.total, "{kind:?}");
        for copy in [&outer, &inner] {
            assert_eq!(copy.lengths.iter().sum::<u64>(), 3, "{kind:?}");
            let longest = class(copy.longest);
            let most = copy.lengths.iter().rposition(|calls| *calls > 0);
            assert_eq!(Some(longest), most, "{kind:?}");
            assert!(copy.longest <= copy.total && copy.total <= 3 * copy.longest);
        }
        assert_eq!(rig.read().1.readable, 1 + records, "{kind:?}");
    }
}

/// The first call of a function is counted by Rust, and so are those of functions that the index does not have.
fn some_calls_are_only_counted(kind: Kind) {
    let (rig, plain) = (Rig::new(2, false), Rig::new(2, false));
    let timed = |word: u32| call_entry(word | COUNTED_BITS.load(Relaxed));
    let untimed = |word: u32| call_untimed_entry(word | COUNTED | UNTIMED_BIT.load(Relaxed));
    let count = |entry: &dyn Fn(u32) -> u32, word: u32| {
        for _ in 0..5 {
            assert_eq!(entry(word), 0, "{kind:?}: it has no exit");
        }
    };
    with_slot(kind, &rig, || {
        edge(FN_1);
        rig.set_threshold(0);
        count(&timed, FN_2);
        count(&untimed, 3 << 4);
        // A handler within a record.
        let cpu = rig.slot().cpu.load(Relaxed);
        rig.slot().cpu.store(layout::BUSY, Relaxed);
        count(&timed, FN_2);
        count(&timed, 4 << 4);
        rig.slot().cpu.store(cpu, Relaxed);
        edge(FN_1 | EXIT);
    });
    let rows = totals::rows(rig.totals());
    let counted: Vec<_> = rows.map(totals::calls).collect();
    // 0: functions without a row of their own.
    let expected = [(0, 0, 5), (2, 0, 10), (3, 0, 5)];
    assert_eq!(counted, expected, "{kind:?}");
    let (_, counts) = rig.read();
    assert_eq!((counts.recorded, counts.dropped), (2, 0), "{kind:?}");
    // A thread without totals has neither entries nor exits.
    with_slot(kind, &plain, || count(&timed, FN_1));
    assert_eq!(plain.slot().dropped.load(Relaxed), 10, "{kind:?}");
}

/// The entries are made by the assembly, and the exits by Rust, because the function has no place in the index. So
/// Rust makes the last record of a chunk.
fn chunks_are_filled_by_both(kind: Kind) {
    let rig = Rig::new(3, false);
    let word = (TOTALS_IDS as u32 + 5) << 4;
    let calls = 4 * PER_CHUNK + 3;
    with_slot(kind, &rig, || {
        rig.set_threshold(0);
        for _ in 0..calls {
            edge(word);
            edge(word | EXIT);
        }
    });
    let (chunks, counts) = rig.read();
    assert_eq!(counts.recorded, 2 * calls, "{kind:?}");
    assert_eq!(counts.readable + counts.overwritten, 2 * calls, "{kind:?}");
    assert_eq!(chunks.len(), 3);
}

fn registers_are_kept_where_calls_are_short(kind: Kind) {
    let rig = Rig::new(2, false);
    with_slot(kind, &rig, || {
        edge(FN_1);
        rig.set_threshold(u64::MAX);
        for nth in 0..600 {
            // More calls than there are frames, then their exits, and exits without an entry.
            let exit = if nth < 300 { 0 } else { EXIT };
            let sent = u64::from(FN_1 | exit | BIT.load(Relaxed));
            let (mut di, mut si, mut r8, mut word) = (11_u64, 12_u64, 13_u64, sent);
            // SAFETY: as in `stub::call`.
            unsafe {
                asm!(
                    "call {stub}",
                    stub = in(reg) entrance(),
                    inout("rdi") di, inout("rsi") si, inout("r8") r8, inout("r11") word,
                    out("rax") _, out("rcx") _, out("rdx") _, out("r9") _, out("r10") _,
                );
            }
            assert_eq!((di, si, r8, word), (11, 12, 13, sent), "{kind:?}");
        }
    });
    assert_eq!(rig.read().1.recorded, 601, "{kind:?}");
}
