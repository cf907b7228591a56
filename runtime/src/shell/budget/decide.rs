//! Decides which functions change their level. Pure.

use std::collections::BinaryHeap;

use fdr_formats::Ticks;
use fdr_formats::model::{Estimate, Level};

use super::CpuTimes;
use super::estimates::FunctionEstimate;
use super::rows::LongCalls;
use crate::ring::totals;
use crate::shell::sites::FunctionLevel;

/// The cost of a call that is only counted, ns.
pub(super) const COUNTED_NS: u64 = 2;

/// The least time for which a function stays on a lower level, ns: at first, and at most. It doubles each time.
const FIRST_PAUSE_NS: u64 = 1_000_000_000;
const MAX_PAUSE_NS: u64 = 64_000_000_000;

const MILLION: u64 = 1_000_000;

/// The cost of calls, and the share of the CPU time that they may cost.
pub(super) struct Costs {
    /// Millionths of the program's own CPU time.
    pub(super) share: u64,
    /// Whether the budget also concerns functions that a person marked one by one.
    pub(super) takes_all: bool,
    /// The cost of a timed call, ns.
    pub(super) timed_ns: u64,
}

/// The state of a function.
#[derive(Default)]
pub(super) struct Function {
    /// Calls so far: timed, and only counted.
    pub(super) calls: u64,
    pub(super) counted: u64,
    /// These counts at the last check.
    calls_before: u64,
    counted_before: u64,
    /// Calls since the last check that were neither timed nor counted, estimated from slices.
    pub(super) missed_now: u64,
    /// `None` if the function is off.
    pub(super) level: Option<Level>,
    /// Whether `cargo fdr` or a scope chose the function.
    auto: bool,
    /// There is no place in the ring for what would be estimated, or the function has tasks: a task that ended while its
    /// function is off would seem to hang.
    pub(super) cannot_be_looked_at: bool,
    /// The function stays on its level until this time, ns.
    until_ns: u64,
    pause_ns: u64,
    /// Since the function was first on a lower level.
    pub(super) estimate: Option<Box<FunctionEstimate>>,
    /// How often it was found as the innermost timed caller of calls without a time.
    pub(super) around: u64,
}

impl Function {
    /// The calls are about to be read anew.
    pub(super) fn begin_check(&mut self, now: FunctionLevel) {
        (self.level, self.auto) = (now.level, now.is_auto);
        self.cannot_be_looked_at |= now.has_tasks;
        (self.calls_before, self.counted_before) = (self.calls, self.counted);
        (self.calls, self.counted) = (0, 0);
    }

    /// Updates the estimate of the calls since the last check. A filter or a trigger may have changed the level
    /// meanwhile.
    pub(super) fn note_missed(&mut self, tick: Ticks, now: CpuTimes) {
        let level = self.level.unwrap_or_default();
        let Some(estimate) = &mut self.estimate else {
            return;
        };
        if estimate.level() != level {
            estimate.change(level, tick, now);
        }
        self.missed_now = estimate.missed_since_check(now) as u64;
    }

    /// Updates the rate of calls that are counted between slices and timed in slices.
    pub(super) fn note_rate(&mut self, used: CpuTimes) {
        let calls = self.timed_now() + self.counted_now();
        let estimate = self.estimate.as_mut();
        if let Some(estimate) = estimate.filter(|known| known.level() == Level::Counted) {
            estimate.set_rate(calls as f64 / used.of_calls());
        }
    }

    fn timed_now(&self) -> u64 {
        self.calls.saturating_sub(self.calls_before)
    }

    pub(super) fn counted_now(&self) -> u64 {
        self.counted.saturating_sub(self.counted_before)
    }

    /// The estimate that the ring should hold of the function. `None`: there is none.
    pub(super) fn estimated(&self, now: CpuTimes) -> Option<Estimate> {
        let mut known = match &self.estimate {
            Some(estimate) => estimate.stored(now),
            None if self.around > 0 => Estimate::default(),
            None => return None,
        };
        known.around = self.around;
        Some(known)
    }

    pub(super) fn set_level(&mut self, level: Level, now_ns: u64) {
        let falls = self.level.unwrap_or_default() as u8 <= level as u8;
        self.level = Some(level);
        if falls {
            self.pause_ns = (2 * self.pause_ns).clamp(FIRST_PAUSE_NS, MAX_PAUSE_NS);
            self.until_ns = now_ns + self.pause_ns;
        }
    }
}

