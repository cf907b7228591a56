//! `cargo xtask tidy`: the rules that the compiler does not know. They are about dependencies between crates and
//! between rooms, entry points of the recorder, circles of imports in the page, the places of unsafe code, file heads,
//! test files that no program includes, and links between pages. Each finding names the place and what to do. Rules are
//! functions of text, so that each has a test with a tree that breaks it.

pub(crate) mod crates;
mod entry_points;
mod links;
mod modules;
mod page;
mod rooms;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};
use xtask::Result;
use xtask::process::root;

/// The page that has the tables of crates and of rooms.
const PAGE: &str = "ARCHITECTURE.md";

/// The cells of each row of a page's table, whose head begins with `head`.
fn table_rows<'a>(page: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let lines = page.lines().skip_while(|line| !line.starts_with(head));
    // The second line is the rule below the head.
    let rows = lines.skip(2).map_while(|line| line.strip_prefix('|'));
    let is_mark = |letter| letter == ' ' || letter == '`';
    rows.map(|row| {
        row.split('|')
            .map(|cell| cell.trim_matches(is_mark))
            .collect()
    })
    .collect()
}

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Relative to the workspace.
    path: String,
    /// From 1; 0: the file as a whole.
    line: usize,
    /// What is wrong, and what to do.
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Prints every finding.
///
/// # Errors
///
/// If there is one, or a file or the crates' graph cannot be read.
pub(crate) fn run() -> Result<()> {
    let root = root();
    let page = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let mut findings = tree(&root)?;
    findings.extend(rooms::check(&root, &page)?);
    findings.extend(entry_points::check(&root)?);
    findings.extend(page::check(&root)?);
    findings.extend(crates::check(&root, &page)?);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("{count} findings")),
    }
}

/// Checks every text file of a tree, and the links between its pages.
fn tree(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let (mut paths, mut pages) = (BTreeSet::new(), Vec::new());
    let mut texts = BTreeMap::new();
    for file in list(root)? {
        let path = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .to_string_lossy()
            .into_owned();
        if source::is_text(&path) {
            let text = fs::read_to_string(&file).map_err(|error| format!("{path}: {error}"))?;
            findings.extend(source::check(&path, &text));
            if path.ends_with(".md") {
                pages.push((path.clone(), text));
            } else {
                texts.insert(path.clone(), text);
            }
        }
        paths.insert(path);
    }
    findings.extend(links::check(&pages, &paths));
    findings.extend(modules::check(&texts));
    Ok(findings)
}

/// The files below a folder, sorted; except below build folders, other people's packages, and what is hidden (but for
/// our own hidden folder).
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_ours = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        let is_hidden = name.starts_with('.') && name != ".ci";
        let is_others = matches!(&*name, "target" | "node_modules");
        entry.depth() == 0 || entry.file_type().is_file() || !is_hidden && !is_others
    };
    let mut files = Vec::new();
    for entry in WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(is_ours)
    {
        let entry = entry.map_err(|error| error.to_string())?;
        if entry.file_type().is_file() {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_tree_is_caught() {
        let root = xtask::process::work_folder(&format!("tidy-test-{}", std::process::id()))
            .expect("a folder");
        let files = [
            ("formats/src/lib.rs", "//! Formats.\n"),
            ("cli/src/lib.rs", "fn main() {}\n"),
            (
                "runtime/src/shell/mod.rs",
                "//! Shell.\n#[ignore]\nfn f() {}\n",
            ),
            ("target/debug/x.rs", "not looked at\n"),
            (".git/x.rs", "not looked at\n"),
        ];
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let findings = tree(&root).expect("the tree can be read");
        fs::remove_dir_all(&root).expect("the tree can be removed");
        let places: Vec<_> = findings.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(
            places,
            [("cli/src/lib.rs", 1), ("runtime/src/shell/mod.rs", 2)]
        );
        assert!(findings[0].to_string().starts_with("cli/src/lib.rs:1: "));
    }
}
