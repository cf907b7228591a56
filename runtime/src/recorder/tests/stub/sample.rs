//! The choice of calls for `FDR_SAMPLE`.

use core::sync::atomic::Ordering::Relaxed;

use super::{BIT, COUNTED_BITS, FN_1, FN_2, KEEPS, Rig, UNTIMED_BIT, with_slot};
use crate::clock::Kind;
use crate::recorder::{EXIT, call, call_entry, call_untimed, call_untimed_entry, sample, tls};

/// The assembly chooses as the Rust code does, whichever code makes the records.
pub(super) fn calls_are_chosen(kind: Kind) {
    const ONE_IN: u32 = 3;
    let entered = |word: u32| call_entry(word | BIT.load(Relaxed));
    let untimed = |word: u32| call_untimed_entry(word | UNTIMED_BIT.load(Relaxed));
    let rig = Rig::new(2, false);
    sample::set(ONE_IN);
    with_slot(kind, &rig, || {
        tls::set_left(0);
        for nth in 0..7 {
            let is_chosen = nth % ONE_IN == 0;
            let top = entered(FN_1);
            assert_ne!(top, 0, "{kind:?}: its exit ends the top-level call");
            let (inside, untimed_inside) = (entered(FN_2), untimed(FN_2));
            assert_eq!(inside >> 4 != 0, is_chosen, "{kind:?}: {nth}");
            assert_eq!(untimed_inside >> 4 != 0, is_chosen, "{kind:?}: {nth}");
            if is_chosen {
                call_untimed(untimed_inside | EXIT);
                call(inside | EXIT);
            }
            call(top | EXIT);
        }
        // A jump leaves a call deep in the stack. The next call is nearer to the beginning of the stack.
        assert_eq!(tls::sample().1, ONE_IN - 1, "{kind:?}");
        let _ = deep(|| entered(FN_1));
        assert_eq!(tls::sample().1, ONE_IN - 2, "{kind:?}");
        let top = entered(FN_1);
        assert_eq!(tls::sample().1, ONE_IN - 3, "{kind:?}");
        call(top | EXIT);
        assert_eq!(tls::sample().0, 0, "{kind:?}");
        // A function that is only counted. The slot has no totals, so its calls are dropped.
        let counted = |word: u32| call_entry(word | COUNTED_BITS.load(Relaxed));
        let calls = if KEEPS.load(Relaxed) { 2 * ONE_IN } else { 0 };
        tls::set_left(0);
        for nth in 0..calls {
            let top = counted(FN_1);
            assert_ne!(tls::sample().0, 0, "{kind:?}: a top-level call is open");
            assert_eq!((top != 0, counted(FN_2)), (true, 0), "{kind:?}");
            call(top | EXIT);
            assert_eq!(tls::sample().0, 0, "{kind:?}: its exit ends it");
            let dropped = rig.slot().dropped.load(Relaxed);
            assert_eq!(dropped, u64::from(4 + 4 * (nth / ONE_IN)), "{kind:?}");
        }
    });
    rig.slot().dropped.store(0, Relaxed);
    sample::set(1);
    let (_, counts) = rig.read();
    assert_eq!((counts.recorded, counts.readable), (18, 18), "{kind:?}");
}

#[inline(never)]
fn deep(call: impl FnOnce() -> u32) -> u32 {
    let room = core::hint::black_box([0_u8; 512]);
    let word = call();
    word | u32::from(room[0])
}
