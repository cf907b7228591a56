//! A slot's open calls, as readers find them beside their writer: the protocol at the head of
//! `recorder::open_calls`. Async-signal-safe. This file must never follow an address that the slot does not have.

use super::chunk::at_address;
use super::layout::{ARGUMENTS, FRAMES, Frame, NO_CPU, OpenCalls, OpenCallsFields, Slot};
use crate::primitive::{AtomicU64, Ordering, fence};

/// Bytes of a copy.
pub(crate) const SIZE: usize = size_of::<OpenCalls>();

/// The value of [`OpenCalls::beside`] for the next owners.
pub(crate) static BESIDE: AtomicU64 = AtomicU64::new(0);

/// Makes the open calls ready for the slot's next owner. A slot without totals goes without open calls: each
/// call then leaves its records.
pub(crate) fn begin(slot: &Slot, calls: &OpenCalls) {
    calls.deeper.store(0, Ordering::Relaxed);
    let root = &calls.frames[0];
    for field in [
        &calls.open,
        &calls.publishing,
        &calls.threshold,
        &calls.arguments,
        &root.short_calls,
        &root.short_ticks,
        &root.inside,
    ] {
        field.store(0, Ordering::Relaxed);
    }
    calls.cpu.store(NO_CPU, Ordering::Relaxed);
    set_beside(calls, None);
    if calls.totals.load(Ordering::Relaxed) != 0 {
        let address = core::ptr::from_ref(calls).addr() as u64;
        slot.open_calls.store(address, Ordering::Relaxed);
    }
}

/// One call without records, in the word of counts.
const SUMMARISED: u64 = 1 << 16;
/// Added to the word of counts when a call ends and leaves no records: one open call less, one call without records
/// more.
pub(crate) const SHORT_CALL_ENDS: u64 = SUMMARISED - 1;

/// Of a word of counts: how many calls are open, and how many of them have their entry record in the ring.
fn depths(open: u64) -> (usize, usize) {
    (open as u8 as usize, (open >> 8) as u8 as usize)
}

impl OpenCalls {
    /// How many calls are open, and how many of them have their entry record in the ring, for the owner.
    pub(crate) fn open(&self) -> (usize, usize) {
        depths(self.open.load(Ordering::Relaxed))
    }

    /// Sets both, in one step.
    pub(crate) fn set_open(&self, depth: usize, published: usize) {
        let summarised = self.open.load(Ordering::Relaxed) & !(SUMMARISED - 1);
        let open = summarised | (published as u64) << 8 | depth as u64;
        // Release: pairs with the Acquire in `copy` and `counts`. A reader that sees a call sees its frame.
        self.open.store(open, Ordering::Release);
    }

    /// The innermost call ends, and leaves no records.
    pub(crate) fn end_short(&self) {
        let open = self.open.load(Ordering::Relaxed);
        // Release: as in `set_open`.
        self.open
            .store(open.wrapping_add(SHORT_CALL_ENDS), Ordering::Release);
    }

    /// Announces the state that the next published record makes true: `published` calls have their entry in the ring,
    /// and the frame `at` has only these short calls left.
    pub(crate) fn will_be(&self, published: usize, at: usize, calls: u64, ticks: u64) {
        // Release: pairs with the Acquire of readers. A reader that sees these words sees that `is_so` was called for
        // the last announced record.
        fence(Ordering::Release);
        let next = (at as u64) << 8 | published as u64;
        self.next.store(next, Ordering::Relaxed);
        self.next_calls.store(calls, Ordering::Relaxed);
        self.next_ticks.store(ticks, Ordering::Relaxed);
    }

    /// The announced state is true, and the frames and the word of counts say so, too.
    pub(crate) fn is_so(&self) {
        // Release: a reader that sees this 0 sees those words.
        self.publishing.store(0, Ordering::Release);
    }
}

impl OpenCalls {
    /// Completes an interrupted record: the announced state of the frames becomes true if the cursor says that the
    /// record was published. Only the owner calls this.
    pub(crate) fn settle(&self, cursor: u64) {
        let publishing = self.publishing.load(Ordering::Relaxed);
        if publishing == 0 {
            return;
        }
        let next = self.next.load(Ordering::Relaxed);
        let frame = self.frames.get((next >> 8) as usize);
        if let Some(frame) = frame.filter(|_| publishing == cursor) {
            let calls = self.next_calls.load(Ordering::Relaxed);
            let ticks = self.next_ticks.load(Ordering::Relaxed);
            // Release: as in `recorder::open_calls`.
            fence(Ordering::Release);
            frame.short_calls.store(calls, Ordering::Relaxed);
            frame.short_ticks.store(ticks, Ordering::Relaxed);
            self.set_open(self.open().0, depths(next).0);
        }
        self.is_so();
    }
}

