//! Figures in the documentation: text between two marks, which a bench writes anew when it is told to. It must
//! never touch what people wrote around it.

use std::fs;
use std::path::Path;

use crate::Result;

const END: &str = "<!-- end of figures -->\n";

fn begin(bench: &str) -> String {
    format!("<!-- figures: `cargo xtask bench {bench} --bless` writes them -->\n")
}

/// Puts the tables between the marks of that bench.
///
/// # Errors
///
/// If the file can't be read or written, or has no such marks.
pub(crate) fn bless(path: &Path, bench: &str, tables: &str) -> Result<()> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = between(&text, bench, tables)
        .ok_or_else(|| format!("{} has no marks for the tables", path.display()))?;
    super::write(path, &text)
}

fn between(text: &str, bench: &str, tables: &str) -> Option<String> {
    let begin = begin(bench);
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, &begin, tables, END, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_go_between_the_marks() {
        let text = |tables| format!("a\n{}{tables}{END}b\n", begin("peers"));
        let blessed = between(&text("old\n"), "peers", "new\n");
        assert_eq!(blessed, Some(text("new\n")));
        assert_eq!(between(&text("old\n"), "scale", "new\n"), None);
        assert_eq!(between("a\n", "peers", "new\n"), None);
    }
}
