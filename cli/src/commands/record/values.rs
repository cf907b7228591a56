//! The values that a recorder would refuse are refused before anything runs. The rules of filters and addresses are the
//! recorder's own, in `fdr_formats`. Those of sizes, signals and names of files are written a second time here, because
//! this tool does not contain the recorder. A change belongs in both places.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fdr_formats::duration;
use fdr_formats::filter::Filter;
use fdr_formats::identity;
use fdr_formats::share;
use fdr_formats::trigger;
use nix::libc;
use nix::sys::signal::Signal;

use crate::ui;

/// Bytes of a chunk. A ring has a whole number of chunks, and at least two.
const CHUNK: u64 = 64 << 10;
/// Bytes of all rings together, if no option says how many.
const DEFAULT_MEMORY: u64 = 1 << 30;

/// Signals that no handler can receive, and signals of crashes.
const UNFIT: [Signal; 9] = [
    Signal::SIGKILL,
    Signal::SIGSTOP,
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGABRT,
    Signal::SIGTRAP,
    Signal::SIGSYS,
];

/// Whether a filter switches recording off.
///
/// # Errors
/// What is wrong with it.
pub(super) fn is_off(filter: &OsStr) -> Result<bool, String> {
    let filter = filter.to_str().ok_or("not UTF-8")?;
    Ok(filter.is_empty() || Filter::parse(filter)?.is_off())
}

/// Checks `--buffer` and `--memory`, each alone and against each other.
///
/// # Errors
/// Which option is wrong, and how.
pub(super) fn check_sizes(buffer: Option<&OsStr>, memory: Option<&OsStr>) -> Result<(), String> {
    let size = |text: &OsStr| ui::size_of(text.to_str().unwrap_or("not UTF-8"));
    let ring = |name: &str, text: Option<&OsStr>| match text.map(size) {
        None => Ok(None),
        Some(Ok(bytes)) if bytes >= 2 * CHUNK => Ok(Some(bytes)),
        Some(Ok(_)) => Err(format!("{name}: too small; the least is 128K")),
        Some(Err(what)) => Err(format!("{name}: {what}")),
    };
    let buffer = ring("--buffer", buffer)?;
    let memory = ring("--memory", memory)?.unwrap_or(DEFAULT_MEMORY) / CHUNK * CHUNK;
    let whole = buffer.map(|bytes| bytes.next_multiple_of(CHUNK));
    if whole.is_some_and(|buffer| buffer > memory) {
        let most = ui::size(memory);
        return Err(format!(
            "--buffer: a ring exceeds the memory for all, {most} (--memory)"
        ));
    }
    Ok(())
}

/// Checks a time.
///
/// # Errors
/// What is accepted.
pub(super) fn check_time(text: &OsStr) -> Result<(), String> {
    duration::parse(text.to_str().unwrap_or("not UTF-8")).map(|_| ())
}

/// Checks a share.
///
/// # Errors
/// What is accepted.
pub(super) fn check_share(text: &OsStr) -> Result<(), String> {
    share::parse(text.to_str().unwrap_or("not UTF-8")).map(|_| ())
}

/// Checks triggers.
///
/// # Errors
/// What is wrong with them.
pub(super) fn check_triggers(text: &OsStr) -> Result<(), String> {
    trigger::parse(text.to_str().ok_or("not UTF-8")?).map(|_| ())
}

/// Checks how many traces of triggers are left.
///
/// # Errors
/// What is accepted.
pub(super) fn check_out_most(text: &OsStr) -> Result<(), String> {
    trigger::parse_out_most(text.to_str().ok_or("not UTF-8")?).map(|_| ())
}

/// Checks tags.
///
/// # Errors
/// What is wrong with them.
pub(super) fn check_tags(text: &OsStr) -> Result<(), String> {
    identity::parse_tags(text.to_str().ok_or("not UTF-8")?).map(|_| ())
}

/// Checks the name or number of a signal.
///
/// # Errors
/// What is accepted.
pub(super) fn check_signal(text: &OsStr) -> Result<(), String> {
    let text = text
        .to_str()
        .unwrap_or_default()
        .trim()
        .to_ascii_uppercase();
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    let known = match name {
        "POLL" => Some(libc::SIGIO),
        "CLD" => Some(libc::SIGCHLD),
        name => format!("SIG{name}")
            .parse()
            .ok()
            .map(|signal: Signal| signal as i32),
    };
    let number = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => known.or_else(|| real_time(name)),
    };
    let fit = |number: i32| match Signal::try_from(number) {
        Ok(signal) => !UNFIT.contains(&signal),
        Err(_) => (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number),
    };
    if text == "NONE" || number.is_some_and(fit) {
        return Ok(());
    }
    Err(
        "not a signal that can dump; accepted are a name such as USR2 or SIGUSR2, a number, \
         RTMIN+n, RTMAX-n, or none"
            .into(),
    )
}