/// The time that recording took since the last check, ns.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// By calls of functions whose calls are all timed.
    timed: u64,
    /// By calls of functions whose calls are only counted.
    counted: u64,
    /// By slices.
    slices: u64,
    /// By the dumper.
    dumper: u64,
    /// The CPU time of the program without recording. The budget is a share of this time, because a share of all CPU
    /// time would include what recording takes.
    own: u64,
}

impl Spent {
    /// Whether recording took more than the budget.
    pub(super) fn is_over(&self, costs: &Costs) -> bool {
        self.sum() > costs.limit_ns(self.own)
    }

    fn sum(&self) -> u64 {
        self.timed + self.counted + self.slices + self.dumper
    }

    /// Adds the time since the last check. Each check first lets a fortieth of the older sums fade.
    pub(super) fn add(&mut self, more: &Spent) {
        for (sum, more) in [
            (&mut self.timed, more.timed),
            (&mut self.counted, more.counted),
            (&mut self.slices, more.slices),
            (&mut self.dumper, more.dumper),
            (&mut self.own, more.own),
        ] {
            *sum = *sum - *sum / 40 + more;
        }
    }

    /// The program's own CPU time, ns.
    pub(super) fn own(&self) -> u64 {
        self.own
    }

    /// Millionths of the program's own time.
    pub(super) fn share(&self) -> u64 {
        (u128::from(self.sum()) * u128::from(MILLION) / u128::from(self.own.max(1))) as u64
    }
}

impl Costs {
    /// `used_ns`: CPU time since the last check, of which the dumper took `dumper_ns`.
    pub(super) fn spent(&self, functions: &[Function], used_ns: u64, dumper_ns: u64) -> Spent {
        let mut spent = Spent {
            dumper: dumper_ns,
            ..Spent::default()
        };
        for function in functions {
            let timed_ns = function.timed_now() * self.timed_ns;
            let counted_ns = function.counted_now() * COUNTED_NS;
            match function.level.unwrap_or_default() {
                Level::Timed => spent.timed += timed_ns + counted_ns,
                Level::Counted => {
                    spent.counted += counted_ns;
                    spent.slices += timed_ns;
                }
                Level::LookedAt => spent.slices += timed_ns + counted_ns,
            }
        }
        // The estimated cost of calls may be too high, so the program's own time has a lower bound.
        spent.own = used_ns.saturating_sub(spent.sum()).max(used_ns / 16);
        spent
    }

    fn limit_ns(&self, own_ns: u64) -> u64 {
        (u128::from(own_ns) * u128::from(self.share) / u128::from(MILLION)) as u64
    }
}

/// The functions that change their level, and the new one. `None`: none does.
pub(super) fn decide(
    costs: &Costs,
    functions: &[Function],
    spent: &Spent,
    now_ns: u64,
    long_calls: &dyn Fn(u32) -> LongCalls,
) -> Option<(Vec<u32>, Level)> {
    let limit_ns = costs.limit_ns(spent.own);
    let change = match spent.is_over(costs) {
        true => down(costs, functions, spent, limit_ns, long_calls),
        false => up(costs, functions, spent, limit_ns, now_ns),
    };
    change.filter(|(ids, _)| !ids.is_empty())
}

