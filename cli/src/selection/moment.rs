//! Moments as people write them, found in a trace.

use std::time::Duration;

use anyhow::Context;
use fdr_formats::{Clock, Ticks, utc};

use crate::tally::Tally;
use crate::ui;

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

/// A moment, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MomentOption {
    pub(crate) text: String,
    kind: Kind,
}

/// All in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Start,
    End,
    /// Since the start.
    After(i128),
    /// Before the end.
    Before(i128),
    /// Of the trace's clock.
    Clock(i128),
    /// Since 1970.
    Unix(i128),
    /// Since midnight, UTC.
    OfDay(i128),
}

/// From when to when a trace is, in ns of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// Reads a moment.
pub(crate) fn parse(text: &str) -> Result<MomentOption, String> {
    let kind = match text {
        "start" => Some(Kind::Start),
        "end" => Some(Kind::End),
        _ => {
            if let Some(rest) = text.strip_prefix('+') {
                duration(rest).map(Kind::After)
            } else if let Some(rest) = text.strip_prefix('-') {
                duration(rest).map(Kind::Before)
            } else if text.contains(':') {
                match text.split_once(['T', ' ']) {
                    Some((date, rest)) => date_of(date)
                        .zip(time_of_day(rest))
                        .map(|(date, time)| Kind::Unix(date + time)),
                    None => time_of_day(text).map(Kind::OfDay),
                }
            } else {
                // A plain number is one of the trace's clock, one with a unit is counted from the start.
                let clock = text.parse().ok().map(Kind::Clock);
                clock.or_else(|| duration(text).filter(|_| has_unit(text)).map(Kind::After))
            }
        }
    };
    let kind = kind.ok_or(
        "a moment is start, end, 1.5ms or +1.5ms (after the start), -2s (before the end), 1700000123 (ns \
         of the trace's clock), 2026-11-20T12:30:01.5Z or 12:30:01.5",
    )?;
    let text = text.to_owned();
    Ok(MomentOption { text, kind })
}

/// A length of time: a number with a unit, in ns.
///
/// # Errors
/// What is accepted.
pub(crate) fn length(text: &str) -> Result<i128, String> {
    let length = duration(text).filter(|&nanos| nanos > 0 && has_unit(text));
    length.ok_or_else(|| "a length of time is 2s, 1.5ms, 300us or 10min".to_owned())
}

/// A number of seconds, or a number with a unit.
///
/// # Errors
/// What is accepted.
pub(crate) fn seconds(text: &str) -> Result<Duration, &'static str> {
    let nanos = match has_unit(text) {
        true => duration(text),
        false => decimal(text, SECOND),
    };
    let nanos = nanos.and_then(|nanos| u64::try_from(nanos).ok());
    nanos
        .map(Duration::from_nanos)
        .ok_or("not a length of time, as 10 or 0.5 in seconds, 500ms or 2min")
}

/// Whether a number's unit is there.
fn has_unit(text: &str) -> bool {
    !text.ends_with(|end: char| end.is_ascii_digit() || end == '.')
}

/// A number with a unit, in ns; without one it is ns.
fn duration(text: &str) -> Option<i128> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("min", 60 * SECOND),
        ("h", 3600 * SECOND),
        ("s", SECOND),
        ("", 1),
    ];
    let (number, unit) = UNITS.iter().find_map(|(name, unit)| {
        let number = text.strip_suffix(name)?.trim_end();
        number
            .ends_with(|end: char| end.is_ascii_digit() || end == '.')
            .then_some((number, *unit))
    })?;
    decimal(number, unit)
}

/// A decimal number of units; digits beyond its smallest part are left out.
fn decimal(text: &str, unit: i128) -> Option<i128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.len() < 19 && text.bytes().all(|digit| digit.is_ascii_digit());
    if !digits(whole) || !digits(part) || whole.len() + part.len() == 0 {
        return None;
    }
    let number = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<i128>().ok()
        }
    };
    let scale = 10i128.pow(part.len() as u32);
    Some(number(whole)? * unit + number(part)? * unit / scale)
}

