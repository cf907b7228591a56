//! Triggers: what makes a recorder dump by itself. This file has the words of `FDR_TRIGGER` and `FDR_OUT_MOST`, and
//! `reason` has the reason of a trace that a trigger made.

mod reason;

use std::time::Duration;

use crate::filter::Filter;
use crate::text::{self, owned};
use crate::{duration, size};

pub use reason::{CallEnd, Occurrence, Reason, SlowCall};

/// How many triggers a program has at most.
pub const MAX_TRIGGERS: usize = 32;
/// The most bytes of one trigger's text.
pub const MAX_BYTES: usize = 200;
/// The minimum time between two dumps of a trigger without a limit of its own.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(10);
/// The shortest period of `every`.
pub const MIN_PERIOD: Duration = Duration::from_millis(100);

/// The words that a trigger is made of.
pub const GRAMMAR: &str = "accepted are off, or a list of my_app::function>50ms (globs too), panic, exit, int, term, \
                           signal, rss>2G and every 10m; behind each but exit, int and term, +2s is a post-roll, and \
                           /1m allows one dump in a minute";

/// One trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// As the user gave it, with single spaces.
    pub text: String,
    /// The event that it waits for.
    pub event: Event,
    /// The time from the event to the dump.
    pub post_roll: Duration,
    /// The least time from one dump of the trigger to its next one.
    pub limit: Duration,
}

/// An event that a trigger waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call of a function that the filter names takes longer than this duration.
    Call(Filter, Duration),
    /// More than this many bytes of the process are in memory.
    Resident(u64),
    /// This much time has passed.
    Every(Duration),
    /// A panic.
    Panic,
    /// The end of the process by itself.
    Exit,
    /// Its end by SIGINT, which Ctrl-C sends.
    Interrupt,
    /// Its end by SIGTERM.
    Terminate,
    /// The dump signal.
    Signal,
}

impl Event {
    /// Whether it is an end of the process.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Event::Exit | Event::Interrupt | Event::Terminate)
    }
}

/// Parses the text of `FDR_TRIGGER`: triggers with commas between. `off` stands for none.
///
/// # Errors
/// One line with the part that is wrong and [`GRAMMAR`].
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use fdr_formats::trigger::{Event, parse};
///
/// let triggers = parse("my_app::handle>50ms +2s, exit")?;
/// assert!(matches!(triggers[0].event, Event::Call(_, limit) if limit == Duration::from_millis(50)));
/// assert_eq!(triggers[0].post_roll, Duration::from_secs(2));
/// assert!(parse("my_app::handle").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn parse(text: &str) -> Result<Vec<Trigger>, String> {
    if Filter::means_off(text) {
        return Ok(Vec::new());
    }
    let mut triggers = Vec::new();
    let parts = text::parts(text, b',').map(text::trimmed);
    for part in parts.filter(|part| !part.is_empty()) {
        let shown = text::clean(text::cut(part, MAX_BYTES));
        triggers.push(one(part).map_err(|what| format!("`{shown}`: {what}; {GRAMMAR}"))?);
    }
    match triggers.len() {
        0 => Err(format!("no trigger; {GRAMMAR}")),
        1..=MAX_TRIGGERS => Ok(triggers),
        _ => Err(format!("too many triggers; {MAX_TRIGGERS} are the most")),
    }
}

