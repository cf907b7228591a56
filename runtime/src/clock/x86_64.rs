//! x86-64: the time-stamp counter by `rdtscp`, or by `rdtsc` with the CPU from `rdpid` or rseq. This file must
//! offer the same items as those of the other architectures, and never run an instruction that the CPU lacks.

use core::arch::asm;
use core::arch::x86_64::__cpuid_count;

use super::{ChosenClock, Kind, Stamp, rseq, system};
use crate::config::Clock;

/// See [`super::read`]. Async-signal-safe.
#[inline(always)]
pub(super) fn read(kind: Kind) -> Stamp {
    // Comparisons are used and no jump table. The kind never changes, so the CPU predicts each comparison.
    if kind == Kind::Tscp {
        tscp()
    } else if kind == Kind::TscRseq {
        Stamp {
            ticks: tsc(),
            cpu: rseq::cpu(),
        }
    } else if kind == Kind::TscPid {
        Stamp {
            ticks: tsc(),
            cpu: rdpid(),
        }
    } else {
        system::read()
    }
}

/// See [`super::choose`].
pub(super) fn choose(request: Clock) -> ChosenClock {
    decide(request, Features::detect())
}

// This is assembly and no intrinsic. So the halves of the counter stay apart, and a caller that needs the
// halves does not wait for a join.

#[inline(always)]
fn tscp() -> Stamp {
    let (low, high, cpu): (u32, u32, u32);
    // SAFETY: this kind is chosen only if CPUID announces rdtscp. No memory is touched.
    unsafe {
        asm!("rdtscp", out("eax") low, out("edx") high, out("ecx") cpu,
            options(nomem, nostack, preserves_flags));
    }
    Stamp {
        ticks: u64::from(high) << 32 | u64::from(low),
        cpu,
    }
}

