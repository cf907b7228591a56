//! The reason of a trace that a trigger made: how the recorder writes it, and how tools read it.

use std::fmt;

use crate::utc::Utc;
use crate::{text::number, utc};

use super::Event;

/// Why a trigger made a trace. Its text is the trace's reason: see [`Reason::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason<'a> {
    /// The trigger, as the user gave it.
    pub trigger: &'a str,
    /// The event that fired the trigger.
    pub occurrence: Occurrence<'a>,
}

/// An event that fired a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence<'a> {
    /// A call took too long.
    Call(SlowCall<'a>),
    /// Anything else, in words; empty if the trigger alone explains the trace.
    Other(&'a str),
}

/// A call that took too long, or a task of an `async fn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowCall<'a> {
    /// Its function.
    pub function: &'a str,
    /// The id of the task. `None`: it is a call.
    pub task: Option<u64>,
    /// How long it took, or has taken, in ns.
    pub took_ns: u64,
    /// How it ended.
    pub end: CallEnd,
    /// The kernel's id of its thread. Of a task: the thread of its last poll.
    pub thread: u64,
    /// The name of the thread.
    pub thread_name: &'a str,
    /// When it began, in ns since 1970.
    pub begin_unix_ns: u64,
}

/// How a call or a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It returned.
    Returned,
    /// The future of the task was dropped.
    Dropped,
    /// It has not ended.
    Open,
}

impl CallEnd {
    /// All of them.
    const ALL: [CallEnd; 3] = [CallEnd::Open, CallEnd::Dropped, CallEnd::Returned];

    /// The words between the call and its time.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            CallEnd::Returned => "took",
            CallEnd::Dropped => "was dropped after",
            CallEnd::Open => "has not returned after",
        }
    }
}

/// Stands before the id of a task.
const TASK: &str = "task ";
/// Stands between the id of a task and its function.
const OF: &str = " of ";
const IN_THREAD: &str = " ms in thread ";
const BEGUN: &str = "), begun at ";

/// In ns.
const SECOND: u64 = 1_000_000_000;

/// `trigger my_app::handle>50ms: my_app::handle took 81.204311 ms in thread 71 (worker), begun at
/// 2025-11-24T12:00:00.123456789Z`.
impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trigger {}", self.trigger)?;
        match self.occurrence {
            Occurrence::Other("") => Ok(()),
            Occurrence::Other(words) => write!(f, ": {words}"),
            Occurrence::Call(call) => {
                f.write_str(": ")?;
                if let Some(task) = call.task {
                    write!(f, "{TASK}{task}{OF}")?;
                }
                let (function, verb) = (call.function, call.end.verb());
                let (ms, ns) = (call.took_ns / 1_000_000, call.took_ns % 1_000_000);
                let (s, of_second) = (call.begin_unix_ns / SECOND, call.begin_unix_ns % SECOND);
                let (thread, name, begun) = (call.thread, call.thread_name, Utc::from_unix(s));
                write!(
                    f,
                    "{function} {verb} {ms}.{ns:06}{IN_THREAD}{thread} ({name}{BEGUN}{begun}.{of_second:09}Z"
                )
            }
        }
    }
}

impl<'a> Reason<'a> {
    /// Reads the reason of a trace. `None`: no trigger made the trace.
    ///
    /// # Examples
    /// ```
    /// use fdr_formats::trigger::{Occurrence, Reason};
    ///
    /// let reason = Reason::parse("trigger every 10m").expect("a trigger");
    /// assert_eq!((reason.trigger, reason.occurrence), ("every 10m", Occurrence::Other("")));
    /// assert!(Reason::parse("exit").is_none());
    /// ```
    #[must_use]
    pub fn parse(reason: &'a str) -> Option<Reason<'a>> {
        let words = reason.strip_prefix("trigger ")?;
        let (trigger, occurrence) = words.split_once(": ").unwrap_or((words, ""));
        let occurrence =
            SlowCall::parse(occurrence).map_or(Occurrence::Other(occurrence), Occurrence::Call);
        Some(Reason {
            trigger,
            occurrence,
        })
    }

    /// The call that took too long, if that was it.
    #[must_use]
    pub fn call(&self) -> Option<SlowCall<'a>> {
        match self.occurrence {
            Occurrence::Call(call) => Some(call),
            Occurrence::Other(_) => None,
        }
    }

    /// The time that the call should not take longer than, in ns.
    #[must_use]
    pub fn threshold_ns(&self) -> Option<u64> {
        let trigger = super::one(self.trigger).ok()?;
        match trigger.event {
            Event::Call(_, limit) => u64::try_from(limit.as_nanos()).ok(),
            _ => None,
        }
    }
}

