//! The shares that `FDR_BUDGET` and the tool's `--budget` accept.

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

#[cfg(test)]
mod tests {
    use super::*;

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