fn one(part: &str) -> Result<Trigger, String> {
    if part.len() > MAX_BYTES {
        return Err(format!("too long; {MAX_BYTES} bytes are the most"));
    }
    if part.contains(text::is_unsafe) {
        return Err(owned(
            "it has a line break, or another character that can't be shown",
        ));
    }
    // Names of functions may contain `>`, `+` and spaces. The text behind the last `>` is not part of the name.
    let (name, rest) = match part.rsplit_once('>') {
        Some((name, rest)) => (Some(text::trimmed(name)), rest),
        None => (None, part),
    };
    let options_at = rest.find(['+', '/']).unwrap_or(rest.len());
    let (value, mut options) = rest.split_at_checked(options_at).unwrap_or((rest, ""));
    let value = text::trimmed(value);
    let (mut post_roll, mut limit) = (None, None);
    while let Some(sign) = options.chars().next() {
        let behind = options.get(1..).unwrap_or_default();
        let end = behind.find(['+', '/']).unwrap_or(behind.len());
        let (time, others) = behind.split_at_checked(end).unwrap_or((behind, ""));
        let to = if sign == '+' {
            &mut post_roll
        } else {
            &mut limit
        };
        if to.replace(duration::parse(text::trimmed(time))?).is_some() {
            return Err(format!("{sign} stands there twice"));
        }
        options = others;
    }
    let event = event(name, value)?;
    let default_limit = match event {
        ref end if end.is_end() && post_roll.or(limit).is_some() => {
            return Err(owned("nothing comes behind the end"));
        }
        Event::Every(_) if limit.is_some() => return Err(owned("its period is its limit")),
        Event::Signal | Event::Every(_) => Duration::ZERO,
        ref end if end.is_end() => Duration::ZERO,
        _ => DEFAULT_LIMIT,
    };
    let mut text = String::new();
    for word in part.split_ascii_whitespace() {
        text::append(&mut text, " ", word);
    }
    Ok(Trigger {
        text,
        event,
        post_roll: post_roll.unwrap_or_default(),
        limit: limit.unwrap_or(default_limit),
    })
}

fn event(name: Option<&str>, value: &str) -> Result<Event, String> {
    if let Some(name) = name {
        return Ok(match name {
            "" => return Err(owned("no function stands before the >")),
            "rss" => Event::Resident(size::parse(value)?),
            glob => {
                if glob.starts_with('-') {
                    return Err(owned("a trigger can't exclude functions"));
                }
                Event::Call(Filter::parse(glob)?, duration::parse(value)?)
            }
        });
    }
    match value {
        "panic" => return Ok(Event::Panic),
        "exit" => return Ok(Event::Exit),
        "int" => return Ok(Event::Interrupt),
        "term" => return Ok(Event::Terminate),
        "signal" => return Ok(Event::Signal),
        _ => {}
    }
    let period = value.strip_prefix("every ");
    let Some(period) = period else {
        return Err(owned("not a trigger"));
    };
    match duration::parse(text::trimmed(period))? {
        short if short < MIN_PERIOD => Err(owned("too often; 100ms is the least")),
        period => Ok(Event::Every(period)),
    }
}

/// How many files of triggered dumps a process leaves, and how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutMost {
    /// At least 1.
    pub files: u64,
    /// The newest file stays, also where it alone is larger.
    pub bytes: u64,
}

/// Without `FDR_OUT_MOST`.
impl Default for OutMost {
    fn default() -> OutMost {
        OutMost {
            files: 10,
            bytes: 1 << 30,
        }
    }
}

