//! The values of variables: words, formats, sizes of rings, and the way a size and a bad value are shown. An error is
//! one line with the accepted values.

use std::ffi::OsStr;

use fdr_formats::registry;
use fdr_formats::size;
use fdr_formats::text::{self, owned};
use fdr_formats::writer::{Kind, Target};

use super::{Format, MIN_RING};

/// How many characters of a value an error shows.
const MAX_SHOWN: usize = 80;

/// One of `choices`, in upper or lower case.
pub(super) fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    // Only this much is compiled for each type.
    let nth = nth_choice(text, &|nth| choices.get(nth).map(|(word, _)| *word))?;
    Ok(choices[nth].1)
}

/// Which of these words a text is.
#[inline(never)]
fn nth_choice<'a>(text: &str, word: &dyn Fn(usize) -> Option<&'a str>) -> Result<usize, String> {
    let mut words = (0..).map_while(word);
    if let Some(nth) = words.position(|word| text::same_word(word, text)) {
        return Ok(nth);
    }
    let mut accepted = String::new();
    for word in (0..).map_while(word) {
        text::append(&mut accepted, ", ", word);
    }
    Err(format!("accepted are {accepted}"))
}

/// A size for people, in the largest unit that gives a whole number.
pub(super) fn size_text(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes % *unit == 0)
    {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

/// A value or name for an error: quoted, escaped, and cut if it is long.
pub(super) fn escaped(value: &OsStr) -> String {
    let text = value.to_string_lossy();
    match text.char_indices().nth(MAX_SHOWN) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}", format!("{}…", text.get(..end).unwrap_or_default())),
    }
}

/// The format of that name, which fits if it is to be sent.
pub(super) fn format_of(name: &str, is_sent: bool) -> Result<Format, String> {
    let fits = |target: &Target| !is_sent || target.kind == Kind::Stream;
    let (why, only_fitting) = match registry::recorded().find(|t| text::same_word(t.name, name)) {
        Some(target) if fits(target) => return Ok(Format(target)),
        Some(_) => {
            let why = "can't be sent as a stream, which FDR_OUT asks for; ";
            (why, true)
        }
        None if registry::is_converted(name) => {
            let why = "`fdr convert` writes this format and sends it; record in another one; ";
            (why, true)
        }
        None => ("", false),
    };
    let mut accepted = String::new();
    for target in registry::recorded().filter(|target| !only_fitting || fits(target)) {
        text::append(&mut accepted, ", ", target.name);
    }
    Err(format!("{why}accepted are {accepted}"))
}

/// The size of a ring, or of all rings together.
pub(super) fn ring_size(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes < MIN_RING => Err(owned("too small; the least is 128K")),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1000, "1000 B"),
            (1024, "1 KiB"),
            (1536, "1536 B"),
            (131_072, "128 KiB"),
            (4 << 20, "4 MiB"),
            (1 << 30, "1 GiB"),
            ((1 << 30) + (1 << 20), "1025 MiB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }

    #[test]
    fn words() {
        let choices = [("ring", 1), ("full", 2)];
        assert_eq!(choice("FULL", &choices), Ok(2));
        assert_eq!(
            choice("fulll", &choices),
            Err("accepted are ring, full".to_owned())
        );
    }

    #[test]
    fn shown_values_are_one_short_line() {
        assert_eq!(
            escaped(OsStr::new("a\"b\n\u{1b}[31m")),
            r#""a\"b\n\u{1b}[31m""#
        );
        assert_eq!(escaped(OsStr::from_bytes(b"\xff")), "\"\u{fffd}\"");
        assert_eq!(
            escaped(OsStr::new(&"é".repeat(80))),
            format!("\"{}\"", "é".repeat(80))
        );
        assert_eq!(
            escaped(OsStr::new(&"é".repeat(81))),
            format!("\"{}…\"", "é".repeat(80))
        );
    }
}
