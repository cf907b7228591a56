//! Dates and times of day, UTC.

use std::fmt;

/// A second, in the calendar. Its text is `2026-11-20T13:55:01`.
///
/// # Examples
/// ```
/// use fdr_formats::utc::Utc;
///
/// assert_eq!(Utc::from_unix(1_700_000_000).to_string(), "2023-11-14T22:13:20");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc {
    /// From 1970 on.
    pub year: u64,
    /// From 1 to 12.
    pub month: u64,
    /// From 1 to 31.
    pub day: u64,
    /// From 0 to 23.
    pub hour: u64,
    /// From 0 to 59.
    pub minute: u64,
    /// From 0 to 59.
    pub second: u64,
}

impl Utc {
    /// The date and time `unix_s` seconds after the beginning of 1970. Async-signal-safe.
    #[must_use]
    pub fn from_unix(unix_s: u64) -> Utc {
        let (days, second) = (unix_s / 86_400, unix_s % 86_400);
        // Years of 365.2425 days that begin in March: the leap day is the last of a year.
        let days = days + DAYS_TO_1970;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (year, month) = match month {
            ..10 => (era * 400 + year, month + 3),
            _ => (era * 400 + year + 1, month - 9),
        };
        Utc {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

/// From the March of a year 0 to the beginning of 1970.
const DAYS_TO_1970: u64 = 719_468;

/// Days from the beginning of 1970 to a date. `None`: it is before 1970, after 9999, or no date.
///
/// # Examples
/// ```
/// use fdr_formats::utc;
///
/// assert_eq!(utc::days(2000, 2, 29), Some(11_016));
/// assert_eq!(utc::days(2000, 13, 1), None);
/// ```
#[must_use]
pub fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (y, m) = match month {
        3.. => (year, month - 3),
        _ => (year - 1, month + 9),
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - DAYS_TO_1970;
    // A 31st of April would be the 1st of May.
    (Utc::from_unix(days * 86_400).day == day).then_some(days)
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Utc {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_typed_by_hand() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_700_000_000, "2023-11-14T22:13:20"),
            (1_735_689_599, "2024-12-31T23:59:59"),
            (18_446_744_073, "2554-07-21T23:34:33"),
        ] {
            assert_eq!(Utc::from_unix(unix_s).to_string(), text);
        }
    }

    #[test]
    fn each_day_follows_the_day_before() {
        let mut before = Utc::from_unix(0);
        assert_eq!(days(1970, 1, 1), Some(0));
        for day in 1..300_000 {
            let date = Utc::from_unix(day * 86_400 + 86_399);
            assert_eq!(days(date.year, date.month, date.day), Some(day));
            let begins_month = date.day == 1 && date.month == before.month % 12 + 1;
            let begins_year = begins_month && date.month == 1;
            assert!(
                begins_month || (date.month, date.day) == (before.month, before.day + 1),
                "{date}"
            );
            assert_eq!(date.year, before.year + u64::from(begins_year));
            before = date;
        }
    }

    #[test]
    fn what_is_no_date() {
        for (year, month, day) in [
            (1969, 12, 31),
            (2023, 2, 29),
            (2023, 4, 31),
            (2023, 0, 1),
            (2023, 1, 0),
            (10_000, 1, 1),
        ] {
            assert_eq!(days(year, month, day), None, "{year}-{month}-{day}");
        }
    }
}