/// The slot's open calls. `None` if each of its calls leaves its records.
#[inline(always)]
pub(crate) fn of_slot(slot: &Slot) -> Option<&'static OpenCalls> {
    let address = slot.open_calls.load(Ordering::Relaxed);
    // SAFETY: `recorder::open_calls` stored the address of the slot's own open calls. They are in the ring's
    // mapping, which is never unmapped, and consist of atomics.
    (address != 0).then(|| unsafe { &*at_address::<OpenCalls>(address) })
}

/// Sets what a short call adds to the time of the calls inside its caller, in ticks. `None`: the usual value.
pub(crate) fn set_beside(calls: &OpenCalls, ticks: Option<u64>) {
    let ticks = ticks.unwrap_or_else(|| BESIDE.load(Ordering::Relaxed));
    calls.beside.store(ticks, Ordering::Relaxed);
}

/// A number that changes when a call begins or ends.
pub(crate) fn progress(calls: &OpenCalls) -> u64 {
    calls.open.load(Ordering::Relaxed)
}

/// The functions of the open calls, the outermost first. If the thread goes on meanwhile, the innermost ones may be of
/// different moments.
pub(crate) fn functions(calls: &OpenCalls) -> impl DoubleEndedIterator<Item = u32> {
    let (depth, _) = depths(calls.open.load(Ordering::Acquire));
    let open = calls.frames.get(1..=depth).unwrap_or_default();
    open.iter()
        .map(|frame| frame.word.load(Ordering::Relaxed) >> 4)
}

/// How often a copy is tried while the thread goes on.
const MAX_COPIES: u32 = if cfg!(loom) { 2 } else { 256 };

/// Copies the open calls as they are at one moment. Returns the slot's cursor of that moment. `None` if the thread
/// changes the open calls too fast. Async-signal-safe.
///
/// Whenever the frames change, the word of counts and the cursor together get values that they never had before. So if
/// both are the same before and after the copy, no frame changed. The thread may change the innermost calls all the
/// time. While a call is open, the frames below it stay as they are. So if a frame is the same as in the previous copy,
/// that copy is kept for the frames below it.
pub(crate) fn copy(slot: &Slot, calls: &OpenCalls, to: &mut [u8; SIZE]) -> Option<u64> {
    let (mut known, mut before) = (0, 0);
    for _ in 0..MAX_COPIES {
        // Acquire, both: pair with the Release in `set_open`, and in `commit`.
        let open = calls.open.load(Ordering::Acquire);
        let cursor = slot.cursor.load(Ordering::Acquire);
        // Acquire: pairs with the Release in `ring::arguments`. A reader that sees a note as used sees its words.
        let arguments = calls.arguments.load(Ordering::Acquire);
        let depth = depths(open).0.min(FRAMES - 1);
        // A publication took the short calls out of frames.
        known = if cursor == before {
            known.min(depth)
        } else {
            0
        };
        let mut same = known;
        while same > 0 && !is_same(calls, to, same) {
            same -= 1;
        }
        copy_words(calls, to, NEXT_AT / 8..FRAMES_AT / 8);
        // Acquire: pairs with the Release fence in `will_be`. If these words are of a later record, so is `publishing`.
        fence(Ordering::Acquire);
        copy_words(calls, to, 0..NEXT_AT / 8);
        // Acquire: pairs with the Release in `is_so`. The words read of the frames are not older.
        fence(Ordering::Acquire);
        for at in (same..=depth).rev() {
            copy_words(calls, to, frame_words(at));
            // Acquire: pairs with the Release fences of `recorder::open_calls`. The words read afterwards, of the
            // frames below or of the counts and the cursor, are not older.
            fence(Ordering::Acquire);
        }
        let used = usize::from(arguments as u16).min(ARGUMENTS);
        copy_words(calls, to, ARGUMENTS_AT / 8..ARGUMENTS_AT / 8 + 1 + used);
        // Acquire: pairs with the Release fence in `ring::arguments`.
        fence(Ordering::Acquire);
        let is_same = calls.open.load(Ordering::Relaxed) == open
            && slot.cursor.load(Ordering::Relaxed) == cursor
            && calls.arguments.load(Ordering::Relaxed) == arguments;
        if is_same {
            return Some(cursor);
        }
        (known, before) = (depth, cursor);
    }
    None
}