/// `RTMIN+3` and `RTMAX-3`; the caller checks the range.
fn real_time(name: &str) -> Option<i32> {
    let distance = |text: &str, sign: char| match text.strip_prefix(sign) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        _ => text.is_empty().then_some(0),
    };
    if let Some(rest) = name.strip_prefix("RTMIN") {
        return libc::SIGRTMIN().checked_add(distance(rest, '+')?);
    }
    libc::SIGRTMAX().checked_sub(distance(name.strip_prefix("RTMAX")?, '-')?)
}

/// Checks the `%` of a path for traces.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_pattern(pattern: &OsStr) -> Result<(), String> {
    let pattern = pattern.as_bytes();
    let folder = pattern.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    let mut bytes = pattern.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        if byte != b'%' {
            continue;
        }
        let known = "known are %e (program), %p (process), %n (number of the dump), %t (time), %%";
        match bytes.next() {
            Some((_, b'%' | b'e' | b'p')) => {}
            Some((_, b'n' | b't')) if at >= folder => {}
            Some((_, b'n' | b't')) => {
                return Err("%n and %t can't be in a folder's name, only in the file's".into());
            }
            Some((_, other)) => return Err(format!("unknown %{}; {known}", other.escape_ascii())),
            None => return Err(format!("it ends with a single %; {known}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_filters_differ_from_invalid_filters() {
        for off in ["", "off", "0", " off ", "No"] {
            assert_eq!(is_off(OsStr::new(off)), Ok(true), "{off:?}");
        }
        for on in ["1", "on", "*", "a::*,-a::b", "-a", "offset"] {
            assert_eq!(is_off(OsStr::new(on)), Ok(false), "{on:?}");
        }
        for bad in [",", " ", "a,-", "off,a", "-off", "a,0"] {
            assert!(is_off(OsStr::new(bad)).is_err(), "{bad:?}");
        }
        assert!(is_off(OsStr::from_bytes(b"\xff")).is_err());
    }

    #[test]
    fn sizes() {
        let check = |buffer: &str, memory: Option<&str>| {
            check_sizes(Some(OsStr::new(buffer)), memory.map(OsStr::new))
        };
        for good in ["131072", "128K", "4M", " 4m ", "1G"] {
            assert_eq!(check(good, None), Ok(()), "{good}");
        }
        for bad in [
            "",
            "K",
            "4X",
            "4MB",
            "-4M",
            "+4M",
            "4.5M",
            "é",
            "127K",
            "17179869184G",
        ] {
            let error = check(bad, None).unwrap_err();
            assert!(error.starts_with("--buffer: "), "{error}");
        }
        assert!(check("2G", None).unwrap_err().contains("1.0 GiB"));
        assert_eq!(check("2G", Some("2G")), Ok(()));
        assert!(check("200K", Some("200K")).is_err(), "4 chunks in 3");
        assert!(
            check("1M", Some("x"))
                .unwrap_err()
                .starts_with("--memory: ")
        );
    }

    #[test]
    fn signals() {
        for good in [
            "USR2", "sigusr1", "none", "10", "POLL", "RTMIN", "rtmin+3", "RTMAX-1", "64",
        ] {
            assert_eq!(check_signal(OsStr::new(good)), Ok(()), "{good}");
        }
        for bad in [
            "",
            "KILL",
            "9",
            "SEGV",
            "SIGSIGUSR2",
            "USR3",
            "0",
            "32",
            "65",
            "RTMIN+99",
            "-1",
        ] {
            assert!(check_signal(OsStr::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn patterns() {
        for good in ["x", "traces/", "%e/%p.%n.%t.fdr", "100%%", "/a%%b/%n"] {
            assert_eq!(check_pattern(OsStr::new(good)), Ok(()), "{good}");
        }
        for (bad, what) in [
            ("%q", "unknown %q"),
            ("x%", "single %"),
            ("%n/x", "folder"),
            ("a/%t/x", "folder"),
            ("%n/", "folder"),
        ] {
            let error = check_pattern(OsStr::new(bad)).unwrap_err();
            assert!(error.contains(what), "{bad}: {error}");
        }
    }
}
