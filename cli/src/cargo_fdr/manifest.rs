//! The dependency in a package's manifest: one marked line, put in and taken out as text, so that every other byte
//! stays.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use toml_edit::Document;

/// At the end of each line that this tool wrote.
const MARK: &str = " # cargo fdr";
/// The same, where the file had no line end at its end.
const MARK_UNENDED: &str = " # cargo fdr, behind a file without a last line end";

/// Where `fdr` is taken from.
#[derive(Clone, Debug)]
pub(crate) enum Recorder {
    Path(PathBuf),
    Version(String),
}

impl Recorder {
    /// The recorder of the option. Without the option, the one that fits this program: the source tree in which it was
    /// built, or its own version.
    ///
    /// # Errors
    /// Where a path holds no recorder.
    pub(crate) fn parse(text: Option<&str>) -> anyhow::Result<Recorder> {
        let Some(text) = text else {
            let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime");
            return Ok(match beside.canonicalize() {
                Ok(path) if path.join("Cargo.toml").is_file() => Recorder::Path(path),
                _ => Recorder::Version(env!("CARGO_PKG_VERSION").to_owned()),
            });
        };
        let is_version = text.starts_with(|c: char| c.is_ascii_digit() || "=^~*<>".contains(c));
        if is_version && !Path::new(text).exists() {
            return Ok(Recorder::Version(text.to_owned()));
        }
        let path = Path::new(text).canonicalize();
        let path = path.with_context(|| format!("--fdr {text}: neither a version nor a folder"))?;
        for folder in [path.clone(), path.join("runtime")] {
            if folder.join("Cargo.toml").is_file() && folder.join("src/private.rs").is_file() {
                return Ok(Recorder::Path(folder));
            }
        }
        bail!(
            "--fdr {text}: not the recorder's folder; give the folder `runtime` of its repository"
        )
    }

    fn line(&self) -> String {
        let value = match self {
            Recorder::Path(path) => {
                let path = toml_edit::Value::from(path.to_string_lossy().into_owned());
                format!("{{ path = {path} }}")
            }
            Recorder::Version(version) => toml_edit::Value::from(version.as_str()).to_string(),
        };
        format!("fdr = {value}")
    }
}

/// The manifest with the dependency.
///
/// # Errors
/// Where the manifest cannot be understood, or its form leaves no place for a line.
pub(crate) fn with_dependency(text: &str, recorder: &Recorder) -> anyhow::Result<String> {
    let line_end = match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    };
    let line = recorder.line();
    let mut changed = text.to_owned();
    match behind_header(text)? {
        Some(at) => changed.insert_str(at, &format!("{line}{MARK}{line_end}")),
        None => {
            let is_ended = text.is_empty() || text.ends_with('\n');
            let mark = if is_ended { MARK } else { MARK_UNENDED };
            if !is_ended {
                changed += line_end;
            }
            changed += &format!("[dependencies]{mark}{line_end}{line}{mark}{line_end}");
        }
    }
    let parsed = Document::parse(changed.as_str()).ok();
    let has_fdr = parsed.is_some_and(|document| {
        let fdr = document
            .get("dependencies")
            .and_then(|table| table.get("fdr"));
        fdr.is_some()
    });
    if !has_fdr {
        bail!("no place for a dependency: add the line `{line}` to [dependencies] yourself");
    }
    Ok(changed)
}

/// The manifest without the lines of this tool. Nothing where there are none.
pub(crate) fn without_dependency(text: &str) -> Option<String> {
    let mut cuts: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let content = line.trim_end_matches(['\n', '\r']);
        let is_header = content.starts_with("[dependencies]");
        let mark = [MARK, MARK_UNENDED]
            .into_iter()
            .find(|mark| content.ends_with(mark));
        if let Some(mark) = mark.filter(|_| is_header || content.starts_with("fdr = ")) {
            if is_header && has_more(&text[end..]) {
                // A person's lines stay in the table that they were written into.
                let content_end = start + content.len();
                cuts.push(content_end - mark.len()..content_end);
            } else if is_header && mark == MARK_UNENDED {
                let before = &text[..start];
                let unended = before.strip_suffix('\n').unwrap_or(before);
                cuts.push(unended.strip_suffix('\r').unwrap_or(unended).len()..end);
            } else {
                cuts.push(start..end);
            }
        }
        start = end;
    }
    if cuts.is_empty() {
        return None;
    }
    let mut rest = String::with_capacity(text.len());
    let mut copied = 0;
    for cut in cuts {
        rest += &text[copied..cut.start.max(copied)];
        copied = cut.end;
    }
    rest += &text[copied..];
    Some(rest)
}

