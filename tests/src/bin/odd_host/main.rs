//! Does one of many things that few programs do: `odd_host WAY`. Its output and its end are the same each time, unless
//! other code in the process changes their causes. `odd_host list` prints all ways.

mod end_signals;
mod ends;
mod files;
mod kin;
mod limits;
mod rights;
mod signals;
mod threads;
mod values;

use std::env;
use std::io::{self, Write};

use fdr::traced;

/// A name, and what is done.
pub(crate) type NamedAction = (&'static str, fn());

/// By the file that they are in.
const WAYS: [(&str, &[NamedAction]); 9] = [
    ("end-signals", end_signals::WAYS),
    ("ends", ends::WAYS),
    ("files", files::WAYS),
    ("kin", kin::WAYS),
    ("limits", limits::WAYS),
    ("rights", rights::WAYS),
    ("signals", signals::WAYS),
    ("threads", threads::WAYS),
    ("values", values::WAYS),
];

#[traced]
pub(crate) fn leaf(number: u64) -> u64 {
    std::hint::black_box(number.wrapping_mul(0x9E37_79B9) >> 3)
}

#[traced(args, ret)]
fn pair(number: u64) -> u64 {
    leaf(number) + leaf(number + 1)
}

/// Calls of each kind, and an event; always the same sum.
#[traced]
pub(crate) fn work(count: u64) -> u64 {
    let sum = (0..count).map(pair).fold(0, u64::wrapping_add);
    fdr::event!("worked", count);
    sum
}

/// The sum of four threads.
pub(crate) fn crowd(count: u64) -> u64 {
    let all: Vec<_> = (0..4)
        .map(|number| std::thread::spawn(move || work(count + number)))
        .collect();
    let sums = all.into_iter().map(|thread| thread.join().expect("a sum"));
    sums.fold(0, u64::wrapping_add)
}

/// A line of output; whether anybody takes it is not this program's business.
pub(crate) fn say(line: impl std::fmt::Display) {
    let mut output = io::stdout();
    let _ = writeln!(output, "{line}");
    let _ = output.flush();
}

/// The result of a system call, and its error.
pub(crate) fn print_result(call: &str, result: impl Into<i64>) -> i64 {
    let (result, error) = (result.into(), io::Error::last_os_error());
    match result {
        -1 => say(format_args!("{call}: {error}")),
        _ => say(format_args!("{call}: done")),
    }
    result
}

/// Asks for a dump. Without the recorder the signal does nothing. A call comes before the signal, because the recorder
/// prints a line if there is nothing to dump.
pub(crate) fn request_dump() {
    work(1);
    // SAFETY: a plain system call on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGWINCH) };
}

fn main() {
    let wanted = env::args().nth(1).unwrap_or_default();
    let all = || {
        WAYS.iter()
            .flat_map(|(file, ways)| ways.iter().map(move |way| (file, way)))
    };
    if wanted == "list" {
        all().for_each(|(file, (name, _))| say(format_args!("{file} {name}")));
        return;
    }
    let known = all().find(|(_, (name, _))| *name == wanted);
    let (_, (_, way)) = known.unwrap_or_else(|| panic!("no such way: {wanted:?}"));
    way();
}