/// `12:30`, `12:30:01.5`, with or without a `Z`, in ns since midnight.
fn time_of_day(text: &str) -> Option<i128> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let mut fields = text.split(':');
    let mut two = |limit: i128| {
        let field = fields.next()?;
        let number = decimal(field, 1).filter(|_| field.len() == 2 && !field.contains('.'));
        number.filter(|&number| number < limit)
    };
    let (hour, minute) = (two(24)?, two(60)?);
    let second = match fields.next() {
        Some(second) => decimal(second, SECOND).filter(|&nanos| nanos < 60 * SECOND)?,
        None => 0,
    };
    fields
        .next()
        .is_none()
        .then_some((hour * 60 + minute) * 60 * SECOND + second)
}

/// `2026-11-20`, in ns since 1970.
fn date_of(text: &str) -> Option<i128> {
    let mut fields = text
        .split('-')
        .map(|field| u64::try_from(decimal(field, 1)?).ok());
    let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
    let days = utc::days(year, month, day).filter(|_| fields.next().is_none());
    days.map(|days| i128::from(days) * DAY)
}

impl Span {
    /// First and last entry or exit of a trace; of a trace without any, first and last note. `None`: it has neither.
    pub(crate) fn from_tally(tally: &Tally, clock: &Clock) -> Option<Span> {
        let nanos = |ticks| i64::try_from(clock.nanos(ticks).0).unwrap_or(i64::MAX);
        let (start, end) = Span::ticks(tally)?;
        Some(Span {
            start: nanos(start),
            end: nanos(end),
        })
    }

    /// The same in ticks.
    pub(crate) fn ticks(tally: &Tally) -> Option<(Ticks, Ticks)> {
        let seen = tally.threads();
        let calls = seen.filter_map(|seen| Some((seen.first?, seen.last)));
        let calls = calls.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        calls.or_else(|| tally.times())
    }

    /// The moment in ns of the trace's clock, which must be in the trace.
    ///
    /// # Errors
    /// Where it is not; from when to when the trace is.
    pub(crate) fn find(&self, when: &MomentOption, clock: &Clock) -> anyhow::Result<i64> {
        let time = self.resolve(when, clock)?;
        let inside = (i128::from(self.start)..=i128::from(self.end)).contains(&time);
        i64::try_from(time)
            .ok()
            .filter(|_| inside)
            .with_context(|| self.outside(&when.text, clock))
    }

    /// The message for a moment that is not in the trace.
    pub(crate) fn outside(&self, moment: &str, clock: &Clock) -> String {
        let trace = self.in_words(clock);
        format!("{moment} is not in the trace, which {trace}")
    }

    /// The moment in ns of the trace's clock, be it in the trace or not.
    ///
    /// # Errors
    /// Where the trace has no time of day.
    pub(crate) fn resolve(&self, when: &MomentOption, clock: &Clock) -> anyhow::Result<i128> {
        let (start, end) = (i128::from(self.start), i128::from(self.end));
        let inside = |time: i128| (start..=end).contains(&time);
        // Add it to a time of the trace's clock.
        let to_unix = clock
            .anchor
            .map(|(tick, unix)| i128::from(unix) - i128::from(clock.nanos(tick).0));
        let unix = || to_unix.context("the trace does not know the time of day: use +1.5ms or -2s");
        Ok(match when.kind {
            Kind::Start => start,
            Kind::End => end,
            Kind::After(nanos) => start + nanos,
            Kind::Before(nanos) => end - nanos,
            Kind::Clock(nanos) => nanos,
            Kind::Unix(nanos) => nanos - unix()?,
            Kind::OfDay(nanos) => {
                let unix = unix()?;
                let of_day = |day: i128| day * DAY + nanos - unix;
                let first = (start + unix).div_euclid(DAY);
                let later = Some(of_day(first + 1)).filter(|&time| inside(time));
                later
                    .filter(|_| !inside(of_day(first)))
                    .unwrap_or(of_day(first))
            }
        })
    }

    fn in_words(&self, clock: &Clock) -> String {
        let duration = ui::duration(self.end.abs_diff(self.start));
        let dates = unix_of(self.start, clock).zip(unix_of(self.end, clock));
        let dates = dates.map(|(start, end)| format!(", {} to {}", ui::utc(start), ui::utc(end)));
        let (start, end) = (self.start, self.end);
        let dates = dates.unwrap_or_default();
        format!("is of {duration}: from {start} to {end} ns of its clock{dates}")
    }
}

