//! The operating system's clocks: what calibration compares with, and the clock of the records where
//! the CPU's counter can't be read. Must never allocate outside [`chosen`] and [`source`].

use super::{CPU_MASK, Chosen, Kind, Stamp};

/// Reads [`Kind::Monotonic`]: nanoseconds of CLOCK_MONOTONIC_RAW, the same clock as the anchors', so
/// that its frequency is 1 GHz by definition and no time daemon bends a measured duration.
///
/// Async-signal-safe: clock_gettime is on POSIX's list. sched_getcpu is not, but in glibc and musl it
/// is a load from the rseq area or a call of the vDSO or the kernel, without lock or allocation.
#[cold]
#[inline(never)]
pub(super) fn read() -> Stamp {
    Stamp {
        ticks: monotonic_raw_ns(),
        cpu: cpu(),
    }
}

/// The choice of [`Kind::Monotonic`], and why it was not the requested clock.
pub(super) fn chosen(note: Option<String>) -> Chosen {
    Chosen {
        kind: Kind::Monotonic,
        name: "clock_gettime(CLOCK_MONOTONIC_RAW)",
        note,
        constant: true,
        nonstop: true,
        nominal_hz: Some(1_000_000_000),
    }
}

/// What the kernel keeps time by: `tsc`, `kvm-clock`, `hpet`. `None` where it does not say. Allocates.
#[cfg(target_arch = "x86_64")]
pub(super) fn source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = std::fs::read_to_string(path).ok()?;
    Some(name.trim().to_owned())
}

/// Nanoseconds since boot, without the corrections of time daemons. Async-signal-safe.
pub(crate) fn monotonic_raw_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC_RAW)
}

/// Nanoseconds since 1970, UTC. Async-signal-safe.
pub(crate) fn realtime_ns() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

/// The CPU that the calling thread is on, or [`CPU_MASK`] where the kernel can't tell.
pub(super) fn cpu() -> u32 {
    // SAFETY: the function takes nothing and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    cpu as u32 & CPU_MASK
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec for the whole call. Both clocks exist on every Linux that
    // Rust supports; where the call fails even so, `time` keeps its zeros.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn real_time_is_what_the_standard_library_says() {
        let std_ns = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_nanos() as u64
        };
        // A time daemon may step the clock between the reads, but not ten times running.
        assert!((0..10).any(|_| {
            let before = std_ns();
            let ours = realtime_ns();
            (before..=std_ns()).contains(&ours)
        }));
    }
}