#[inline(always)]
fn tsc() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: every x86-64 CPU has rdtsc, and `choose` made sure that the process may use it.
    unsafe {
        asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

#[inline(always)]
fn rdpid() -> u32 {
    let aux: u64;
    // SAFETY: this kind is chosen only if CPUID announces rdpid. No memory is touched.
    unsafe { asm!("rdpid {}", out(reg) aux, options(nomem, nostack, preserves_flags)) };
    aux as u32
}

/// The features of the CPU and the kernel.
#[derive(Clone, Copy, Debug)]
struct Features {
    rdtscp: bool,
    rdpid: bool,
    rseq: bool,
    /// Whether the process must not read the counter. Reading it would raise SIGSEGV.
    forbidden: bool,
    /// Whether it is constant and non-stop. CPUID reports both with one bit ("invariant TSC").
    invariant: bool,
    /// Whether the kernel found the counter unsteady and keeps time by another clock.
    distrusted: bool,
}

impl Features {
    /// Asks CPUID (leaves 7, 8000_0001h and 8000_0007h; Intel SDM volume 2, AMD APM volume 3), the C
    /// library and the kernel.
    // Newer compilers take CPUID for safe, because each x86-64 processor has it.
    #[allow(unused_unsafe)]
    fn detect() -> Features {
        // SAFETY: the processor has CPUID, and each leaf is read only if it exists.
        let leaf = |leaf, part| unsafe { __cpuid_count(leaf, part) };
        let basic = leaf(0, 0).eax;
        let extended = leaf(0x8000_0000, 0).eax;
        Features {
            rdtscp: extended >= 0x8000_0001 && leaf(0x8000_0001, 0).edx >> 27 & 1 == 1,
            rdpid: basic >= 7 && leaf(7, 0).ecx >> 22 & 1 == 1,
            rseq: rseq::find(),
            forbidden: counter_is_forbidden(),
            invariant: extended >= 0x8000_0007 && leaf(0x8000_0007, 0).edx >> 8 & 1 == 1,
            distrusted: system::source().is_some_and(|source| is_last_resort(&source)),
        }
    }
}

/// Whether `prctl(PR_SET_TSC, PR_TSC_SIGSEGV)` is in force on this thread. New threads inherit it.
fn counter_is_forbidden() -> bool {
    let mut state: libc::c_int = 0;
    // SAFETY: PR_GET_TSC writes one int to the address, which is valid for it.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut state) };
    // If a sandbox refuses the question, the counter is almost certainly allowed.
    result == 0 && state == libc::PR_TSC_SIGSEGV
}

/// Whether a kernel uses this clock source only if the counter is of no use. Other sources (`tsc`, `kvm-clock`,
/// `hyperv_clocksource_tsc_page`, …) use the counter.
fn is_last_resort(source: &str) -> bool {
    ["hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"].contains(&source)
}

/// The choice from the features. A request that can't be met gets the nearest clock and a note.
fn decide(request: Clock, offered: Features) -> ChosenClock {
    if offered.forbidden {
        let why = "the process may not read the time-stamp counter (prctl PR_TSC_SIGSEGV)";
        return system::chosen(Some(why.to_owned()));
    }
    let tscp = (offered.rdtscp, Kind::Tscp, "rdtscp");
    let pid = (offered.rdpid, Kind::TscPid, "rdtsc + rdpid");
    let rseq = (offered.rseq, Kind::TscRseq, "rdtsc + rseq");
    let preference = match request {
        Clock::Rdtscp => [tscp, pid, rseq],
        // Reading the thread's rseq area is a load. rdpid takes 2 ns on some CPUs.
        Clock::Rdtsc => [rseq, pid, tscp],
        Clock::Monotonic => return system::chosen(None),
    };
    let Some((_, kind, name)) = preference.into_iter().find(|(there, ..)| *there) else {
        let why = "the CPU has neither rdtscp nor rdpid, and the C library registers no rseq area";
        return system::chosen(Some(why.to_owned()));
    };
    let replaced = match (request, kind) {
        (Clock::Rdtscp, Kind::TscPid | Kind::TscRseq) => Some("the CPU has no rdtscp"),
        (Clock::Rdtsc, Kind::Tscp) => {
            Some("rdtsc needs rdpid or rseq for the CPU's number, and neither is there")
        }
        _ => None,
    };
    let unsteady = (!offered.invariant).then_some(
        "CPUID does not call the time-stamp counter invariant: its rate may follow the CPU's \
         frequency, and durations may be wrong; FDR_CLOCK=monotonic is not affected",
    );
    let distrusted = (offered.invariant && offered.distrusted).then_some(
        "the kernel does not keep time by the time-stamp counter (see current_clocksource): it may stop, \
         jump or differ between CPUs, and durations may be wrong; FDR_CLOCK=monotonic is not affected",
    );
    let mut note = None;
    for line in [replaced, unsteady, distrusted].into_iter().flatten() {
        let note: &mut String = note.get_or_insert_default();
        note.push_str(if note.is_empty() { "" } else { "; " });
        note.push_str(line);
    }
    let steady = offered.invariant && !offered.distrusted;
    ChosenClock {
        kind,
        name,
        note,
        constant: steady,
        nonstop: steady,
        nominal_hz: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Features = Features {
        rdtscp: true,
        rdpid: true,
        rseq: true,
        forbidden: false,
        invariant: true,
        distrusted: false,
    };

    fn kind_and_note(request: Clock, offered: Features) -> (Kind, String) {
        let chosen = decide(request, offered);
        (chosen.kind, chosen.note.unwrap_or_default())
    }

    #[test]
    fn a_possible_request_needs_no_note() {
        assert_eq!(
            kind_and_note(Clock::Rdtscp, ALL),
            (Kind::Tscp, String::new())
        );
        assert_eq!(
            kind_and_note(Clock::Rdtsc, ALL),
            (Kind::TscRseq, String::new())
        );
        let old_library = Features { rseq: false, ..ALL };
        assert_eq!(
            kind_and_note(Clock::Rdtsc, old_library),
            (Kind::TscPid, String::new())
        );
        assert_eq!(
            kind_and_note(Clock::Monotonic, ALL),
            (Kind::Monotonic, String::new())
        );
    }

    #[test]
    fn a_replacement_says_why() {
        let (kind, note) = kind_and_note(
            Clock::Rdtsc,
            Features {
                rdpid: false,
                rseq: false,
                ..ALL
            },
        );
        assert_eq!(kind, Kind::Tscp);
        assert!(note.contains("needs rdpid or rseq"), "{note}");
        let (kind, note) = kind_and_note(
            Clock::Rdtscp,
            Features {
                rdtscp: false,
                ..ALL
            },
        );
        assert_eq!(kind, Kind::TscPid);
        assert!(note.contains("no rdtscp"), "{note}");
    }

    #[test]
    fn the_system_clock_is_the_last_resort() {
        let nothing = Features {
            rdtscp: false,
            rdpid: false,
            rseq: false,
            ..ALL
        };
        for request in [Clock::Rdtscp, Clock::Rdtsc] {
            let (kind, note) = kind_and_note(request, nothing);
            assert_eq!(kind, Kind::Monotonic);
            assert!(note.contains("neither rdtscp nor rdpid"), "{note}");
            let (kind, note) = kind_and_note(
                request,
                Features {
                    forbidden: true,
                    ..ALL
                },
            );
            assert_eq!(kind, Kind::Monotonic);
            assert!(note.contains("PR_TSC_SIGSEGV"), "{note}");
        }
    }

    #[test]
    fn a_varying_counter_gives_a_warning() {
        let chosen = decide(
            Clock::Rdtscp,
            Features {
                invariant: false,
                ..ALL
            },
        );
        assert_eq!(
            (chosen.kind, chosen.constant, chosen.nonstop),
            (Kind::Tscp, false, false)
        );
        assert!(chosen.note.unwrap().contains("invariant"));
    }

    #[test]
    fn a_distrusted_counter_is_flagged() {
        let distrusted = Features {
            distrusted: true,
            ..ALL
        };
        let chosen = decide(Clock::Rdtscp, distrusted);
        assert_eq!((chosen.kind, chosen.constant), (Kind::Tscp, false));
        assert!(chosen.note.unwrap().contains("current_clocksource"));
        assert!(is_last_resort("hpet") && !is_last_resort("kvm-clock") && !is_last_resort("tsc"));
    }

    #[test]
    fn a_forbidden_counter_is_noticed() {
        fn set(state: libc::c_int) {
            // SAFETY: the call takes integers only. The thread that forbids itself the counter looks
            // at no clock, not even through the vDSO, before it allows it again.
            let result = unsafe { libc::prctl(libc::PR_SET_TSC, state) };
            assert_eq!(result, 0);
        }
        // In a thread of its own, since the prohibition is the thread's.
        let thread = std::thread::spawn(|| {
            set(libc::PR_TSC_SIGSEGV);
            let forbidden = counter_is_forbidden();
            set(libc::PR_TSC_ENABLE);
            forbidden
        });
        assert!(thread.join().unwrap());
        assert!(!counter_is_forbidden());
    }

    #[test]
    fn features_are_those_that_the_kernel_lists() {
        let Ok(text) = std::fs::read_to_string("/proc/cpuinfo") else {
            return;
        };
        let Some(flags) = text.lines().find(|line| line.starts_with("flags")) else {
            return;
        };
        let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        let offered = Features::detect();
        assert_eq!(offered.rdtscp, has("rdtscp"));
        assert_eq!(offered.rdpid, has("rdpid"));
        assert_eq!(offered.invariant, has("nonstop_tsc"));
    }

    #[test]
    fn all_ways_to_read_the_counter_agree() {
        let offered = Features::detect();
        let kinds = [
            (offered.rdtscp, Kind::Tscp),
            (offered.rdpid, Kind::TscPid),
            (offered.rseq, Kind::TscRseq),
        ];
        let mut last = tsc();
        for (_, kind) in kinds.into_iter().filter(|(there, _)| *there) {
            let now = read(kind).ticks;
            // Ten seconds at 10 GHz: wide enough for any pause, far too narrow for another clock.
            assert!(
                now.wrapping_sub(last) < 100_000_000_000,
                "{kind:?}: {now} after {last}"
            );
            last = now;
        }
    }

    #[test]
    fn a_foreign_kind_is_answered_in_nanoseconds() {
        let before = system::monotonic_raw_ns();
        let ticks = read(Kind::Counter).ticks;
        assert!((before..=system::monotonic_raw_ns()).contains(&ticks));
    }
}