/// The function of the innermost open call. 0: no call is open, or that call has no frame. `None`: the thread changes
/// its calls during the read, or `still` returned false. Async-signal-safe.
pub(crate) fn innermost(slot: &Slot, calls: &OpenCalls, still: impl Fn() -> bool) -> Option<u32> {
    // Acquire, both: as in `copy`.
    let open = calls.open.load(Ordering::Acquire);
    let cursor = slot.cursor.load(Ordering::Acquire);
    let deeper = calls.deeper.load(Ordering::Relaxed);
    let (depth, _) = depths(open);
    let frame = calls.frames.get(depth).filter(|_| depth > 0 && deeper == 0);
    let word = frame.map_or(0, |frame| frame.word.load(Ordering::Relaxed));
    let is_still = still();
    // Acquire: pairs with the Release fences of `recorder::open_calls`.
    fence(Ordering::Acquire);
    let is_same = calls.open.load(Ordering::Relaxed) == open
        && slot.cursor.load(Ordering::Relaxed) == cursor
        && calls.deeper.load(Ordering::Relaxed) == deeper;
    (is_same && is_still).then_some(word >> 4)
}

/// The offsets of the words with the announced state, and of the frames.
const NEXT_AT: usize = core::mem::offset_of!(OpenCallsFields, next);
const FRAMES_AT: usize = core::mem::offset_of!(OpenCallsFields, frames);
/// The offset of the word of the arguments. Their words are behind it.
const ARGUMENTS_AT: usize = core::mem::offset_of!(OpenCallsFields, arguments);
const _: () = assert!(ARGUMENTS_AT + 8 == core::mem::offset_of!(OpenCallsFields, arguments_words));

/// The words of a frame.
fn frame_words(at: usize) -> core::ops::Range<usize> {
    let words = size_of::<Frame>() / 8;
    let first = FRAMES_AT / 8 + at * words;
    first..first + words
}

/// Whether the frame is of the same call as in the copy: function, CPU and tick are the same.
fn is_same(calls: &OpenCalls, copy: &[u8; SIZE], at: usize) -> bool {
    let first = frame_words(at).start;
    (first..first + 2).all(|at| copy.get(8 * at..8 * at + 8) == Some(&word(calls, at)))
}

fn copy_words(calls: &OpenCalls, to: &mut [u8; SIZE], words: core::ops::Range<usize>) {
    for at in words {
        if let Some(place) = to.get_mut(8 * at..8 * at + 8) {
            place.copy_from_slice(&word(calls, at));
        }
    }
}

/// The word of the open calls with that index, which is less than SIZE / 8.
fn word(calls: &OpenCalls, at: usize) -> [u8; 8] {
    debug_assert!(at < SIZE / 8);
    let words = core::ptr::from_ref(calls).cast::<u64>().cast_mut();
    // SAFETY: a word of the open calls, as every caller's index is that of a field, of a frame below FRAMES, or of
    // an argument below ARGUMENTS. Their
    // owner uses atomic stores.
    let word = unsafe { AtomicU64::from_ptr(words.add(at)) };
    word.load(Ordering::Relaxed).to_ne_bytes()
}

/// Calls that left no records so far. The count may be of another moment than the frames.
pub(crate) fn summarised(calls: &OpenCalls) -> u64 {
    calls.open.load(Ordering::Relaxed) / SUMMARISED
}

/// Calls of a slot without records in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WithoutRecords {
    /// Calls that left no records.
    pub(crate) short: u64,
    /// Open calls without an entry record.
    pub(crate) open: u64,
}

impl WithoutRecords {
    /// How many records they would have.
    pub(crate) fn records(self) -> u64 {
        2 * self.short + self.open
    }
}

/// Calls without records, and the slot's cursor, as they are at one moment. `None` if the thread changes them too fast.
/// Async-signal-safe.
pub(crate) fn counts(slot: &Slot) -> Option<(WithoutRecords, u64)> {
    let Some(calls) = of_slot(slot) else {
        // Acquire: pairs with the Release in `commit`.
        return Some((
            WithoutRecords::default(),
            slot.cursor.load(Ordering::Acquire),
        ));
    };
    (0..MAX_COPIES).find_map(|_| {
        // Acquire, both: pair with the Release in `set_open`, and in `commit`.
        let open = calls.open.load(Ordering::Acquire);
        let cursor = slot.cursor.load(Ordering::Acquire);
        let next = calls.next.load(Ordering::Relaxed);
        // Acquire: as in `copy`.
        fence(Ordering::Acquire);
        let publishing = calls.publishing.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `is_so`.
        fence(Ordering::Acquire);
        let is_same = calls.open.load(Ordering::Relaxed) == open
            && slot.cursor.load(Ordering::Relaxed) == cursor;
        let (depth, published) = match publishing == cursor {
            true => (depths(open).0, depths(next).0),
            false => depths(open),
        };
        let without = WithoutRecords {
            short: open / SUMMARISED,
            open: depth.saturating_sub(published) as u64,
        };
        is_same.then_some((without, cursor))
    })
}