/// As few functions as possible, those with the most calls first, until recording takes three quarters of the budget.
fn down(
    costs: &Costs,
    functions: &[Function],
    spent: &Spent,
    limit_ns: u64,
    long_calls: &dyn Fn(u32) -> LongCalls,
) -> Option<(Vec<u32>, Level)> {
    let goal_ns = limit_ns / 4 * 3;
    let may =
        |id, function: &Function| (function.auto || costs.takes_all) && totals::may_have_row(id);
    let mut sum_ns = spent.sum();
    // Some calls stay timed, however much the others take.
    let mut timed_ns = spent.timed;
    let mut chosen = Vec::new();
    let saves_ns = costs.timed_ns.saturating_sub(COUNTED_NS);
    let mut timed = most_calls(functions, &|id, function| {
        let calls = function.timed_now();
        let is_timed = function.level == Some(Level::Timed);
        (is_timed && calls > 0 && may(id, function)).then_some(calls)
    });
    while sum_ns > goal_ns && timed_ns > limit_ns / 4 {
        let Some((calls, id)) = timed.pop() else {
            break;
        };
        sum_ns = sum_ns.saturating_sub(calls * saves_ns);
        timed_ns = timed_ns.saturating_sub(calls * costs.timed_ns);
        chosen.push(id);
    }
    if !chosen.is_empty() {
        return Some((chosen, Level::Counted));
    }
    // Counting is not enough.
    let mut counted = most_calls(functions, &|id, function| {
        let calls = function.counted_now();
        let is_counted = function.level == Some(Level::Counted);
        (is_counted && calls > 0 && !function.cannot_be_looked_at && may(id, function))
            .then_some(calls)
    });
    let mut with_long_calls_inside = Vec::new();
    while sum_ns > goal_ns {
        let Some((calls, id)) = counted.pop() else {
            break;
        };
        match long_calls(id) {
            LongCalls::Rare => {
                sum_ns = sum_ns.saturating_sub(calls * COUNTED_NS);
                chosen.push(id);
            }
            LongCalls::CallsInside => with_long_calls_inside.push((calls, id)),
            LongCalls::Own => {}
        }
    }
    // Recursive functions are among them. They are only looked at if nothing else keeps the budget.
    for (calls, id) in with_long_calls_inside {
        if sum_ns > limit_ns {
            sum_ns = sum_ns.saturating_sub(calls * COUNTED_NS);
            chosen.push(id);
        }
    }
    Some((chosen, Level::LookedAt))
}

/// As many functions as half of the budget has room for, those with the fewest calls first.
fn up(
    costs: &Costs,
    functions: &[Function],
    spent: &Spent,
    limit_ns: u64,
    now_ns: u64,
) -> Option<(Vec<u32>, Level)> {
    let from = |level, calls: fn(&Function) -> u64| {
        most_calls(functions, &move |_, function| {
            let is_due = function.level == Some(level) && now_ns >= function.until_ns;
            is_due.then(|| !calls(function))
        })
    };
    let looked_at = from(Level::LookedAt, |function| function.missed_now);
    let (mut candidates, level, costs_ns) = match looked_at.is_empty() {
        false => (looked_at, Level::Counted, COUNTED_NS),
        true => (
            from(Level::Counted, Function::counted_now),
            Level::Timed,
            costs.timed_ns - COUNTED_NS.min(costs.timed_ns),
        ),
    };
    // Slices have bounds of their own, so their time does not count here.
    let mut sum_ns = spent.sum() - spent.slices;
    let mut chosen = Vec::new();
    while let Some((calls, id)) = candidates.pop() {
        sum_ns += !calls * costs_ns;
        if sum_ns > limit_ns / 2 {
            break;
        }
        chosen.push(id);
    }
    Some((chosen, level))
}

