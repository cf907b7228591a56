//! Watched functions: those that a trigger of `FDR_TRIGGER` names with a duration. Each edge of their calls comes here
//! (`recorder::Bits::watched`), and no edge of any other function does. Only the functions that the dumper calls are not
//! async-signal-safe. A thread must never wait here. Its only system call here is the one that wakes the dumper.
//!
//! Each slot has a stack of its open watched calls, in memory beside the ring. So these calls are known even if the
//! ring has no open calls, as with `FDR_KEEP=0`. An exit takes its call off the stack, and compares the ticks with the
//! threshold. If the call took longer, the thread leaves a [request](request::Request) for the dumper, and continues.
//! One request for each trigger is enough: until the dumper has taken it, each further slow call costs only a load.
//!
//! A call may never return. So the dumper looks at the stacks, too ([`look_at_open`]).
//!
//! Of an `async fn`, tasks are compared with the threshold, and not their polls: at their ends, and, if they should have
//! ended long ago, at the ends of their polls ([`task`]).
//!
//! The protocol with signal handlers of the same thread: a call reserves its place before it writes there, so a handler
//! uses the places above. The handler leaves the depth as it found it.
//!
//! The protocol with the dumper, which reads a stack while its thread records: the word of a place is stored last, with
//! Release, and is 0 while the place is free. The dumper marks a call that it has reported by the tick of the call. So
//! a mark that comes too late does not hit the next call in that place.

mod request;

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use fdr_formats::trigger::{CallEnd, MAX_TRIGGERS};

use super::{EXIT, process_ring, tls, writer};
use crate::clock::Stamp;
use crate::ring::Ring;
use crate::ring::counts::last_ticks;
use crate::ring::layout::{Slot, state};
use crate::site::COUNTED;
use crate::site::task::{Requests, Task};
use crate::sys;

use request::REQUESTS;
pub(crate) use request::{SlowCall, forget, release, request};

/// The threshold of a function or trigger that never fires.
pub(crate) const NEVER: u64 = u64::MAX;

/// The number of open watched calls that a thread's stack holds. Deeper calls are not watched.
const PLACES: usize = 31;

/// A watched function.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Watched {
    /// The least threshold of its triggers, in ticks.
    threshold: AtomicU64,
    /// A bit for each of its triggers.
    triggers: AtomicU32,
    /// 1 if a trigger named it at any time. From then on its edges come here.
    was_named: AtomicU32,
    /// 1 if it is an `async fn` that was polled. Its tasks are measured, and not its polls.
    has_tasks: AtomicU32,
}

/// By the ids of functions. Null until there is a trigger. It is replaced by a longer list, and never freed.
static FUNCTIONS: AtomicPtr<&'static [Watched]> = AtomicPtr::new(core::ptr::null_mut());

/// How long after its threshold a call or a task that has not ended fires, in ticks.
static PATIENCE: AtomicU64 = AtomicU64::new(0);

/// The thresholds of the triggers, in ticks, each with its bits inverted: memory of zeros is no part of the program's file.
static THRESHOLDS: [AtomicU64; MAX_TRIGGERS] = [const { AtomicU64::new(!NEVER) }; MAX_TRIGGERS];

/// The stacks, by the numbers of slots, and how many there are. A child of a fork uses the same memory, which is empty
/// there.
static STACKS: AtomicPtr<Stack> = AtomicPtr::new(core::ptr::null_mut());
static STACK_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The open watched calls of a slot's owner.
#[repr(C)]
struct Stack {
    /// The slot's generation: another owner begins with an empty stack.
    generation: AtomicU64,
    /// How many places are in use, and how many calls are open that found none.
    depth: AtomicU32,
    deeper: AtomicU32,
    unused: [AtomicU64; 2],
    places: [OpenWatchedCall; PLACES],
}

#[repr(C)]
struct OpenWatchedCall {
    /// The record of the entry; 0 = no call.
    word: AtomicU32,
    unused: AtomicU32,
    ticks: AtomicU64,
    /// The tick of the call that the dumper has reported.
    reported_begin: AtomicU64,
    also_unused: AtomicU64,
}

const _: () = assert!(size_of::<Stack>() == 1024);

/// Sets the threshold of a trigger, in ticks.
pub(crate) fn set_threshold(number: usize, ticks: u64) {
    if let Some(threshold) = THRESHOLDS.get(number) {
        threshold.store(!ticks, Ordering::Relaxed);
    }
}

/// Sets how long after its threshold a call or a task that has not ended fires, in ticks.
pub(crate) fn set_patience(ticks: u64) {
    PATIENCE.store(ticks, Ordering::Relaxed);
}

