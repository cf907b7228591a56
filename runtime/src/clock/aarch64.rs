//! aarch64: the virtual counter `cntvct_el0`. All CPUs share it, it has a fixed rate, and it never stops (Arm
//! ARM, "The Generic Timer"). This file must offer the same items as those of the other architectures. CI runs
//! its tests under emulation.

use core::arch::asm;

use super::{ChosenClock, Kind, Stamp, rseq, system};
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

/// `rdtscp` and `rdtsc` are words of x86-64. Here both mean the CPU's counter, so no note is needed.
pub(super) fn choose(_: Clock) -> ChosenClock {
    rseq::find();
    ChosenClock {
        kind: Kind::Counter,
        name: "cntvct_el0",
        note: None,
        constant: true,
        nonstop: true,
        // Firmware sets it, and some firmware leaves it 0.
        nominal_hz: Some(frequency()).filter(|&hz| hz > 0),
    }
}

/// The counter, without a barrier. Like `rdtsc`, it may be read before earlier instructions are done.
#[inline(always)]
fn counter() -> u64 {
    let ticks;
    // SAFETY: Linux lets user space read this register on every aarch64 CPU, as the vDSO does. If an erratum of
    // a CPU forbids it, the kernel traps and emulates the read. No memory is touched.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// The counter's nominal rate in Hz.
fn frequency() -> u64 {
    let hz;
    // SAFETY: user space can read this register on every aarch64 Linux. No memory is touched.
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