/// Functions by the number that `of` gives, the largest first.
#[inline(never)]
fn most_calls(
    functions: &[Function],
    of: &dyn Fn(u32, &Function) -> Option<u64>,
) -> BinaryHeap<(u64, u32)> {
    let mut heap = BinaryHeap::new();
    for (id, function) in (1..).zip(functions) {
        if let Some(number) = of(id, function) {
            heap.push((number, id));
        }
    }
    heap
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        share: MILLION / 10,
        takes_all: false,
        timed_ns: 50,
    };

    /// Functions that a scope chose, each with its timed and its counted calls since the last check.
    fn functions(calls: &[(u64, u64)]) -> Vec<Function> {
        let function = |&(calls, counted): &(u64, u64)| Function {
            calls: 1_000_000 + calls,
            calls_before: 1_000_000,
            counted: 2_000_000 + counted,
            counted_before: 2_000_000,
            level: Some(match counted {
                0 => Level::Timed,
                _ => Level::Counted,
            }),
            auto: true,
            ..Function::default()
        };
        calls.iter().map(function).collect()
    }

    fn decided(functions: &[Function], used_ns: u64, now_ns: u64) -> Option<(Vec<u32>, Level)> {
        let spent = COSTS.spent(functions, used_ns, 0);
        decide(&COSTS, functions, &spent, now_ns, &|id| match id {
            7 => LongCalls::Own,
            8 => LongCalls::CallsInside,
            _ => LongCalls::Rare,
        })
    }

    #[test]
    fn as_few_functions_as_possible_are_only_counted() {
        // 5 of 10.2 ms are the program's own, and three quarters of a tenth of that are 375 us. To count takes 200 us.
        let mut some = functions(&[(3_000, 0), (90_000, 0), (0, 0), (11_000, 0)]);
        let counted = |ids: &[u32]| Some((ids.to_vec(), Level::Counted));
        assert_eq!(decided(&some, 10_200_000, 1), counted(&[2, 4]));
        // A person marked it alone.
        some[1].auto = false;
        assert_eq!(decided(&some, 10_200_000, 1), counted(&[4, 1]));
        // Calls before the last check do not matter.
        let idle = functions(&[(0, 0), (5_000, 0)]);
        assert_eq!(decided(&idle, 9_500_000, 1), None);
    }

    #[test]
    fn functions_with_fewer_calls_are_timed_again() {
        let mut some = functions(&[(0, 1_000), (0, 2_000), (0, 40_000)]);
        some[0].until_ns = 10;
        assert_eq!(decided(&some, 9_500_000, 9), Some((vec![2], Level::Timed)));
    }

    #[test]
    fn functions_are_looked_at_beyond_counting() {
        // Counting takes 2 of 10 ms. The first functions are timed, so they come first.
        let mut some = functions(&[
            (90_000, 0),
            (0, 300_000),
            (0, 600_000),
            (0, 100_000),
            (0, 0),
        ]);
        assert_eq!(
            decided(&some, 10_000_000, 1),
            Some((vec![1], Level::Counted))
        );
        some[0] = functions(&[(0, 0)]).remove(0);
        let change = decided(&some, 10_000_000, 1);
        assert_eq!(change, Some((vec![3, 2], Level::LookedAt)));
        // The function itself may be slow, or there is no place for it.
        some.extend(functions(&[(0, 5), (0, 900_000)]));
        some[2].cannot_be_looked_at = true;
        let change = decided(&some, 10_000_000, 1);
        assert_eq!(change, Some((vec![2, 4, 6], Level::LookedAt)));
        // A function whose calls inside are slow is the last one.
        some.extend(functions(&[(0, 400_000)]));
        let change = decided(&some, 10_000_000, 1);
        assert_eq!(change, Some((vec![2, 4, 6, 8], Level::LookedAt)));
    }

    #[test]
    fn functions_with_tasks_are_never_looked_at() {
        let looked_at = Some((vec![1], Level::LookedAt));
        for (has_tasks, wanted) in [(false, looked_at), (true, None)] {
            let mut some = functions(&[(0, 600_000)]);
            let before = some[0].counted;
            some[0].begin_check(FunctionLevel {
                level: Some(Level::Counted),
                is_auto: true,
                has_tasks,
            });
            some[0].counted = before + 600_000;
            assert_eq!(decided(&some, 10_000_000, 1), wanted);
        }
    }

    #[test]
    fn calls_behind_a_filter_are_not_estimated() {
        let at = |with_slot| CpuTimes {
            with_slot,
            without_slot: 0,
        };
        let mut estimate = FunctionEstimate::new(0, at(0));
        estimate.change(Level::LookedAt, Ticks(0), at(0));
        estimate.set_rate(0.5);
        let mut function = Function {
            level: Some(Level::LookedAt),
            estimate: Some(Box::new(estimate)),
            ..Function::default()
        };
        function.note_missed(Ticks(1), at(100));
        assert_eq!(function.missed_now, 50);
        function.begin_check(FunctionLevel {
            is_auto: true,
            ..FunctionLevel::default()
        });
        function.note_missed(Ticks(2), at(120));
        function.note_missed(Ticks(3), at(1_000));
        assert_eq!(function.missed_now, 0);
        assert_eq!(
            function.estimated(at(1_000)).map(|known| known.missed),
            Some(60)
        );
    }

    #[test]
    fn functions_are_counted_again_before_others_are_timed() {
        let mut some = functions(&[(0, 9), (0, 0), (0, 0)]);
        for (function, missed) in some.iter_mut().skip(1).zip([100_000, 100]) {
            function.level = Some(Level::LookedAt);
            function.missed_now = missed;
        }
        let change = decided(&some, 2_000_000, 1);
        assert_eq!(change, Some((vec![3], Level::Counted)));
    }
}
