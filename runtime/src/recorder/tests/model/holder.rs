//! The models of a wait: a thread that waits for an object reads which thread holds the object, and the call that the
//! holder is in. The holder must have been in that call while it held the object.

use super::super::super::wait;
use super::checks::FORMER;
use super::open_calls::{owned, watch_counts};
use super::*;
use crate::primitive::AtomicU64;
use crate::ring;
use crate::site::wait::{Holders, READERS};

const FN_4: u32 = 4 << 4;

/// A thread that is in function 1 enters function 2, takes the object, gives it back, and enters another function.
/// `begin` and `end` are what it does with the word of the object.
fn a_wait_beside(
    holders: fn(&'static AtomicU64) -> Holders<'static>,
    begin: fn(&AtomicU64, u64),
    end: fn(&AtomicU64, u64),
) {
    let (small, _memory, slot, calls) = owned();
    let write = move |(word, ticks)| writer::write(slot, word, Stamp { ticks, cpu: 0 });
    write((FN_1, 1000));
    let word: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    word.watch();
    slot.cursor.watch();
    watch_counts(calls);
    let [_, _, inner, ..] = &calls.frames;
    inner.word.watch();
    let me = u64::from(ring::place_of(slot));
    let holder = loom::thread::spawn(move || {
        write((FN_1 | EXIT, 1001));
        write((FN_2, 1002));
        begin(word, me);
        end(word, me);
        write((FN_2 | EXIT, 1003));
        write((FN_4, 1004));
    });
    let (thread, function) = wait::find_holder(Some(small.ring), &holders(word));
    assert!(
        function == 0 || (thread, function) == (FORMER, 2),
        "{thread}: {function}"
    );
    holder.join().expect("the holder");
    begin(word, me);
    assert_eq!(
        wait::find_holder(Some(small.ring), &holders(word)),
        (FORMER, 4)
    );
}

pub(super) fn a_wait_beside_its_owner() {
    let holders = |word| Holders {
        owner: Some(word),
        readers: None,
    };
    let hold = |word: &AtomicU64, me| wait::hold(word, u64::from(FORMER) << 32 | me);
    a_wait_beside(holders, hold, |word, _| wait::release(word));
}

pub(super) fn a_wait_beside_a_reader() {
    let holders = |word| Holders {
        owner: None,
        readers: Some(word),
    };
    let share = |word: &AtomicU64, me| wait::share(word, 1 << READERS | me);
    a_wait_beside(holders, share, |word, me| {
        wait::leave(word, 1 << READERS | me)
    });
}
