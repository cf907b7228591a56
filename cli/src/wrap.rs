//! Text in lines that fit a terminal, for both tools.

use std::io;

/// Units of figures, which stay beside their numbers.
const UNITS: [&str; 9] = ["%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB"];

/// The words of a text. A number and its unit are one word.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    let mut begin = 0;
    for (at, _) in text.match_indices(' ').chain([(text.len(), "")]) {
        let number = text[..at].ends_with(|last: char| last.is_ascii_digit());
        let next = text[at..].trim_start_matches(' ').split(' ').next();
        let next = next.unwrap_or_default();
        let unit = next.trim_end_matches(|end: char| ",;.:)".contains(end));
        let has_one_space = text[at..].len() > next.len() && text[at + 1..].starts_with(next);
        if number && has_one_space && UNITS.contains(&unit) {
            continue;
        }
        words.push(&text[begin..at]);
        begin = (at + 1).min(text.len());
    }
    words
}

/// Breaks a text at spaces into lines of at most `width` characters. All lines except the first are
/// indented. A word is never cut, nor a number from its unit.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for (nth, word) in words(text).into_iter().enumerate() {
        let length = word.chars().count();
        if nth > 0 && column + 1 + length > width && column > indent {
            let kept = out.trim_end_matches(' ').len();
            out.truncate(kept);
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if nth > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// The width of stderr, where that is a terminal wide enough to wrap for.
pub(crate) fn error_columns() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stderr())?;
    Some(usize::from(width.0)).filter(|&width| width > 20)
}