/// Parses the text of `FDR_OUT_MOST`: a number of files, a size with its unit, or both with a comma between. A
/// missing part has no limit.
///
/// # Errors
/// What is accepted.
///
/// # Examples
/// ```
/// use fdr_formats::trigger::{OutMost, parse_out_most};
///
/// assert_eq!(parse_out_most("20,4G"), Ok(OutMost { files: 20, bytes: 4 << 30 }));
/// assert!(parse_out_most("0").is_err());
/// ```
pub fn parse_out_most(text: &str) -> Result<OutMost, String> {
    const ACCEPTED: &str =
        "accepted are a number of files, such as 10, a size, such as 1G, or both: 10,1G";
    let (mut files, mut bytes) = (None, None);
    for part in text::parts(text, b',').map(text::trimmed) {
        let is_count = part.bytes().all(|byte| byte.is_ascii_digit());
        let (to, value) = match is_count {
            true => (&mut files, part.parse::<u64>().ok()),
            false => (&mut bytes, size::parse(part).ok()),
        };
        let value = value.filter(|&value| value > 0).ok_or(ACCEPTED)?;
        if to.replace(value).is_some() {
            return Err(owned(ACCEPTED));
        }
    }
    Ok(OutMost {
        files: files.unwrap_or(u64::MAX),
        bytes: bytes.unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(glob: &str, ms: u64) -> Event {
        Event::Call(
            Filter::parse(glob).expect("a glob"),
            Duration::from_millis(ms),
        )
    }

    #[test]
    fn triggers() {
        let s = Duration::from_secs;
        for (text, event, post_roll, limit) in [
            ("a::b>50ms", call("a::b", 50), s(0), DEFAULT_LIMIT),
            ("a::*>1s+2s", call("a::*", 1000), s(2), DEFAULT_LIMIT),
            ("a::b > 50ms  +2s /1m", call("a::b", 50), s(2), s(60)),
            ("a::b>0/0", call("a::b", 0), s(0), s(0)),
            (
                "<a::B<a::C> as core::ops::Add + x/y>::add>7ms",
                call("<a::B<a::C> as core::ops::Add + x/y>::add", 7),
                s(0),
                DEFAULT_LIMIT,
            ),
            ("rss>2G", Event::Resident(2 << 30), s(0), DEFAULT_LIMIT),
            ("rss>2G /5m", Event::Resident(2 << 30), s(0), s(300)),
            ("every 10m", Event::Every(s(600)), s(0), s(0)),
            ("every 10s +1s", Event::Every(s(10)), s(1), s(0)),
            ("panic", Event::Panic, s(0), DEFAULT_LIMIT),
            ("panic +1s", Event::Panic, s(1), DEFAULT_LIMIT),
            ("exit", Event::Exit, s(0), s(0)),
            ("int", Event::Interrupt, s(0), s(0)),
            ("term", Event::Terminate, s(0), s(0)),
            ("signal", Event::Signal, s(0), s(0)),
            ("signal +3s /1m", Event::Signal, s(3), s(60)),
        ] {
            let parsed = parse(text).expect(text);
            let [trigger] = parsed.as_slice() else {
                panic!("{text}: {parsed:?}")
            };
            assert_eq!(trigger.event, event, "{text}");
            assert_eq!(
                (trigger.post_roll, trigger.limit),
                (post_roll, limit),
                "{text}"
            );
        }
        let several = parse(" a>1ms ,, exit,panic ").expect("three");
        let texts: Vec<&str> = several.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(texts, ["a>1ms", "exit", "panic"]);
        assert_eq!(parse("off"), Ok(Vec::new()));
    }

    #[test]
    fn bad_triggers_are_refused_with_the_grammar() {
        for (text, problem) in [
            ("", "no trigger"),
            (" , ", "no trigger"),
            ("a::b", "`a::b`: not a trigger"),
            ("exit,a::b>50", "`a::b>50`: not a time"),
            ("a::b>", "not a time"),
            (">50ms", "no function"),
            ("a>50ms +", "not a time"),
            ("a>50ms +1s +1s", "twice"),
            ("a>50ms *2", "not a time"),
            ("-a::b>50ms", "can't exclude"),
            ("<a::B as C>::d", "not a time"),
            ("rss>2T", "not a size"),
            ("rss", "not a trigger"),
            ("every", "not a trigger"),
            ("every 1ms", "too often"),
            ("every 10m /1s", "its period"),
            ("exit +1s", "behind the end"),
            ("exit /1s", "behind the end"),
            ("term +1s", "behind the end"),
            ("PANIC", "not a trigger"),
            ("a\u{1b}[2J>5ms", "can't be shown"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(problem), "{text}: {error}");
            assert!(error.contains("my_app::function>50ms"), "{text}: {error}");
            assert!(!error.contains(text::is_unsafe), "{text}: {error}");
        }
        let long = format!("{}>1ms", "x".repeat(MAX_BYTES));
        assert!(parse(&long).is_err_and(|error| error.contains("too long") && error.len() < 700));
        let many = vec!["a>1ms"; MAX_TRIGGERS + 1].join(",");
        assert!(parse(&many).is_err_and(|error| error.contains("too many")));
        assert!(parse(many.strip_suffix(",a>1ms").expect("one less")).is_ok());
    }

    #[test]
    fn files_and_bytes() {
        let most = |files, bytes| Ok(OutMost { files, bytes });
        assert_eq!(parse_out_most("10"), most(10, u64::MAX));
        assert_eq!(parse_out_most("1g"), most(u64::MAX, 1 << 30));
        assert_eq!(parse_out_most("3, 20M"), most(3, 20 << 20));
        assert_eq!(parse_out_most("20M,3"), most(3, 20 << 20));
        for text in [
            "", "0", "0K", "1,2", "1M,2M", "1,2M,3", "-1", "x", "1 G", "1,",
        ] {
            let error = parse_out_most(text).expect_err(text);
            assert!(error.contains("10,1G"), "{text}: {error}");
        }
    }
}
