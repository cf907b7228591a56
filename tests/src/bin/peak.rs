//! Runs a command, and writes its exit code and the most memory that it had at a time to a file. `peak FILE COMMAND
//! [ARGUMENT…]` writes `CODE KIB`. A program of its own, because a child begins with the peak of the process that
//! starts it.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

fn main() {
    let mut words = std::env::args_os().skip(1);
    let (report, program) = (words.next(), words.next());
    let (report, program) = (report.expect("a file"), program.expect("a command"));
    let child = Command::new(program).args(words).spawn();
    let id = child.expect("the command can be started").id();
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: the child is ours and no other code waits for it. Both pointers are to locals.
    let waited = unsafe { libc::wait4(id.cast_signed(), &raw mut status, 0, usage.as_mut_ptr()) };
    assert_eq!(waited, id.cast_signed(), "the command can be waited for");
    // SAFETY: zeros are a value of it, and the kernel has filled it.
    let usage = unsafe { usage.assume_init() };
    let status = ExitStatus::from_raw(status);
    let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
    std::fs::write(report, format!("{code} {}\n", usage.ru_maxrss))
        .expect("the file can be written");
}