/// Replaces the list of functions by a longer one. The elements are by the ids of functions.
pub(crate) fn set_functions(list: &'static &'static [Watched]) {
    for (to, from) in list.iter().zip(functions()) {
        to.threshold
            .store(from.threshold.load(Ordering::Relaxed), Ordering::Relaxed);
        to.triggers
            .store(from.triggers.load(Ordering::Relaxed), Ordering::Relaxed);
        to.was_named
            .store(from.was_named.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let list = core::ptr::from_ref(list).cast_mut();
    // Release: pairs with the Acquire in `functions`.
    FUNCTIONS.store(list, Ordering::Release);
}

fn functions() -> &'static [Watched] {
    let list = FUNCTIONS.load(Ordering::Acquire);
    // SAFETY: it is null, or `set_functions` stored it, a list that is never freed.
    unsafe { list.as_ref() }.copied().unwrap_or(&[])
}

/// How many functions the list has room for. Id 0 is included, although no function has it.
pub(crate) fn room() -> usize {
    functions().len()
}

/// Sets the triggers of a function, which has room in the list, as bits by their numbers. Returns whether its edges
/// come here from now on.
pub(crate) fn set_triggers(function: u32, triggers: u32) -> bool {
    let Some(watched) = functions().get(function as usize) else {
        return false;
    };
    let mut least = NEVER;
    for (number, threshold) in THRESHOLDS.iter().enumerate() {
        if triggers >> number & 1 == 1 {
            least = least.min(!threshold.load(Ordering::Relaxed));
        }
    }
    watched.threshold.store(least, Ordering::Relaxed);
    watched.triggers.store(triggers, Ordering::Relaxed);
    if triggers != 0 {
        watched.was_named.store(1, Ordering::Relaxed);
    }
    watched.was_named.load(Ordering::Relaxed) != 0
}

/// Makes the stacks for the slots of a ring, and of the rings of later children. False if there is no memory.
pub(crate) fn make_stacks(ring: &Ring) -> bool {
    if !STACKS.load(Ordering::Acquire).is_null() {
        return true;
    }
    let count = ring.capacity();
    let Some(memory) = sys::memory::lasting(count * size_of::<Stack>()) else {
        return false;
    };
    sys::memory::empty_in_children(memory);
    STACK_COUNT.store(count, Ordering::Relaxed);
    // Release: pairs with the Acquire in `stack_of`.
    STACKS.store(memory.as_mut_ptr().cast(), Ordering::Release);
    true
}

/// The stack of a slot. `None` if the slot belongs to no ring.
fn stack_of(ring: &Ring, slot: &Slot) -> Option<&'static Stack> {
    let first = STACKS.load(Ordering::Acquire);
    let count = STACK_COUNT.load(Ordering::Relaxed);
    let index = ring.index_of(slot).filter(|&index| index < count)?;
    // SAFETY: the memory has `count` stacks if it is not null. It stays for the life of the process, and is aligned to
    // pages. Stacks consist of atomics, and zeros are valid.
    (!first.is_null()).then(|| unsafe { &*first.add(index) })
}

/// Whether the word, which has [`COUNTED`], is of a watched function.
pub(super) fn is_watched(word: u32) -> bool {
    let watched = functions().get((word >> 4) as usize);
    watched.is_some_and(|watched| watched.was_named.load(Ordering::Relaxed) != 0)
}

/// Makes the record of an edge of a watched function, and follows the call.
#[cold]
#[inline(never)]
pub(super) fn edge(slot: &'static Slot, word: u32, stamp: Stamp) {
    let word = word & !COUNTED;
    writer::write(slot, word, stamp);
    // The first record of the thread has claimed another slot, and has a later time.
    let (before, slot) = (slot, tls::get());
    let ticks = match core::ptr::eq(before, slot) {
        true => stamp.ticks,
        false => last_ticks(slot),
    };
    let Some(stack) = process_ring::ring().and_then(|ring| stack_of(ring, slot)) else {
        return;
    };
    if word & EXIT == 0 {
        stack.enter(slot, word, ticks);
        return;
    }
    let begin = stack.leave(slot, word & !EXIT);
    let watched = functions().get((word >> 4) as usize);
    let watched = watched.filter(|of| of.has_tasks.load(Ordering::Relaxed) == 0);
    if let (Some(begin), Some(watched)) = (begin, watched) {
        let ticks = ticks.saturating_sub(begin);
        if ticks > watched.threshold.load(Ordering::Relaxed) {
            let call = slow_call(slot, word >> 4, begin, ticks);
            leave_requests(watched, &call);
        }
    }
}

