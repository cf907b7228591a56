//! Named moments: a tick and a name that a user gave while the program ran (`fdr ctl PID mark`). The recorder keeps the
//! newest ones. This file has the rules for names, and the list of a trace.

use crate::model::Moment;
use crate::text::{self, owned};

/// How many moments a recorder keeps.
pub const MAX_MOMENTS: usize = 32;
/// The most bytes of a name.
pub const MAX_BYTES: usize = 64;

/// The words of `fdr ctl PID mark`: any text of one line. Blanks around it are dropped.
///
/// # Errors
/// What is wrong, without the text.
///
/// # Examples
/// ```
/// use fdr_formats::moments::parse;
///
/// assert_eq!(parse(" here I clicked "), Ok("here I clicked"));
/// assert!(parse("two\nlines").is_err());
/// ```
pub fn parse(text: &str) -> Result<&str, String> {
    let name = text::trimmed(text);
    if name.is_empty() {
        return Err(owned("a mark without a name; here-I-clicked, for example"));
    }
    if name.len() > MAX_BYTES {
        return Err(format!(
            "a name that is too long; {MAX_BYTES} bytes are the most"
        ));
    }
    if name.contains(text::is_unsafe) {
        return Err(owned(
            "a name with a line break, or another character that can't be shown",
        ));
    }
    Ok(name)
}

/// How many earlier moments were replaced by these. A process counts its moments from 1.
#[must_use]
pub fn earlier(moments: &[Moment]) -> u64 {
    let newest = moments.iter().map(|moment| moment.number).max();
    newest
        .unwrap_or(0)
        .saturating_sub(moments.len().try_into().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let longest = "ü".repeat(MAX_BYTES / 2);
        for (text, name) in [
            ("a", "a"),
            (" here I clicked\t", "here I clicked"),
            ("größer 🦀 = \"x\" \\n", "größer 🦀 = \"x\" \\n"),
            (longest.as_str(), longest.as_str()),
        ] {
            assert_eq!(parse(text), Ok(name));
        }
        for (text, problem) in [
            ("", "without a name"),
            (" \n", "without a name"),
            ("a\nb", "line break"),
            ("a\u{1b}[2J", "line break"),
            ("a\0b", "line break"),
            ("a\u{202e}b", "line break"),
            (&format!("{longest}x"), "too long; 64 bytes"),
            (&"x".repeat(1 << 20), "too long"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{error}");
            assert!(error.len() < 100, "{error}");
        }
    }

    #[test]
    fn those_that_gave_way_are_counted() {
        let moment = |number| Moment {
            number,
            ..Moment::default()
        };
        assert_eq!(earlier(&[]), 0);
        assert_eq!(earlier(&[moment(1)]), 0);
        assert_eq!(earlier(&[moment(4), moment(5)]), 3);
        assert_eq!(earlier(&[moment(0), moment(1), moment(1)]), 0);
        assert_eq!(earlier(&[moment(u64::MAX)]), u64::MAX - 1);
    }
}
