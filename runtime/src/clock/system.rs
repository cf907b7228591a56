//! The operating system's clocks. Calibration compares with them, and they time the records if the CPU's
//! counter can't be read. Only [`chosen`] and [`source`] may allocate.

use super::{CPU_MASK, ChosenClock, Kind, Stamp};

/// Reads [`Kind::Monotonic`]: nanoseconds of CLOCK_MONOTONIC_RAW, the clock of the anchors. So its frequency is
/// 1 GHz by definition, and no time daemon changes a measured duration.
///
/// Async-signal-safe: clock_gettime is on POSIX's list. sched_getcpu is not. In glibc and musl it is a load
/// from the rseq area, or a call of the vDSO or the kernel, without lock or allocation.
#[cold]
#[inline(never)]
pub(super) fn read() -> Stamp {
    Stamp {
        ticks: monotonic_raw_ns(),
        cpu: cpu(),
    }
}

/// The choice of [`Kind::Monotonic`]. `note` says why it was not the requested clock.
pub(super) fn chosen(note: Option<String>) -> ChosenClock {
    ChosenClock {
        kind: Kind::Monotonic,
        name: "clock_gettime(CLOCK_MONOTONIC_RAW)",
        note,
        constant: true,
        nonstop: true,
        nominal_hz: Some(1_000_000_000),
    }
}

/// The clock that the kernel keeps time by: `tsc`, `kvm-clock`, `hpet`. `None` if the kernel does not say.
/// Allocates.
#[cfg(target_arch = "x86_64")]
pub(super) fn source() -> Option<String> {
    use std::{fs::File, io::Read};
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut bytes = [0; 64];
    let length = File::open(path).ok()?.read(&mut bytes).ok()?;
    let name = core::str::from_utf8(bytes.get(..length)?).ok()?;
    Some(name.trim_ascii().to_owned())
}

/// Nanoseconds since boot, without the corrections of time daemons. Async-signal-safe.
#[inline(never)]
pub(crate) fn monotonic_raw_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC_RAW)
}

/// CPU time of all threads of the process, ns.
pub(crate) fn process_cpu_ns() -> u64 {
    nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread, ns. Async-signal-safe.
pub(crate) fn thread_cpu_ns() -> u64 {
    // Miri has no such clock.
    match cfg!(interpreted) {
        true => 0,
        false => nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID),
    }
}

/// CPU time of a thread of this process, ns. 0 if the thread has ended. The process's own clock would be late for
/// threads on other CPUs by up to a timer tick. Async-signal-safe. Source: `MAKE_THREAD_CPUCLOCK` of Linux.
pub(crate) fn cpu_ns_of(thread: u32) -> u64 {
    const OF_A_THREAD: i32 = 4;
    const EXACT: i32 = 2;
    nanoseconds(!(thread as i32) << 3 | OF_A_THREAD | EXACT)
}

/// Nanoseconds since 1970, UTC. Async-signal-safe.
#[inline(never)]
pub(crate) fn realtime_ns() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

/// The CPU of the calling thread, or [`CPU_MASK`] if the kernel can't tell.
pub(super) fn cpu() -> u32 {
    // Miri has no CPUs.
    #[cfg(interpreted)]
    let cpu = 0;
    // SAFETY: the function takes nothing and touches no memory of ours.
    #[cfg(not(interpreted))]
    let cpu = unsafe { libc::sched_getcpu() };
    cpu as u32 & CPU_MASK
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec for the whole call. Both clocks exist on every Linux that Rust
    // supports. If the call fails nevertheless, `time` keeps its zeros.
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
