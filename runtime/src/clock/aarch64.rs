//! aarch64: the virtual counter `cntvct_el0`, which is one for all CPUs, runs at a fixed rate and
//! never stops (Arm ARM, "The Generic Timer"). Must offer the same items as the other architectures'
//! files. CI runs its tests under emulation.

use core::arch::asm;

use super::{Chosen, Kind, Stamp, rseq, system};
use crate::config::Clock;

/// See [`super::read`]. Async-signal-safe.
#[inline(always)]
pub(super) fn read(kind: Kind) -> Stamp {
    if kind != Kind::Counter {
        return system::read();
    }
    let cpu = if rseq::found() {
        rseq::cpu()
    } else {
        system::cpu()
    };
    Stamp {
        ticks: counter(),
        cpu,
    }
}

/// `rdtscp` and `rdtsc` are x86-64's words; here both mean "the CPU's counter", which needs no note.
pub(super) fn choose(_: Clock) -> Chosen {
    rseq::find();
    Chosen {
        kind: Kind::Counter,
        name: "cntvct_el0",
        note: None,
        constant: true,
        nonstop: true,
        // Set by firmware, which is known to leave it 0.
        nominal_hz: Some(frequency()).filter(|&hz| hz > 0),
    }
}

/// The counter, without a barrier: like `rdtsc` it may be read before earlier instructions are done.
#[inline(always)]
fn counter() -> u64 {
    let ticks;
    // SAFETY: Linux lets user space read this register on every aarch64 CPU (the vDSO does so, and
    // where a CPU's erratum forbids it the kernel traps and emulates the read); no memory is touched.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// The counter's nominal rate in Hz.
fn frequency() -> u64 {
    let hz;
    // SAFETY: readable from user space on every aarch64 Linux; no memory is touched.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_chosen_for_both_words() {
        for request in [Clock::Rdtscp, Clock::Rdtsc] {
            let chosen = choose(request);
            assert_eq!((chosen.kind, chosen.note), (Kind::Counter, None));
        }
    }

    #[test]
    fn a_foreign_kind_is_answered_in_nanoseconds() {
        let before = system::monotonic_raw_ns();
        let ticks = read(Kind::Tscp).ticks;
        assert!((before..=system::monotonic_raw_ns()).contains(&ticks));
    }
}
