//! The signal that dumps, by name or number. Crashes have handlers of their own.

use fdr_formats::text;
use libc::{SIGRTMAX, SIGRTMIN, c_int};

/// Signals: their names with a space between them, and their numbers in the same order. Pairs would need a relocation for
/// each name, in each traced program.
struct Signals<const N: usize> {
    names: &'static str,
    numbers: [c_int; N],
}

impl<const N: usize> Signals<N> {
    fn list(&self) -> (&'static str, &[c_int]) {
        (self.names, &self.numbers)
    }
}

/// The signals that a user may choose.
static USABLE: Signals<24> = Signals {
    names: "HUP INT QUIT USR1 USR2 PIPE ALRM TERM STKFLT CHLD CONT TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO POLL PWR CLD",
    numbers: [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGTERM,
        libc::SIGSTKFLT,
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGWINCH,
        libc::SIGIO,
        libc::SIGPOLL,
        libc::SIGPWR,
        libc::SIGCHLD,
    ],
};

/// The signals that no handler can get.
static UNHANDLED: Signals<2> = Signals {
    names: "KILL STOP",
    numbers: [libc::SIGKILL, libc::SIGSTOP],
};

/// Signals that mean a crash.
static CRASHES: Signals<8> = Signals {
    names: "SEGV BUS ILL FPE ABRT IOT TRAP SYS",
    numbers: [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGABRT,
        libc::SIGABRT,
        libc::SIGTRAP,
        libc::SIGSYS,
    ],
};

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
    if let Some(name) = name_in(UNHANDLED.list(), number) {
        return Err(format!(
            "SIG{name} can't be handled by any program; {ACCEPTED}"
        ));
    }
    if let Some(name) = name_in(CRASHES.list(), number) {
        return Err(format!(
            "SIG{name} means a crash, which is recorded anyway; {ACCEPTED}"
        ));
    }
    let usable = name_in(USABLE.list(), number).is_some();
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
    let all = [USABLE.list(), UNHANDLED.list(), CRASHES.list()];
    all.into_iter().find_map(|(names, numbers)| {
        let place = text::parts(names, b' ').position(|known| known == name)?;
        numbers.get(place).copied()
    })
}

fn name_in((names, numbers): (&'static str, &[c_int]), number: c_int) -> Option<&'static str> {
    let place = numbers.iter().position(|known| *known == number)?;
    text::parts(names, b' ').nth(place)
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
        let (names, numbers) = USABLE.list();
        assert_eq!(text::parts(names, b' ').count(), numbers.len());
        for (name, &number) in text::parts(names, b' ').zip(numbers) {
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
            (UNHANDLED.list(), "can't be handled"),
            (CRASHES.list(), "means a crash"),
        ] {
            let (names, numbers) = list;
            assert_eq!(text::parts(names, b' ').count(), numbers.len());
            for (name, number) in text::parts(names, b' ').zip(numbers) {
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
