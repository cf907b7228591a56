//! A pager between a long answer and a terminal: FDR_PAGER, PAGER, or `less -FRX`, which ends by itself where all fits.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

enum Pager {
    Disabled,
    /// Started with the first line.
    Enabled,
    Runs(Child, OwnedFd),
}

static PAGER: Mutex<Pager> = Mutex::new(Pager::Disabled);

/// An answer comes that may be long.
pub(crate) fn want() {
    let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    if io::stdout().is_terminal() && !dumb {
        *PAGER.lock().unwrap_or_else(PoisonError::into_inner) = Pager::Enabled;
    }
}

/// What the pager reads from; `None`: there is none.
pub(crate) fn input() -> Option<OwnedFd> {
    let mut pager = PAGER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Pager::Enabled = *pager {
        *pager = start().unwrap_or(Pager::Disabled);
    }
    match &*pager {
        Pager::Runs(_, input) => input.try_clone().ok(),
        Pager::Disabled | Pager::Enabled => None,
    }
}

/// Waits until the reader has seen enough.
pub(crate) fn end() {
    let mut pager = PAGER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Pager::Runs(mut child, input) = std::mem::replace(&mut *pager, Pager::Disabled) {
        drop(input);
        let _ = child.wait();
    }
}

/// The pager that the environment names, if any.
fn pager_command() -> Option<OsString> {
    ["FDR_PAGER", "PAGER"].into_iter().find_map(env::var_os)
}

fn start() -> Option<Pager> {
    let mut command = match pager_command() {
        Some(line) if line.is_empty() || line == "cat" => return None,
        Some(line) => {
            let mut command = Command::new("sh");
            command.arg("-c").arg(line);
            command
        }
        None => {
            let mut command = Command::new("less");
            command.arg("-FRX");
            command
        }
    };
    if env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
    let input = child.stdin.take()?;
    // ^C is for the pager, which then stops its current work and stays. So this process ignores SIGINT.
    let _ = flag::register(SIGINT, Arc::default());
    Some(Pager::Runs(child, input.into()))
}