/// Compares the time of a task with the thresholds of its function, at its end and at the ends of its polls. Returns the
/// requests of the triggers that took it. Async-signal-safe.
#[inline(never)]
pub(super) fn task(slot: &Slot, function: u32, task: &Task, ticks: u64, end: CallEnd) -> Requests {
    let watched = functions().get(function as usize);
    let Some(watched) = watched.filter(|of| of.was_named.load(Ordering::Relaxed) != 0) else {
        return Requests::default();
    };
    watched.has_tasks.store(1, Ordering::Relaxed);
    let threshold = watched.threshold.load(Ordering::Relaxed);
    let patience = match end {
        CallEnd::Open => PATIENCE.load(Ordering::Relaxed),
        CallEnd::Returned | CallEnd::Dropped => 0,
    };
    if task.is_reported || ticks <= threshold.saturating_add(patience) {
        return Requests::default();
    }
    let call = SlowCall {
        task: task.id,
        end,
        ..slow_call(slot, function, task.first, ticks)
    };
    write_requests(watched, &call)
}

/// A call that has returned.
#[inline(never)]
fn slow_call(slot: &Slot, function: u32, begin: u64, ticks: u64) -> SlowCall {
    let [first, second] = &slot.name;
    SlowCall {
        function,
        task: 0,
        thread: slot.tid.load(Ordering::Relaxed),
        name: [first, second].map(|word| word.load(Ordering::Relaxed)),
        begin,
        ticks,
        end: CallEnd::Returned,
    }
}

/// Writes a request for each trigger whose threshold the call exceeds. A trigger for which an earlier one waits takes none.
#[cold]
fn write_requests(watched: &Watched, call: &SlowCall) -> Requests {
    let triggers = watched.triggers.load(Ordering::Relaxed);
    let mut written = 0;
    for (number, (threshold, request)) in THRESHOLDS.iter().zip(&REQUESTS).enumerate() {
        let is_named = triggers >> number & 1 == 1;
        if is_named && call.ticks > !threshold.load(Ordering::Relaxed) && request.write(call) {
            written |= 1 << number;
        }
    }
    Requests(written)
}

/// Hands the requests to the dumper and wakes it. Async-signal-safe.
pub(super) fn hand_over(requests: Requests) {
    let mut left = requests.0;
    while left != 0 {
        if let Some(request) = REQUESTS.get(left.trailing_zeros() as usize) {
            request.hand_over();
        }
        left &= left - 1;
    }
}

/// Writes the requests and hands them over. Returns whether a trigger took one.
#[cold]
fn leave_requests(watched: &Watched, call: &SlowCall) -> bool {
    let requests = write_requests(watched, call);
    hand_over(requests);
    requests != Requests::default()
}

impl Stack {
    /// Forgets the calls of the slot's former owner.
    fn belong_to(&self, slot: &Slot) {
        let generation = slot.generation.load(Ordering::Relaxed);
        if self.generation.load(Ordering::Relaxed) != generation {
            self.depth.store(0, Ordering::Relaxed);
            self.deeper.store(0, Ordering::Relaxed);
            for place in &self.places {
                place.word.store(0, Ordering::Relaxed);
            }
            // Release: pairs with the Acquire in `look_at_open`.
            self.generation.store(generation, Ordering::Release);
        }
    }

    fn enter(&self, slot: &Slot, word: u32, ticks: u64) {
        self.belong_to(slot);
        let depth = self.depth.load(Ordering::Relaxed);
        let Some(place) = self.places.get(depth as usize) else {
            let deeper = self.deeper.load(Ordering::Relaxed);
            self.deeper.store(deeper + 1, Ordering::Relaxed);
            return;
        };
        self.depth.store(depth + 1, Ordering::Relaxed);
        place.ticks.store(ticks, Ordering::Relaxed);
        // Release: pairs with the Acquire in `look_at_open`.
        place.word.store(word, Ordering::Release);
    }

    /// Takes the innermost call of that function off the stack. Calls above it were left by a `longjmp`. Returns when
    /// the call began. `None` if the call is not on the stack, or the dumper has already reported it.
    fn leave(&self, slot: &Slot, word: u32) -> Option<u64> {
        self.belong_to(slot);
        let deeper = self.deeper.load(Ordering::Relaxed);
        if deeper > 0 {
            self.deeper.store(deeper - 1, Ordering::Relaxed);
            return None;
        }
        let depth = self.depth.load(Ordering::Relaxed) as usize;
        let open = self.places.get(..depth.min(PLACES))?;
        let is = |place: &OpenWatchedCall| place.word.load(Ordering::Relaxed) == word;
        let at = open.iter().rposition(is)?;
        let place = open.get(at)?;
        let begin = place.ticks.load(Ordering::Relaxed);
        let is_reported = place.reported_begin.load(Ordering::Relaxed) == begin;
        for left in open.get(at..)? {
            left.word.store(0, Ordering::Relaxed);
        }
        self.depth.store(at as u32, Ordering::Relaxed);
        (!is_reported).then_some(begin)
    }
}

