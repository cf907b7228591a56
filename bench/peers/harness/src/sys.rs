//! Clocks of CPU time, and pinning: all calls into libc. It decides nothing.

use std::io::Error;

use crate::Result;

fn read(clock: libc::clockid_t) -> Result<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(format!("cannot read a clock: {}", Error::last_os_error()));
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CPU time of the calling thread, in ns.
pub fn thread_cpu_ns() -> Result<u64> {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of this process, also of those that ended, in ns.
pub fn process_cpu_ns() -> Result<u64> {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of another process, in ns.
///
/// # Errors
///
/// If there is no such process.
pub fn cpu_ns_of(process: u32) -> Result<u64> {
    let mut clock = 0;
    // SAFETY: `clock` is a valid place for the result.
    let error = unsafe { libc::clock_getcpuclockid(process.cast_signed(), &mut clock) };
    if error != 0 {
        let error = Error::from_raw_os_error(error);
        return Err(format!("no clock of process {process}: {error}"));
    }
    read(clock)
}

/// The cores that this process may use.
pub fn cores() -> Result<Vec<usize>> {
    // SAFETY: every bit pattern is a set of cores, and the size is that of the set.
    let (result, set) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let result = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (result, set)
    };
    if result != 0 {
        return Err(format!("cannot list cores: {}", Error::last_os_error()));
    }
    // SAFETY: the core is below the number of bits of the set.
    let allowed = |&core: &usize| unsafe { libc::CPU_ISSET(core, &set) };
    Ok((0..8 * size_of::<libc::cpu_set_t>())
        .filter(allowed)
        .collect())
}

/// Lets the calling thread, and those that it will start, run on one core alone.
pub fn pin(core: usize) -> Result<()> {
    pin_thread(0, core)
}

/// The same for every thread that this process has now.
pub fn pin_all(core: usize) -> Result<()> {
    let folder = "/proc/self/task";
    let bad = |error: Error| format!("{folder}: {error}");
    for entry in std::fs::read_dir(folder).map_err(bad)? {
        let name = entry.map_err(bad)?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok());
        // A recorder's thread may have ended meanwhile.
        let _ = thread.map(|thread| pin_thread(thread, core));
    }
    pin(core)
}

/// `thread`: its id; 0: the calling one.
fn pin_thread(thread: libc::pid_t, core: usize) -> Result<()> {
    // SAFETY: every bit pattern is a set of cores, the core comes from such a set, and the size is right.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &set)
    };
    if result != 0 {
        let error = Error::last_os_error();
        return Err(format!("cannot pin a thread to core {core}: {error}"));
    }
    Ok(())
}
