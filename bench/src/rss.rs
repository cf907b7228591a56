//! Runs a command and prints its wall time, its CPU time, and the maximum of its memory. This program must not add to
//! the values that it measures.

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Runs the command, passes its output through, and prints one line on stderr at the end.
///
/// # Errors
///
/// If the command cannot be started or fails.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let since = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .status()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let seconds = since.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("{program}: {status}").into());
    }
    let usage = usage_of_children();
    let cpu = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    let peak_kib = usage.ru_maxrss;
    eprintln!("seconds={seconds:.4} cpu_seconds={cpu:.4} peak_kib={peak_kib}");
    Ok(ExitCode::SUCCESS)
}

fn seconds_of(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// Of all children that were waited for: their CPU time, and the largest resident set of any, in KiB.
fn usage_of_children() -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a rusage, of which every bit pattern is a value.
    unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    }
}
