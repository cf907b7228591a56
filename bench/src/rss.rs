//! Runs a command and tells what it took: wall time, and the most memory that it held at a time.
//! Must add nothing to what it measures.

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
    eprintln!("seconds={seconds:.4} peak_kib={}", peak_kib_of_children());
    Ok(ExitCode::SUCCESS)
}

/// The largest resident set of any child that was waited for, in KiB.
fn peak_kib_of_children() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a rusage, of which every bit pattern is a value.
    unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init().ru_maxrss
    }
}
