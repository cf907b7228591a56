//! Slices: moments in which functions that are only counted are timed, and functions that are only looked at are
//! counted or timed. The moments are drawn by lot, so that no rhythm of the program can coincide with them. Only the
//! dumper calls this file.

use fdr_formats::model::Level;

use super::call_cost::{CallCost, TimingSlice};
use super::decide::{COUNTED_NS, Function};
use super::estimates::CountingSlice;
use super::rows::{self, Sums};
use super::{CpuTimes, ThreadsClock};
use crate::clock;
use crate::ring::Ring;
use crate::ring::layout::OpenCalls;
use crate::ring::open_calls;
use crate::shell::sites::TableHandle;
use crate::sys::raw;

/// How long calls are counted in a slice, ns. Beginning and ending a slice slows the program down by about 40 us.
const COUNT_NS: u64 = 3_000_000;
/// The time from turning functions on to the first reading of their calls. Meanwhile the program loads its functions' changed
/// words and their rows into its caches, and makes fewer calls than usual.
const WARM_UP_NS: u32 = 50_000;
/// A slice of counting may slow the program down by 1/PART_OF_COUNTING, so that what counting changes is less than other
/// errors. A slice of a single function may slow it down more.
const PART_OF_COUNTING: u64 = 40;
/// The time by which counting a call slows the program down, in ns, and the error of this number. In some programs the
/// CPU does this work beside the program's own instructions. In others it can't.
const SLOWS_NS: [f64; 2] = [2.5, 2.0];
/// The mean pauses between two slices of counting, at most, ns.
const MAX_GAP_NS: u64 = 20_000_000;
/// The mean time from one slice of timing to the next, and how long such a slice takes at least and at most, ns.
const BETWEEN_TIMES_NS: u64 = 40_000_000;
const TIME_NS: [u64; 2] = [100_000, 1_000_000];
/// Slices of counting may take this many eighths of the budget, and slices of timing one eighth.
const EIGHTHS_OF_COUNTING: u64 = 3;
/// The dumper's work for slices may take one part in this many of the time. It may take one eighth of the budget, too, but
/// for that the mean pause is never longer than a quarter of [`MAX_GAP_NS`].
const PART_OF_WORK: u64 = 50;
/// The CPU time that the kernel takes to put the dumper to sleep and to wake it, for a slice, ns.
const WAKE_NS: u64 = 30_000;
/// A call that takes longer is worth its records, ns.
const LONG_NS: u64 = 100_000;

const MILLION: u64 = 1_000_000;