impl<'a> SlowCall<'a> {
    fn parse(words: &'a str) -> Option<SlowCall<'a>> {
        let parts = |end: CallEnd| {
            let verb = format!(" {} ", end.verb());
            Some((end, words.split_once(&verb)?))
        };
        let (end, (what, rest)) = CallEnd::ALL.into_iter().find_map(parts)?;
        let task = SlowCall::task(what);
        let function = task.map_or(what, |(_, function)| function);
        let (took, rest) = rest.split_once(IN_THREAD)?;
        let (thread, rest) = rest.split_once(" (")?;
        let (thread_name, begun) = rest.rsplit_once(BEGUN)?;
        Some(SlowCall {
            function,
            task: task.map(|(task, _)| task),
            took_ns: fixed(took, 6)?,
            end,
            thread: thread.parse().ok()?,
            thread_name,
            begin_unix_ns: unix_ns(begun)?,
        })
    }
}

impl SlowCall<'_> {
    /// The id of a task and its function.
    fn task(what: &str) -> Option<(u64, &str)> {
        let (task, function) = what.strip_prefix(TASK)?.split_once(OF)?;
        Some((number(task)?, function))
    }
}

/// A moment as it is written above.
fn unix_ns(text: &str) -> Option<u64> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(number);
    let mut next = || numbers.next().flatten();
    let mut time = utc::days(next()?, next()?, next()?)?;
    for in_unit_before in [24, 60, 60, SECOND] {
        time = time.checked_mul(in_unit_before)?.checked_add(next()?)?;
    }
    // The text must be the one that would be written: no hour 24, and no number without its zeros.
    let written = format!("{}.{:09}Z", Utc::from_unix(time / SECOND), time % SECOND);
    (written == text).then_some(time)
}

/// Parses a number with `digits` digits behind the point. The result does not have the point.
fn fixed(text: &str, digits: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = part.len() == digits && are_digits(whole) && are_digits(part);
    fits.then(|| format!("{whole}{part}").parse().ok())?
}

#[cfg(all(test, feature = "read"))]
mod tests {
    use super::*;

    #[test]
    fn a_reason_typed_by_hand() {
        let text = "trigger a::*>50ms +2s: <a::B as C>::d took 81.204311 ms in thread 71 (x in thread 1 (), begun at \
                    2025-11-24T12:00:00.123456789Z";
        let reason = Reason::parse(text).expect("a reason");
        let call = SlowCall {
            function: "<a::B as C>::d",
            task: None,
            took_ns: 81_204_311,
            end: CallEnd::Returned,
            thread: 71,
            thread_name: "x in thread 1 (",
            begin_unix_ns: 1_763_985_600_123_456_789,
        };
        assert_eq!(
            (reason.trigger, reason.call()),
            ("a::*>50ms +2s", Some(call))
        );
        assert_eq!(reason.threshold_ns(), Some(50_000_000));
        assert_eq!(reason.to_string(), text);
        let open = Reason {
            occurrence: Occurrence::Call(SlowCall {
                end: CallEnd::Open,
                took_ns: 7,
                ..call
            }),
            ..reason
        };
        let text = open.to_string();
        assert!(
            text.contains("d has not returned after 0.000007 ms in"),
            "{text}"
        );
        assert_eq!(Reason::parse(&text), Some(open));
        let task = Reason {
            occurrence: Occurrence::Call(SlowCall {
                task: Some(1025),
                end: CallEnd::Dropped,
                ..call
            }),
            ..reason
        };
        let text = task.to_string();
        assert!(
            text.contains(": task 1025 of <a::B as C>::d was dropped after 81.204311 ms in"),
            "{text}"
        );
        assert_eq!(Reason::parse(&text), Some(task));
    }

    #[test]
    fn other_reasons() {
        let rss = "trigger rss>2G: 2147995648 bytes are in memory";
        let reason = Reason::parse(rss).expect("a reason");
        assert_eq!(
            reason.occurrence,
            Occurrence::Other("2147995648 bytes are in memory")
        );
        assert_eq!((reason.call(), reason.threshold_ns()), (None, None));
        assert_eq!(reason.to_string(), rss);
        for text in [
            "",
            "exit",
            "panic in thread 7 (x): trigger a>1ms",
            "trigger",
        ] {
            assert_eq!(Reason::parse(text), None, "{text}");
        }
        // Damaged ones are words.
        for text in [
            "trigger a>1ms: a took 1 ms in thread 7 (x), begun at 2025-11-24T12:00:00.000000000Z",
            "trigger a>1ms: a took 1.000000 ms in thread x (x), begun at 2025-11-24T12:00:00.000000000Z",
            "trigger a>1ms: a took 1.000000 ms in thread 7 (x), begun at 2025-11-24T12:00:00.0Z",
            "trigger a>1ms: a took 1.000000 ms in thread 7 (x), begun at 2025-11-31T12:00:00.000000000Z",
            "trigger a>1ms: a took 1.000000 ms in thread 7 (x), begun at 2025-11-24T24:00:00.000000000Z",
            "trigger a>1ms: a took 1.000000 ms in thread 7 (x), begun at 2025-11-24T18446744073709551615:00:00.000000000Z",
            "trigger a>1ms: a took 1.000000 ms in thread 7 (x), begun at 9999-11-24T12:00:00.000000000Z",
            "trigger a>1ms: a took 99999999999999999999.000000 ms in thread 7 (x), begun at 2025-11-24T12:00:00.000000000Z",
        ] {
            let reason = Reason::parse(text).expect("a reason");
            assert_eq!(reason.call(), None, "{text}");
        }
    }
}
