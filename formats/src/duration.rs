//! The words of `FDR_KEEP` and `--keep`.

use std::time::Duration;

use crate::text::{self, owned};

/// A time: a number, then `ns`, `us`, `ms`, `s` or `m`, in lower case. 0 needs no unit.
///
/// # Errors
/// What is accepted.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use fdr_formats::duration;
///
/// assert_eq!(duration::parse("10s"), Ok(Duration::from_secs(10)));
/// assert!(duration::parse("10").is_err());
/// ```
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let is_zero = number.bytes().all(|digit| digit == b'0');
    let unit_ns: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "" if is_zero => 1,
        _ => return Err(not_a_time()),
    };
    if number.is_empty() {
        return Err(not_a_time());
    }
    let number = text::number(number);
    let ns = number.and_then(|number| number.checked_mul(unit_ns));
    ns.map(Duration::from_nanos)
        .ok_or_else(|| owned("too long; it must be below 500 years"))
}

fn not_a_time() -> String {
    owned("not a time; accepted are 0, or a number with ms, s or m, such as 10s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, ns) in [
            ("0", 0),
            ("000", 0),
            ("0s", 0),
            ("7ns", 7),
            ("7us", 7_000),
            ("250ms", 250_000_000),
            ("10s", 10_000_000_000),
            ("5m", 300_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in [
            "", "s", "10", "1h", "1.5s", "-1s", "10 s", "10S", "1m30s", "٤s",
        ] {
            assert!(parse(text).unwrap_err().contains("not a time"), "{text}");
        }
        for text in ["99999999999999999999ns", "999999999999m"] {
            assert!(parse(text).unwrap_err().contains("too long"), "{text}");
        }
    }
}