/// Unix time of a time in ns of the trace's clock.
pub(crate) fn unix_of(time: i64, clock: &Clock) -> Option<u64> {
    let (tick, unix) = clock.anchor?;
    let clock = Clock {
        frequency: 1_000_000_000,
        anchor: Some((Ticks(clock.nanos(tick).0), unix)),
        ..Clock::default()
    };
    clock.unix_nanos(Ticks(u64::try_from(time).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, anchor: Option<(Ticks, u64)>) -> Result<i64, String> {
        // 10 s, from 23:59:55 on, where the time of day is known.
        let span = Span {
            start: 5 * 1_000_000_000,
            end: 15 * 1_000_000_000,
        };
        let clock = Clock {
            anchor,
            ..Clock::default()
        };
        let when = parse(text)?;
        span.find(&when, &clock).map_err(|error| error.to_string())
    }

    const MIDNIGHT: u64 = 1_700_006_400_000_000_000;

    #[test]
    fn moments_without_the_time_of_day() {
        let cases = [
            ("start", 5_000_000_000),
            ("end", 15_000_000_000),
            ("+0", 5_000_000_000),
            ("+17", 5_000_000_017),
            ("+1.5ms", 5_001_500_000),
            ("+2us", 5_000_002_000),
            ("+2 µs", 5_000_002_000),
            ("+.5s", 5_500_000_000),
            ("+0.1min", 11_000_000_000),
            ("-2s", 13_000_000_000),
            ("-0.001h", 11_400_000_000),
            ("7000000001", 7_000_000_001),
            ("1.5s", 6_500_000_000),
            ("2 us", 5_000_002_000),
        ];
        for (text, wanted) in cases {
            assert_eq!(find(text, None), Ok(wanted), "{text}");
        }
        for text in [
            "", "+", "-", "+s", "+1.2.3s", "+1x", "+-1s", "now", "+1e3s", "1.5", "-",
        ] {
            assert!(
                find(text, None).is_err_and(|error| error.contains("a moment is")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_number_without_a_unit_is_of_seconds() {
        for (text, millis) in [
            ("1.5", 1500),
            ("0", 0),
            ("500ms", 500),
            ("1s", 1000),
            ("2min", 120_000),
        ] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in [
            "-1",
            "nan",
            "inf",
            "1e300",
            "x",
            "",
            "s",
            "1 year",
            "99999999999999",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_of_the_day() {
        let anchor = Some((Ticks(10_000_000_000), MIDNIGHT));
        let cases = [
            ("2023-11-14T23:59:55Z", 5_000_000_000),
            ("2023-11-14 23:59:57.25", 7_250_000_000),
            ("2023-11-15T00:00:01.5Z", 11_500_000_000),
            ("23:59:58", 8_000_000_000),
            ("00:00:00.5", 10_500_000_000),
            ("00:00", 10_000_000_000),
        ];
        for (text, wanted) in cases {
            assert_eq!(find(text, anchor), Ok(wanted), "{text}");
        }
        let none = find("00:00", None).expect_err("no anchor");
        assert!(none.contains("does not know the time of day"), "{none}");
        for text in [
            "24:00",
            "12:60",
            "1:2",
            "12:30:60",
            "12:30:01:5",
            "2023-13-01T00:00",
            "2023-1T00:00",
        ] {
            assert!(
                find(text, anchor).is_err_and(|error| error.contains("a moment is")),
                "{text}"
            );
        }
        assert_eq!(date_of("1970-01-01"), Some(0));
        assert_eq!(date_of("2000-02-29"), Some(951_782_400 * SECOND));
        assert_eq!(date_of("2024-12-31"), Some(1_735_603_200 * SECOND));
    }

    #[test]
    fn moments_outside_of_the_trace() {
        let error = find("+11s", Some((Ticks(10_000_000_000), MIDNIGHT))).expect_err("too late");
        let wanted = "+11s is not in the trace, which is of 10.00 s: from 5000000000 to \
                      15000000000 ns of its clock, 2023-11-14T23:59:55.000000Z to \
                      2023-11-15T00:00:05.000000Z";
        assert_eq!(error, wanted);
        for text in ["-11s", "0", "99999999999999999999999", "12:00"] {
            assert!(
                find(text, Some((Ticks(10_000_000_000), MIDNIGHT))).is_err(),
                "{text}"
            );
        }
    }
}