/// Whether the table whose lines begin here has a line that a person wrote.
fn has_more(lines: &str) -> bool {
    let table = lines
        .lines()
        .take_while(|line| !line.trim_start().starts_with('['));
    let is_ours = |line: &str| [MARK, MARK_UNENDED].iter().any(|mark| line.ends_with(mark));
    table.map(str::trim_end).any(|line| {
        let content = line.trim_start();
        !content.is_empty() && !content.starts_with('#') && !is_ours(line)
    })
}

/// The place behind the line `[dependencies]`.
fn behind_header(text: &str) -> anyhow::Result<Option<usize>> {
    let document = Document::parse(text).map_err(|error| anyhow::anyhow!("{error}"))?;
    let Some(table) = document.get("dependencies") else {
        return Ok(None);
    };
    // If there is only `[dependencies.a]`, there is no header `[dependencies]`, and one may be added behind.
    let Some(table) = table.as_table() else {
        bail!("`dependencies` is no table; write it as [dependencies] and a line for each");
    };
    let Some(span) = table
        .span()
        .filter(|_| !table.is_implicit() && !table.is_dotted())
    else {
        return Ok(None);
    };
    let rest = &text[span.start..];
    let length = rest.find('\n').map(|at| at + 1);
    match length {
        Some(length) => Ok(Some(span.start + length)),
        // The header is the last line, without an end: a second header is no TOML.
        None => bail!("the line [dependencies] at the end has no line end; add one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> Recorder {
        Recorder::Path(PathBuf::from("/a b/runtime"))
    }

    #[test]
    fn in_and_out_again() {
        for text in [
            "[package]\nname = \"a\"\n\n[dependencies]\n# b\nc = \"1\" # d\n\n[dev-dependencies]\ne=\"2\"\n",
            "[package]\r\nname = \"a\"\r\n[dependencies]\r\n",
            "[package]\nname = \"a\"\n",
            "[package]\nname = \"a\"",
            "[package]\r\nname = \"a\"\r\n[features]",
            "[package]\nname = \"a\"\n[dependencies.b]\nversion = \"1\"\n",
            "\u{feff}[package]\nname = \"é\"\n  [ dependencies ] # f\ng = \"1\"",
            "[target.'cfg(unix)'.dependencies]\nb = \"1\"\n",
        ] {
            let changed = with_dependency(text, &recorder()).expect(text);
            let document = Document::parse(changed.as_str()).expect("TOML");
            let path = document["dependencies"]["fdr"]["path"].as_str();
            assert_eq!(path, Some("/a b/runtime"), "{changed}");
            assert_eq!(without_dependency(&changed).as_deref(), Some(text));
            let body = changed.trim_start_matches('\u{feff}');
            let edited = format!("# mine\n{body}\n# more\n");
            let edited = without_dependency(&edited).expect("ours");
            assert!(
                edited.starts_with("# mine\n") && !edited.contains("fdr"),
                "{edited}"
            );
            assert!(Document::parse(edited).is_ok());
        }
    }

    #[test]
    fn a_persons_line_stays() {
        for text in [
            "[dependencies]\nfdr = \"1\"\n",
            "fdr = { path = \"cargo fdr\" }\n",
            "",
        ] {
            assert_eq!(without_dependency(text), None, "{text}");
        }
    }

    #[test]
    fn what_leaves_no_place_is_an_error() {
        for text in [
            "dependencies = { a = \"1\" }\n",
            "dependencies.a = \"1\"\n[package]\nname = \"a\"\n",
            "[package\n",
        ] {
            assert!(with_dependency(text, &recorder()).is_err(), "{text}");
        }
    }
}
