//! The shares that `FDR_BUDGET`, `FDR_SAMPLE` and the tool's options for them accept. Must never round.

use crate::text::{self, owned};

/// A share in percent, with at most four digits behind the point, as millionths. The `%` may be left out.
///
/// # Errors
/// What is accepted.
///
/// # Examples
/// ```
/// use fdr_formats::share;
///
/// assert_eq!(share::parse("2.5%"), Ok(25_000));
/// assert!(share::parse("101").is_err());
/// ```
pub fn parse(text: &str) -> Result<u64, String> {
    let malformed =
        || owned("not a share; accepted are percents from 0 to 100, such as 10% or 2.5%");
    let number = text::trimmed(text.strip_suffix('%').unwrap_or(text));
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let are_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let fits = !whole.is_empty() && whole.len() <= 3 && (1..=4).contains(&part.len());
    if !fits || !are_digits(whole) || !are_digits(part) {
        return Err(malformed());
    }
    let parse = |digits: &str| text::number(digits).ok_or_else(malformed);
    let millionths = parse(whole)? * 10_000 + parse(&format!("{part:0<4}"))?;
    (millionths <= 1_000_000)
        .then_some(millionths)
        .ok_or_else(malformed)
}

/// One in so many, of which at least 1: `1/100`. `1/1` is all of them.
///
/// # Errors
/// What is accepted.
///
/// # Examples
/// ```
/// use fdr_formats::share;
///
/// assert_eq!(share::parse_one_in("1/100"), Ok(100));
/// assert!(share::parse_one_in("1%").is_err());
/// ```
pub fn parse_one_in(text: &str) -> Result<u32, String> {
    let all = text.strip_prefix("1/").unwrap_or_default();
    let are_digits = all.bytes().all(|byte| byte.is_ascii_digit());
    let count = text::number(all).and_then(|count| u32::try_from(count).ok());
    count
        .filter(|&count| are_digits && count > 0)
        .ok_or_else(|| owned("not one in so many; accepted is 1/N, such as 1/100"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many() {
        for (text, count) in [("1/1", 1), ("1/100", 100), ("1/4294967295", u32::MAX)] {
            assert_eq!(parse_one_in(text), Ok(count), "{text}");
        }
        for text in [
            "",
            "1",
            "/",
            "1/",
            "1/0",
            "2/100",
            "1/+5",
            "1/-5",
            "1/4294967296",
            "1/2/3",
            "0.01",
        ] {
            let error = parse_one_in(text).unwrap_err();
            assert!(error.contains("such as 1/100"), "{text}: {error}");
        }
    }

    #[test]
    fn shares() {
        for (text, millionths) in [
            ("0", 0),
            ("10%", 100_000),
            ("2.5 %", 25_000),
            ("0.0001", 1),
            ("100%", 1_000_000),
        ] {
            assert_eq!(parse(text), Ok(millionths), "{text}");
        }
        for text in [
            "", "%", "-1", "1.", ".5", "101", "1e2", "0.00001", "10%%", "1000",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("such as 10% or 2.5%"), "{text}: {error}");
        }
    }
}
