//! Text in lines that fit a terminal, for both tools.

use std::io;

/// Breaks a text at spaces into lines of at most `width` characters. All lines except the first are
/// indented. A word is never cut.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for (nth, word) in text.split(' ').enumerate() {
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
