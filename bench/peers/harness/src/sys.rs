//! Clocks of CPU time, and pinning. It decides nothing.

use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use crate::Result;

fn read(clock: ClockId) -> Result<u64> {
    let time = clock
        .now()
        .map_err(|error| format!("cannot read a clock: {error}"))?;
    Ok(Duration::from(time).as_nanos() as u64)
}

/// CPU time of the calling thread, in ns.
pub fn thread_cpu_ns() -> Result<u64> {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of this process, also of those that ended, in ns.
pub fn process_cpu_ns() -> Result<u64> {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of another process, in ns.
///
/// # Errors
///
/// If there is no such process.
pub fn cpu_ns_of(process: u32) -> Result<u64> {
    let clock = clock_getcpuclockid(Pid::from_raw(process.cast_signed()));
    read(clock.map_err(|error| format!("no clock of process {process}: {error}"))?)
}

/// The cores that this process may use.
pub fn cores() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0));
    let set = set.map_err(|error| format!("cannot list cores: {error}"))?;
    let allowed = |&core: &usize| set.is_set(core).unwrap_or(false);
    Ok((0..CpuSet::count()).filter(allowed).collect())
}

/// Lets the calling thread, and those that it will start, run on one core alone.
pub fn pin(core: usize) -> Result<()> {
    pin_thread(0, core)
}

/// The same for every thread that this process has now.
pub fn pin_all(core: usize) -> Result<()> {
    let folder = "/proc/self/task";
    let bad = |error| format!("{folder}: {error}");
    for entry in std::fs::read_dir(folder).map_err(bad)? {
        let name = entry.map_err(bad)?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok());
        // A recorder's thread may have ended meanwhile.
        let _ = thread.map(|thread| pin_thread(thread, core));
    }
    pin(core)
}

/// `thread`: its id; 0: the calling one.
fn pin_thread(thread: i32, core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(thread), &set))
        .map_err(|error| format!("cannot pin a thread to core {core}: {error}"))
}