/// Tells of watched calls that have not returned so long after their threshold. Returns how many ticks later the next
/// one of the open calls will be due. Only the dumper calls this.
pub(crate) fn look_at_open(ring: &Ring, now: u64) -> Option<u64> {
    let mut next: Option<u64> = None;
    let patience = PATIENCE.load(Ordering::Relaxed);
    let is_live = |slot: &&Slot| slot.state.load(Ordering::Acquire) == state::LIVE;
    for slot in ring.owned_slots().filter(is_live) {
        let stack = stack_of(ring, slot)?;
        let generation = stack.generation.load(Ordering::Acquire);
        if generation != slot.generation.load(Ordering::Relaxed) {
            continue;
        }
        for place in &stack.places {
            let word = place.word.load(Ordering::Acquire);
            let begin = place.ticks.load(Ordering::Relaxed);
            // Acquire: the word is read again behind the tick.
            fence(Ordering::Acquire);
            let is_same = place.word.load(Ordering::Relaxed) == word;
            let watched = functions().get((word >> 4) as usize);
            let Some(watched) = watched.filter(|_| word != 0 && is_same) else {
                continue;
            };
            let threshold = watched.threshold.load(Ordering::Relaxed);
            let is_reported = place.reported_begin.load(Ordering::Relaxed) == begin;
            if threshold == NEVER || is_reported {
                continue;
            }
            let due = begin.saturating_add(threshold).saturating_add(patience);
            if now <= due {
                next = Some(next.unwrap_or(NEVER).min(due - now + 1));
                continue;
            }
            let call = SlowCall {
                end: CallEnd::Open,
                ..slow_call(slot, word >> 4, begin, now.saturating_sub(begin))
            };
            if leave_requests(watched, &call) {
                place.reported_begin.store(begin, Ordering::Relaxed);
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack() -> Box<Stack> {
        // SAFETY: it consists of atomics, and zeros are valid.
        Box::new(unsafe { core::mem::zeroed() })
    }

    fn slot(generation: u64) -> Slot {
        // SAFETY: as above.
        let slot: Slot = unsafe { core::mem::zeroed() };
        slot.generation.store(generation, Ordering::Relaxed);
        slot
    }

    #[test]
    fn an_exit_finds_its_entry() {
        let (stack, slot) = (stack(), slot(1));
        stack.enter(&slot, 0x10, 5);
        stack.enter(&slot, 0x20, 7);
        stack.enter(&slot, 0x10, 9);
        assert_eq!(stack.leave(&slot, 0x10), Some(9));
        assert_eq!(stack.leave(&slot, 0x20), Some(7));
        assert_eq!(stack.leave(&slot, 0x20), None, "its entry was never made");
        assert_eq!(stack.leave(&slot, 0x10), Some(5));
        assert_eq!(stack.leave(&slot, 0x10), None);
        // A jump leaves two calls without exits.
        for (word, ticks) in [(0x10, 1), (0x20, 2), (0x30, 3)] {
            stack.enter(&slot, word, ticks);
        }
        assert_eq!(stack.leave(&slot, 0x10), Some(1));
        assert_eq!(stack.depth.load(Ordering::Relaxed), 0);
        assert!(
            stack
                .places
                .iter()
                .all(|place| place.word.load(Ordering::Relaxed) == 0)
        );
    }

    #[test]
    fn too_deep_calls_are_not_followed() {
        let (stack, slot) = (stack(), slot(1));
        for depth in 0..PLACES as u64 + 5 {
            stack.enter(&slot, 0x10, 100 + depth);
        }
        for _ in 0..5 {
            assert_eq!(stack.leave(&slot, 0x10), None);
        }
        for depth in (0..PLACES as u64).rev() {
            assert_eq!(stack.leave(&slot, 0x10), Some(100 + depth));
        }
        assert_eq!(stack.leave(&slot, 0x10), None);
    }

    #[test]
    fn another_owner_begins_with_an_empty_stack() {
        let (stack, first, second) = (stack(), slot(1), slot(2));
        stack.enter(&first, 0x10, 5);
        assert_eq!(stack.leave(&second, 0x10), None);
        stack.enter(&second, 0x10, 6);
        assert_eq!(stack.leave(&second, 0x10), Some(6));
    }

    #[test]
    fn a_slow_call_is_reported_once() {
        let (stack, slot) = (stack(), slot(1));
        stack.enter(&slot, 0x10, 5);
        stack.places[0].reported_begin.store(5, Ordering::Relaxed);
        assert_eq!(stack.leave(&slot, 0x10), None);
        stack.enter(&slot, 0x10, 6);
        assert_eq!(
            stack.leave(&slot, 0x10),
            Some(6),
            "the mark is of another call"
        );
    }
}