/// Numbers by lot. Source: Marsaglia, "Xorshift RNGs" (2003).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A pause of that mean length. Such pauses have no memory, so what follows them sees each moment of the program with the
    /// same probability. Source: Wolff, "Poisson Arrivals See Time Averages" (1982).
    pub(super) fn pause(&mut self, mean: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = ((self.0 >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (mean as f64 * minus_ln(share)) as u64
    }
}

/// The negative logarithm of a number from 0 to 1, to 0.01. The C library's would make each traced program load `libm`.
fn minus_ln(share: f64) -> f64 {
    let bits = share.to_bits();
    let exponent = (bits >> 52) as f64 - 1023.0;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    // A parabola through the logarithms of 1, the root of 2, and 2.
    let log2 = exponent + (mantissa - 1.0) * (1.344_82 - 0.344_82 * (mantissa - 1.0));
    (-log2 * core::f64::consts::LN_2).max(0.0)
}

/// A slice that is under way.
struct Slice {
    /// The level of the functions during the slice.
    level: Level,
    ids: Vec<u32>,
    /// Their calls when it began.
    before: Vec<Sums>,
    /// For each thread, the word of counts of its open calls at the beginning of the slice.
    threads: Vec<(&'static OpenCalls, u64)>,
    /// The owners of the slots, and the CPU time of the program's threads when it began, behind the warm-up.
    owners: Vec<u64>,
    began: CpuTimes,
}

/// When slices are, which functions they have, and their results.
pub(super) struct Slices {
    now: Option<Slice>,
    /// When the slice ends, or the next one begins.
    due_ns: u64,
    next_time_ns: u64,
    /// The dumper's CPU time for beginning the slice, ns.
    work_ns: u64,
    /// Where the next slice of counting begins, by id.
    next: u32,
    /// The budget, in millionths of the CPU time.
    share: u64,
    cost: CallCost,
    ticks_per_ns: f64,
    long_ticks: u64,
    /// How often calls without a time were outside of all timed calls.
    outside: u64,
    random: Random,
}

impl Slices {
    /// `timed_ns`: the cost of a timed call.
    pub(super) fn new(share: u64, timed_ns: u64, ticks_per_second: u64, now_ns: u64) -> Slices {
        let long = u128::from(ticks_per_second) * u128::from(LONG_NS) / 1_000_000_000;
        let ticks_per_ns = ticks_per_second as f64 / 1e9;
        Slices {
            now: None,
            due_ns: u64::MAX,
            next_time_ns: now_ns,
            work_ns: 0,
            next: 0,
            share,
            cost: CallCost::new(timed_ns as f64 * ticks_per_ns),
            ticks_per_ns,
            long_ticks: long as u64,
            outside: 0,
            random: Random::new(now_ns),
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.now.is_some()
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    pub(super) fn long_ticks(&self) -> u64 {
        self.long_ticks
    }

    pub(super) fn outside(&self) -> u64 {
        self.outside
    }

    /// Ends the slice, or begins the next one.
    pub(super) fn turn(
        &mut self,
        ring: &Ring,
        table: TableHandle,
        functions: &mut [Function],
        threads_clock: &mut ThreadsClock,
    ) {
        let cpu_ns = clock::thread_cpu_ns();
        let slowed = match self.now.take() {
            Some(slice) => self.end(ring, table, functions, threads_clock, &slice),
            None => {
                self.begin(ring, table, functions, threads_clock);
                self.work_ns = clock::thread_cpu_ns() - cpu_ns;
                return;
            }
        };
        let work_ns = self.work_ns + (clock::thread_cpu_ns() - cpu_ns);
        let gap_ns = self.gap_ns(slowed).max(self.pause_after(work_ns));
        self.due_ns = clock::monotonic_raw_ns() + self.random.pause(gap_ns);
    }

    /// The program idles, so slices would only wake the dumper.
    pub(super) fn rest(&mut self) {
        if self.now.is_none() {
            self.due_ns = u64::MAX;
        }
    }

    /// The program works, so slices are due again, if any function is on a lower level.
    pub(super) fn wake(&mut self, now_ns: u64) {
        if self.now.is_none() && self.due_ns == u64::MAX {
            self.due_ns = now_ns + self.random.pause(COUNT_NS);
        }
    }

    /// The mean pause after a slice that slowed the program down by `slowed` millionths. `None`: no function is only
    /// looked at, so the next slice is one of timing.
    fn gap_ns(&self, slowed: Option<u64>) -> u64 {
        match slowed {
            None => MAX_GAP_NS,
            Some(slowed) => {
                let allowed = self.share * EIGHTHS_OF_COUNTING / 8;
                let gap = COUNT_NS.saturating_mul(slowed) / allowed.max(1);
                gap.clamp(COUNT_NS, MAX_GAP_NS)
            }
        }
    }

    /// The least mean pause after the dumper's work for a slice, ns.
    fn pause_after(&self, work_ns: u64) -> u64 {
        let pause_ns = (work_ns + WAKE_NS).saturating_mul(8 * MILLION) / self.share.max(1);
        pause_ns.min(MAX_GAP_NS / 4).max(work_ns * PART_OF_WORK)
    }

    #[inline(never)]
    fn begin(
        &mut self,
        ring: &Ring,
        table: TableHandle,
        functions: &mut [Function],
        threads_clock: &mut ThreadsClock,
    ) {
        let now_ns = clock::monotonic_raw_ns();
        let is_of_times = now_ns >= self.next_time_ns;
        let (level, ids) = match is_of_times {
            true => (Level::Timed, below(functions, Level::Timed)),
            false => (Level::Counted, self.next_to_count(functions)),
        };
        if ids.is_empty() {
            // Slices of timing are all that is needed, or none.
            self.due_ns = match below(functions, Level::Timed).is_empty() {
                true => u64::MAX,
                false => self.next_time_ns.max(now_ns + COUNT_NS),
            };
            return;
        }
        let takes_ns = match level {
            Level::Timed => {
                self.next_time_ns = now_ns + self.random.pause(BETWEEN_TIMES_NS);
                let [least, most] = TIME_NS;
                (BETWEEN_TIMES_NS * self.share / 8 / MILLION).clamp(least, most)
            }
            Level::Counted | Level::LookedAt => COUNT_NS,
        };
        let threads = match is_of_times {
            true => threads(ring),
            false => Vec::new(),
        };
        for (calls, _) in &threads {
            open_calls::set_beside(calls, Some(self.cost.subtracted() as u64));
        }
        let owners = rows::owners(ring);
        table.lock().set_slice(&ids, Some(level));
        let on = threads_clock.read(ring);
        for id in &ids {
            if let Some(estimate) = estimate_of(functions, *id) {
                estimate.turn_on(on);
            }
        }
        raw::sleep_ns(WARM_UP_NS);
        let before = rows::sums(ring, &ids, self.long_if(level), None);
        let began = threads_clock.read(ring);
        self.due_ns = clock::monotonic_raw_ns() + takes_ns;
        self.now = Some(Slice {
            level,
            ids,
            before,
            threads,
            owners,
            began,
        });
    }

    /// How long a long call is, if the times of a slice's calls are needed.
    fn long_if(&self, level: Level) -> Option<u64> {
        (level == Level::Timed).then_some(self.long_ticks)
    }

    /// The functions of the next slice of counting, in turn.
    fn next_to_count(&mut self, functions: &[Function]) -> Vec<u32> {
        let all = below(functions, Level::Counted);
        let from = all.partition_point(|id| *id < self.next);
        let from = if from < all.len() { from } else { 0 };
        let allowed = 1.0 / PART_OF_COUNTING as f64;
        let (mut chosen, mut sum) = (Vec::new(), 0.0);
        for &id in all.iter().skip(from) {
            let function = functions.get(id as usize - 1);
            let estimate = function.and_then(|function| function.estimate.as_ref());
            sum += estimate.map_or(0.0, |estimate| estimate.rate()) * COUNTED_NS as f64;
            if sum > allowed && !chosen.is_empty() {
                break;
            }
            chosen.push(id);
        }
        self.next = chosen.last().map_or(0, |id| id + 1);
        chosen
    }

    /// Returns by how many millionths the slice slowed the program down, if it was one of counting.
    #[inline(never)]
    fn end(
        &mut self,
        ring: &Ring,
        table: TableHandle,
        functions: &mut [Function],
        threads_clock: &mut ThreadsClock,
        slice: &Slice,
    ) -> Option<u64> {
        self.find_callers(functions, slice);
        let ended = threads_clock.read(ring);
        table.lock().set_slice(&slice.ids, None);
        for (calls, _) in &slice.threads {
            open_calls::set_beside(calls, None);
        }
        let now = rows::sums(ring, &slice.ids, self.long_if(slice.level), None);
        let newcomers = rows::sums(ring, &slice.ids, None, Some(&slice.owners));
        let used = ended.since(slice.began);
        let used_ns = used.with_slot.max(1) as f64;
        let mut counted = 0;
        for (now, before) in now.iter().zip(&slice.before) {
            counted += now.since(*before).counted;
        }
        let [slowed_ns, unsure_ns] = SLOWS_NS.map(|ns| counted as f64 * ns);
        // Without the slice the program would have needed less time for the same calls.
        let cpu_ns = (used_ns - slowed_ns).max(used_ns / 4.0);
        if slice.level == Level::Timed {
            self.learn_cost(functions, slice, &now, used_ns);
        }
        let shown = slice.before.iter().zip(&now).zip(newcomers);
        for (&id, ((before, now), newcomers)) in slice.ids.iter().zip(shown) {
            let Some(estimate) = estimate_of(functions, id) else {
                continue;
            };
            let shown = now.since(*before);
            match slice.level {
                Level::Timed => estimate.note_times(shown, now.counted, &self.cost),
                Level::Counted | Level::LookedAt => {
                    estimate.note_calls(CountingSlice {
                        calls: shown.counted,
                        cpu_ns,
                        unsure_ns,
                        by_newcomers: newcomers.counted,
                        without_slot_ns: used.without_slot as f64,
                    });
                }
            }
            estimate.turn_off(ended);
        }
        let slowed = (counted * COUNTED_NS) as f64 / cpu_ns * MILLION as f64;
        (slice.level == Level::Counted).then_some(slowed as u64)
    }

    /// What a slice of timing tells of the cost of a timed call.
    #[inline(never)]
    fn learn_cost(
        &mut self,
        functions: &mut [Function],
        slice: &Slice,
        now: &[Sums],
        used_ns: f64,
    ) {
        let (mut calls, mut calls_per_ns) = (0, 0.0);
        for (&id, (now, before)) in slice.ids.iter().zip(now.iter().zip(&slice.before)) {
            calls += now.calls.saturating_sub(before.calls);
            calls_per_ns += estimate_of(functions, id).map_or(0.0, |estimate| estimate.rate());
        }
        if calls_per_ns > 0.0 {
            self.cost.learn(&TimingSlice {
                calls,
                ticks: used_ns * self.ticks_per_ns,
                ticks_per_call: self.ticks_per_ns / calls_per_ns,
            });
        }
    }

    /// Finds the callers of functions on a lower level, on each thread that keeps running. The self times of these
    /// callers include the times of such calls between the slices.
    fn find_callers(&mut self, functions: &mut [Function], slice: &Slice) {
        for &(calls, before) in &slice.threads {
            if open_calls::progress(calls) == before {
                continue;
            }
            let is_timed = |id: u32| {
                let function = functions.get((id as usize).wrapping_sub(1));
                function.is_none_or(|function| function.level == Some(Level::Timed))
            };
            let mut ids = open_calls::functions(calls).rev();
            if ids.next().is_none_or(&is_timed) {
                continue;
            }
            let caller = ids.find(|id| is_timed(*id));
            let index = caller.map(|id| (id as usize).wrapping_sub(1));
            match index.and_then(|index| functions.get_mut(index)) {
                Some(function) => function.around += 1,
                None => self.outside += 1,
            }
        }
    }
}

/// The functions that are on a lower level than that.
#[inline(never)]
pub(super) fn below(functions: &[Function], level: Level) -> Vec<u32> {
    let mut ids = Vec::new();
    for (id, function) in (1..).zip(functions) {
        if function.level.is_some_and(|its| its as u8 > level as u8) {
            ids.push(id);
        }
    }
    ids
}

fn estimate_of(functions: &mut [Function], id: u32) -> Option<&mut super::FunctionEstimate> {
    let function = functions.get_mut((id as usize).wrapping_sub(1))?;
    function.estimate.as_deref_mut()
}

/// The open calls of all threads, and how they are counted now.
fn threads(ring: &Ring) -> Vec<(&'static OpenCalls, u64)> {
    let mut all = Vec::new();
    for calls in ring.owned_slots().filter_map(open_calls::of_slot) {
        all.push((calls, open_calls::progress(calls)));
    }
    all
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn pauses_have_their_mean_and_no_memory() {
        for share in [1e-9, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 1.0_f64] {
            let differs = (minus_ln(share) + share.ln()).abs();
            assert!(differs < 0.01, "{share}: {differs}");
        }
        let mut random = Random::new(7);
        let pauses: Vec<u64> = (0..100_000).map(|_| random.pause(1_000)).collect();
        let mean = pauses.iter().sum::<u64>() / 100_000;
        assert!(mean.abs_diff(1_000) < 20, "{mean}");
        // One in e lasts longer than the mean, and as many of those last longer by as much.
        let longer = |than: u64| pauses.iter().filter(|&&pause| pause > than).count();
        for (than, wanted) in [(1_000, 36_788_usize), (2_000, 13_534)] {
            assert!(
                longer(than).abs_diff(wanted) < 1_000,
                "{than}: {}",
                longer(than)
            );
        }
    }
}
