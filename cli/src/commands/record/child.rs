//! Runs a command, passes signals on to it, and ends as it ended.
//!
//! The command is reaped only when no signal is passed on any more. Until then it is a zombie that keeps its number, so
//! no signal reaches another process.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::{Cause, Origin};

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Code(u8),
    Signal(i32),
}

/// Runs it to its end.
///
/// # Errors
/// Where it can't be started.
pub(super) fn run(mut command: Command) -> io::Result<End> {
    // Before the command starts: a signal in between is kept, and passed on.
    let mut signals =
        SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let handle = signals.handle();
    let mut child = command.spawn()?;
    let process = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for origin in signals.forever() {
                pass_on(&origin, process);
            }
        });
        let ended = await_end(process);
        handle.close();
        ended
    })?;
    let status = child.wait()?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code as u8),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => {
            return Err(io::Error::other(format!(
                "ended in an unknown way: {status}"
            )));
        }
    })
}

fn pass_on(origin: &Origin, process: Pid) {
    // The kernel sends signals such as a terminal's ^C to the whole group, so the command has got the signal already.
    if origin.cause == Cause::Kernel {
        return;
    }
    if let Ok(signal) = Signal::try_from(origin.signal) {
        // It may have ended just now: nothing to be done.
        let _ = kill(process, signal);
    }
}

/// Waits until the command has ended, and leaves it a zombie.
fn await_end(process: Pid) -> io::Result<()> {
    loop {
        match waitid(
            Id::Pid(process),
            WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT,
        ) {
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends this process by a signal, without a second core dump. Returns, with the exit code that a
/// shell would show, only where that signal does not end a process.
pub(super) fn end_by(signal: i32) -> u8 {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_CORE) {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, hard);
    }
    let _ = emulate_default_handler(signal);
    128_u8.saturating_add(signal as u8)
}
