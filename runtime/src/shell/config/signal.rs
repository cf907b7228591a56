//! The signal that dumps, by name or number. Crashes have handlers of their own.

use fdr_formats::text;
use libc::{SIGRTMAX, SIGRTMIN, c_int};

/// The signals that a user may choose.
static USABLE: [(&str, c_int); 24] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("POLL", libc::SIGPOLL),
    ("PWR", libc::SIGPWR),
    ("CLD", libc::SIGCHLD),
];

/// The signals that no handler can get.
static UNHANDLED: [(&str, c_int); 2] = [("KILL", libc::SIGKILL), ("STOP", libc::SIGSTOP)];

/// Signals that mean a crash.
static CRASHES: [(&str, c_int); 8] = [
    ("SEGV", libc::SIGSEGV),
    ("BUS", libc::SIGBUS),
    ("ILL", libc::SIGILL),
    ("FPE", libc::SIGFPE),
    ("ABRT", libc::SIGABRT),
    ("IOT", libc::SIGABRT),
    ("TRAP", libc::SIGTRAP),
    ("SYS", libc::SIGSYS),
];

const ACCEPTED: &str =
    "accepted are a name such as USR2 or SIGUSR2, a number, RTMIN+n, RTMAX-n, or none";

/// The signal's number, or `None` for the word `none`.
pub(super) fn parse(text: &str) -> Result<Option<c_int>, String> {
    let text = text.to_ascii_uppercase();
    if text == "NONE" {
        return Ok(None);
    }
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number {
        signal_number(&text)
    } else {
        let name = text.strip_prefix("SIG").unwrap_or(&text);
        real_time(name).or_else(|| number_of(name))
    };
    let number = number.ok_or_else(|| format!("not a signal; {ACCEPTED}"))?;
    if let Some(name) = name_in(&UNHANDLED, number) {
        return Err(format!(
            "SIG{name} can't be handled by any program; {ACCEPTED}"
        ));
    }
    if let Some(name) = name_in(&CRASHES, number) {
        return Err(format!(
            "SIG{name} means a crash, which is recorded anyway; {ACCEPTED}"
        ));
    }
    let usable = name_in(&USABLE, number).is_some();
    if usable || (SIGRTMIN()..=SIGRTMAX()).contains(&number) {
        return Ok(Some(number));
    }
    Err(format!(
        "no signal that a program may use has this number; {ACCEPTED}"
    ))
}

fn signal_number(digits: &str) -> Option<c_int> {
    c_int::try_from(text::number(digits)?).ok()
}

/// `RTMIN`, `RTMIN+3`, `RTMAX`, `RTMAX-3`, within the range of this system.
fn real_time(name: &str) -> Option<c_int> {
    let distance = |text: &str, sign: char| match text.strip_prefix(sign) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => signal_number(digits),
        _ => text.is_empty().then_some(0),
    };
    let number = if let Some(rest) = name.strip_prefix("RTMIN") {
        SIGRTMIN().checked_add(distance(rest, '+')?)?
    } else {
        SIGRTMAX().checked_sub(distance(name.strip_prefix("RTMAX")?, '-')?)?
    };
    (SIGRTMIN()..=SIGRTMAX())
        .contains(&number)
        .then_some(number)
}

fn number_of(name: &str) -> Option<c_int> {
    let mut all = USABLE.iter().chain(&UNHANDLED).chain(&CRASHES);
    Some(all.find(|(known, _)| *known == name)?.1)
}

fn name_in(list: &[(&'static str, c_int)], number: c_int) -> Option<&'static str> {
    let found = list.iter().find(|(_, known)| *known == number)?;
    Some(found.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_every_form_and_numbers() {
        for text in ["USR2", "usr2", "SIGUSR2", "sigusr2", "SigUsr2"] {
            assert_eq!(parse(text), Ok(Some(libc::SIGUSR2)), "{text}");
        }
        assert_eq!(parse(&libc::SIGTERM.to_string()), Ok(Some(libc::SIGTERM)));
        assert_eq!(parse("none"), Ok(None));
        assert_eq!(parse("NONE"), Ok(None));
        for (name, number) in USABLE {
            assert_eq!(parse(name), Ok(Some(number)), "{name}");
            assert_eq!(parse(&number.to_string()), Ok(Some(number)), "{name}");
        }
    }

    #[test]
    fn real_time_signals_within_the_range() {
        assert_eq!(parse("RTMIN"), Ok(Some(SIGRTMIN())));
        assert_eq!(parse("sigrtmin+3"), Ok(Some(SIGRTMIN() + 3)));
        assert_eq!(parse("RTMAX-1"), Ok(Some(SIGRTMAX() - 1)));
        assert_eq!(parse(&SIGRTMAX().to_string()), Ok(Some(SIGRTMAX())));
        for text in [
            "RTMIN+99",
            "RTMAX-99",
            "RTMIN-1",
            "RTMAX+1",
            "RTMIN+",
            "RTMIN++1",
            "RTMIN+2147483647",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unfit_signals_are_refused() {
        for (list, reason) in [
            (&UNHANDLED[..], "can't be handled"),
            (&CRASHES[..], "means a crash"),
        ] {
            for (name, number) in list {
                assert!(parse(name).unwrap_err().contains(reason), "{name}");
                assert!(
                    parse(&number.to_string()).unwrap_err().contains(reason),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn refusals_of_nonsense_name_accepted_values() {
        // 32 and 33 are the C library's own.
        for text in [
            "",
            "SIG",
            "SIGSIGUSR2",
            "USR3",
            "0",
            "-10",
            "+10",
            "32",
            "65",
            "99999999999",
            "é",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(ACCEPTED), "{text}: {error}");
        }
    }
}
