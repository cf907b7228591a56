//! What ended a recording, for the banner of the page: a panic, a crash, a signal or a trigger. Other reasons, such as
//! the program's exit, have no banner. `kind` is one of those four words.

use serde::Serialize;

use super::viewed::ViewedTrace;
use crate::{selection, trace};

/// What ended the recording.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Ending {
    kind: &'static str,
    /// The place of the thread in the list of threads. `None`: no thread is named, or the trace does not have it.
    thread: Option<usize>,
    /// The signal, the trigger with its event, or the message of the panic.
    what: String,
    /// File, line and column of a panic.
    place: String,
    /// The call that a trigger found too slow: its function, and when it began and ended, on the axis of the page.
    call: Option<(String, f64, f64)>,
}

impl Ending {
    /// Of a trace. `None`: it ended as programs usually do, or does not say.
    pub(super) fn new(viewed: &ViewedTrace) -> Option<Ending> {
        let info = viewed.info();
        let (kind, what, place) = parts(&info.reason)?;
        let thread = info.thread_of_reason();
        Some(Ending {
            kind,
            thread: thread.and_then(|id| info.threads.iter().position(|known| known.id == id)),
            what: match kind {
                "trigger" => trace::reason(info).into_owned(),
                _ => what.to_owned(),
            },
            place: place.to_owned(),
            call: slow_call(viewed),
        })
    }

    /// Without words of the program: the message of a panic may have any of its values.
    pub(super) fn forget_texts(&mut self) {
        self.place.clear();
        match self.kind {
            // The signal, without an address.
            "crash" | "signal" => {
                let signal = self.what.split(" at ").next().unwrap_or_default().len();
                self.what.truncate(signal);
            }
            _ => self.what.clear(),
        }
    }
}

/// Kind, words and place of a reason.
fn parts(reason: &str) -> Option<(&'static str, &str, &str)> {
    if let Some(panic) = reason.strip_prefix("panic in thread ") {
        // `71 (worker) at src/main.rs:7:5: index out of bounds`; without a place, the message follows the name.
        let at = panic.find(") at ").map(|at| at + 5);
        let placeless = panic.find("): ").map(|at| at + 1);
        return Some(match (at, placeless) {
            (Some(at), placeless) if placeless.is_none_or(|before| at < before) => {
                let (place, what) = panic[at..].split_once(": ").unwrap_or((&panic[at..], ""));
                ("panic", what, place)
            }
            (_, Some(before)) => ("panic", panic[before..].trim_start_matches(": "), ""),
            (_, None) => ("panic", "", ""),
        });
    }
    if let Some(crash) = reason.strip_prefix("crash: ") {
        let signal = crash.split(" in thread ").next().unwrap_or(crash);
        return Some(("crash", signal, ""));
    }
    match reason {
        "SIGINT" | "SIGTERM" | "killed" => Some(("signal", reason, "")),
        "panic" | "crash" => Some((if reason == "panic" { "panic" } else { "crash" }, "", "")),
        _ if reason.starts_with("trigger ") => Some(("trigger", reason, "")),
        _ => None,
    }
}

/// The call that a trigger found too slow.
fn slow_call(viewed: &ViewedTrace) -> Option<(String, f64, f64)> {
    let info = viewed.info();
    let call = info.trigger()?.call().filter(|call| call.task.is_none())?;
    let (anchor, unix) = info.clock.anchor?;
    let since = i128::from(call.begin_unix_ns) - i128::from(unix);
    let begin = i128::from(info.clock.nanos(anchor).0) + since;
    let tick = |ns: i128| viewed.relative(selection::first_tick(ns, &info.clock).0);
    let end = begin + i128::from(call.took_ns);
    Some((call.function.to_owned(), tick(begin), tick(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_kind_words_and_place() {
        for (reason, wanted) in [
            (
                "panic in thread 71 (worker) at src/main.rs:7:5: index: 3) at x: y",
                Some(("panic", "index: 3) at x: y", "src/main.rs:7:5")),
            ),
            (
                "panic in thread 71 (worker): no place) at all",
                Some(("panic", "no place) at all", "")),
            ),
            ("panic", Some(("panic", "", ""))),
            (
                "crash: SIGSEGV at 0x10 in thread 71",
                Some(("crash", "SIGSEGV at 0x10", "")),
            ),
            ("SIGTERM", Some(("signal", "SIGTERM", ""))),
            (
                "trigger every 10m",
                Some(("trigger", "trigger every 10m", "")),
            ),
            ("exit", None),
            ("signal", None),
            ("", None),
        ] {
            assert_eq!(parts(reason), wanted, "{reason}");
        }
    }

    #[test]
    fn given_away_endings_have_no_values() {
        for (kind, what, wanted) in [
            ("panic", "secret", ""),
            ("crash", "SIGSEGV at 0x10", "SIGSEGV"),
            ("signal", "SIGTERM", "SIGTERM"),
            ("trigger", "trigger every 10m", ""),
        ] {
            let mut ending = Ending {
                kind,
                what: what.to_owned(),
                place: "src/main.rs:7:5".to_owned(),
                ..Ending::default()
            };
            ending.forget_texts();
            assert_eq!((&*ending.what, &*ending.place), (wanted, ""));
        }
    }
}
