//! The clock of the records: a counter of the CPU if there is one, otherwise the clock of the operating system.
//! There is one file per architecture with the same items, behind [`read`] and [`choose`].
//!
//! [`read`] is on the hot path, and a signal handler may call it at any moment. It must never allocate or lock.
//! It must not touch thread-local storage, except for the kernel's own word in it (rseq).
#![allow(unsafe_code)]

mod system;

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "fallback.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod rseq;

// The tests of every architecture compile it, so it stays valid.
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod fallback;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use rseq::OFFSET as RSEQ_OFFSET;
pub(crate) use system::{cpu_ns_of, monotonic_raw_ns, process_cpu_ns, realtime_ns, thread_cpu_ns};

use crate::config::Clock;

/// How time and CPU are read.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// x86-64: `rdtscp`, which gives both and waits for earlier loads.
    Tscp = 0,
    /// x86-64: `rdtsc`, and the CPU by `rdpid`.
    TscPid = 1,
    /// x86-64: `rdtsc`, and the CPU from the thread's rseq area.
    TscRseq = 2,
    /// aarch64: `cntvct_el0`.
    Counter = 3,
    /// Nanoseconds of CLOCK_MONOTONIC_RAW.
    Monotonic = 4,
}

impl Kind {
    /// The kind with the number `raw`. An unknown number is [`Kind::Monotonic`], which works everywhere.
    /// Async-signal-safe.
    #[inline(always)]
    pub(crate) fn from_raw(raw: u32) -> Kind {
        match raw {
            0 => Kind::Tscp,
            1 => Kind::TscPid,
            2 => Kind::TscRseq,
            3 => Kind::Counter,
            _ => Kind::Monotonic,
        }
    }
}

/// A moment, and the CPU on which it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Ticks of the chosen clock.
    pub(crate) ticks: u64,
    /// The CPU's number in the bits of [`CPU_MASK`], all ones for "unknown". The bits above depend on the
    /// source.
    pub(crate) cpu: u32,
}

/// The bits of a CPU number. Linux keeps it in the low 12 bits of IA32_TSC_AUX, with the node's number above
/// them. The other sources are cut to the same width.
pub(crate) const CPU_MASK: u32 = 0xfff;

/// The decision of [`choose`], and a note for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenClock {
    pub(crate) kind: Kind,
    /// For people: `rdtscp`, `rdtsc + rdpid`.
    pub(crate) name: &'static str,
    /// Why it is not the requested clock, or why its times may be wrong.
    pub(crate) note: Option<String>,
    /// Whether its rate is independent of the CPU's frequency.
    pub(crate) constant: bool,
    /// Whether it goes on while the CPU sleeps.
    pub(crate) nonstop: bool,
    /// Ticks per second, if the platform states them. They are used only if a measurement agrees.
    pub(crate) nominal_hz: Option<u64>,
}

/// Reads the clock and the CPU. Only with [`Kind::Tscp`] both come from one instruction. With the other kinds
/// the thread may move between the two reads. The stamp then names one of the two CPUs.
///
/// A kind of another architecture is read as [`Kind::Monotonic`].
///
/// Async-signal-safe: it allocates nothing, takes no lock and keeps errno. See `system` for the operating
/// system's clock.
#[inline(always)]
pub(crate) fn read(kind: Kind) -> Stamp {
    arch::read(kind)
}

/// Decides how `request` is met on this machine. It is called once at start, before the first [`read`] of
/// [`Kind::TscRseq`] or [`Kind::Counter`], because it finds rseq. Not async-signal-safe.
pub(crate) fn choose(request: Clock) -> ChosenClock {
    if request == Clock::Monotonic {
        return system::chosen(None);
    }
    arch::choose(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: [Clock; 3] = [Clock::Rdtscp, Clock::Rdtsc, Clock::Monotonic];

    #[test]
    fn every_raw_value_is_a_kind() {
        for kind in [
            Kind::Tscp,
            Kind::TscPid,
            Kind::TscRseq,
            Kind::Counter,
            Kind::Monotonic,
        ] {
            assert_eq!(Kind::from_raw(kind as u32), kind);
        }
        assert_eq!(Kind::from_raw(5), Kind::Monotonic);
        assert_eq!(Kind::from_raw(u32::MAX), Kind::Monotonic);
    }

    #[test]
    fn chosen_clocks_go_forward_on_one_thread() {
        for request in REQUESTS {
            let kind = choose(request).kind;
            let mut last = read(kind).ticks;
            let first = last;
            for _ in 0..10_000 {
                let now = read(kind).ticks;
                assert!(now >= last, "{kind:?}: {now} after {last}");
                last = now;
            }
            assert!(last > first, "{kind:?} stands still at {first}");
        }
    }

    #[test]
    fn chosen_clocks_name_the_pinned_cpu() {
        let thread = std::thread::spawn(|| {
            for core in core_affinity::get_core_ids().unwrap() {
                assert!(core_affinity::set_for_current(core));
                for request in REQUESTS {
                    let kind = choose(request).kind;
                    assert_eq!((read(kind).cpu & CPU_MASK) as usize, core.id, "{kind:?}");
                }
            }
        });
        thread.join().unwrap();
    }

    #[test]
    fn the_requested_system_clock_needs_no_note() {
        let chosen = choose(Clock::Monotonic);
        assert_eq!((chosen.kind, chosen.note), (Kind::Monotonic, None));
        assert_eq!(chosen.nominal_hz, Some(1_000_000_000));
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn an_architecture_without_a_counter_says_so() {
        let chosen = fallback::choose(Clock::Rdtscp);
        assert_eq!(chosen.kind, Kind::Monotonic);
        assert!(chosen.note.unwrap().contains(std::env::consts::ARCH));
        let before = monotonic_raw_ns();
        let ticks = fallback::read(Kind::Tscp).ticks;
        assert!((before..=monotonic_raw_ns()).contains(&ticks));
    }

    #[test]
    fn the_system_clock_counts_nanoseconds_of_monotonic_raw() {
        let before = monotonic_raw_ns();
        let ticks = read(Kind::Monotonic).ticks;
        assert!((before..=monotonic_raw_ns()).contains(&ticks));
    }
}
