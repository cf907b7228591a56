//! The rules about rooms: which parts of the recorder may use which others, and no circle between the parts of
//! the formats. A room is a file or a folder beside a crate's `lib.rs`. The rules read paths that begin with
//! `crate::` or `super::`, outside of tests. Tests may use every room.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::Finding;
use super::lexer::code_only;
use xtask::Result;

/// The recorder's rooms from the lowest to the highest, and the rooms that each one uses. A room uses lower
/// rooms only, so there is no circle.
const RUNTIME: [Row; 19] = [
    ("api", &[]),
    ("config", &[]),
    ("primitive", &[]),
    ("sys", &[]),
    ("messages", &["config", "sys"]),
    ("clock", &["config"]),
    ("ring", &["clock", "primitive", "sys"]),
    ("site", &["primitive", "ring", "sys"]),
    ("recorder", &["clock", "primitive", "ring", "site", "sys"]),
    ("events", &["recorder", "site"]),
    ("private", &["events", "recorder", "site"]),
    ("sync", &["primitive", "recorder", "site"]),
    ("dump", &["clock", "primitive", "ring", "sys"]),
    (
        "crash",
        &[
            "clock",
            "dump",
            "messages",
            "primitive",
            "recorder",
            "ring",
            "site",
            "sys",
        ],
    ),
    (
        "shell",
        &[
            "api", "clock", "config", "crash", "dump", "events", "messages", "recorder", "ring",
            "site", "sys",
        ],
    ),
    ("dynamic", &["events", "recorder", "shell", "site"]),
    ("load", &["recorder", "shell"]),
    ("on", &["api", "config", "shell"]),
    ("off", &["api", "config"]),
];

/// A room and the rooms that it uses.
type Row = (&'static str, &'static [&'static str]);

/// The formats. None of them uses another one, but for [`FORMAT_ARROWS`]. Only `registry` names them all.
const FORMATS: [&str; 7] = [
    "ctf", "entrace", "heph", "htdump", "ring", "tcstate", "xray",
];

/// A ring's chunks are XRay buffers.
const FORMAT_ARROWS: [(&str, &str); 1] = [("ring", "xray")];

/// The beginning of names at a crate's root that are no rooms: macros that expansions name.
const MACRO: &str = "__fdr_";

/// The one type that expansions name at the root, because it is a part of the API.
const SPAN: &str = "Span";

/// Where the table above is.
const TABLE: &str = "xtask/src/tidy/rooms.rs";

/// Where the table is told to people.
const PAGE: &str = "ARCHITECTURE.md";

/// One room's use of another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arrow {
    from: String,
    to: String,
    path: String,
    line: usize,
}

/// A file of a crate: its path relative to the crate's `src`, and its text.
type Source = (String, String);

/// Checks both crates, and the page that has the table.
///
/// # Errors
///
/// If a file cannot be read.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let runtime = sources(&root.join("runtime/src"))?;
    let formats = sources(&root.join("formats/src"))?;
    let page = read(&root.join(PAGE))?;
    let mut findings = table(&RUNTIME, "runtime/src", &runtime);
    findings.extend(told(&RUNTIME, &page));
    let arrows = arrows("formats/src", &formats);
    findings.extend(circles(&arrows));
    findings.extend(formats_apart(&arrows));
    Ok(findings)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn sources(folder: &Path) -> Result<Vec<Source>> {
    let mut files: Vec<PathBuf> = Vec::new();
    super::list(folder, &mut files)?;
    files.sort();
    let mut sources = Vec::new();
    for file in files {
        let path = file.strip_prefix(folder).unwrap_or(&file);
        let path = path.to_string_lossy().into_owned();
        if path.ends_with(".rs") {
            sources.push((path, read(&file)?));
        }
    }
    Ok(sources)
}

/// Holds a crate to its table, and the table to the crate.
fn table(rows: &[Row], folder: &str, sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let arrows = arrows(folder, sources);
    let rooms: BTreeSet<&str> = sources.iter().map(|(path, _)| room(path)).collect();
    let row = |name: &str| rows.iter().position(|(room, _)| *room == name);
    for room in rooms.iter().filter(|&&room| !is_root(room)) {
        if row(room).is_none() {
            let what = format!("the room {room} is not in the table of {folder}: add it");
            findings.push(Finding::new(TABLE, 0, what));
        }
    }
    for arrow in &arrows {
        let Some(at) = row(&arrow.from) else { continue };
        if !rows[at].1.contains(&arrow.to.as_str()) {
            let what = match row(&arrow.to) {
                Some(_) => format!(
                    "{} must not use {}: see {PAGE} for the order of rooms",
                    arrow.from, arrow.to
                ),
                None => format!("{} is no room: name its room", arrow.to),
            };
            findings.push(Finding::new(&arrow.path, arrow.line, what));
        }
    }
    for (at, (from, uses)) in rows.iter().enumerate() {
        if !rooms.contains(from) {
            let what = format!("{folder} has no room {from}: take it out of the table");
            findings.push(Finding::new(TABLE, 0, what));
            continue;
        }
        for to in *uses {
            let used = arrows
                .iter()
                .any(|arrow| arrow.from == *from && arrow.to == *to);
            if !used {
                let what = format!("{from} may use {to}, but does not: take it out of the table");
                findings.push(Finding::new(TABLE, 0, what));
            }
            if row(to).is_none_or(|below| below >= at) {
                let what = format!("{from} uses {to}, which is no lower room: change the order");
                findings.push(Finding::new(TABLE, 0, what));
            }
        }
    }
    findings
}

/// Holds the page to the table: a row for each room begins with its name and the rooms that it uses.
fn told(rows: &[Row], page: &str) -> Vec<Finding> {
    let row = |(room, uses): &Row| {
        let uses = match uses {
            [] => "no other".to_owned(),
            uses => uses.join(", "),
        };
        format!("| `{room}` | {uses} |")
    };
    rows.iter()
        .map(row)
        .filter(|row| !page.lines().any(|line| line.starts_with(row)))
        .map(|row| Finding::new(PAGE, 0, format!("the map of rooms lacks the row `{row}`")))
        .collect()
}

/// Finds the rooms that use each other in a circle.
fn circles(arrows: &[Arrow]) -> Vec<Finding> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for arrow in arrows {
        uses.entry(&arrow.from).or_default().insert(&arrow.to);
        uses.entry(&arrow.to).or_default();
    }
    // A room that uses no other is in no circle. Without it, the next one may use no other.
    while let Some(free) = uses
        .iter()
        .find(|(_, uses)| uses.is_empty())
        .map(|(&room, _)| room)
    {
        uses.remove(free);
        uses.values_mut().for_each(|uses| {
            uses.remove(free);
        });
    }
    let reaches = |from: &str, goal: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(room) = next.pop() {
            for &to in uses.get(room).into_iter().flatten() {
                if to == goal {
                    return true;
                }
                if seen.insert(to) {
                    next.push(to);
                }
            }
        }
        false
    };
    arrows
        .iter()
        .filter(|arrow| reaches(&arrow.to, &arrow.from))
        .map(|arrow| {
            let (from, to) = (&arrow.from, &arrow.to);
            let what = format!(
                "{from} uses {to}, and {to} uses {from} or what leads to it: cut the circle"
            );
            Finding::new(&arrow.path, arrow.line, what)
        })
        .collect()
}

/// Finds a format that is named by another one, or by a room that all of them use.
fn formats_apart(arrows: &[Arrow]) -> Vec<Finding> {
    let bad = |arrow: &&Arrow| {
        FORMATS.contains(&arrow.to.as_str())
            && arrow.from != "registry"
            && !FORMAT_ARROWS.contains(&(&arrow.from, &arrow.to))
    };
    arrows
        .iter()
        .filter(bad)
        .map(|arrow| {
            let what = format!("{} must not name the format {}", arrow.from, arrow.to);
            Finding::new(&arrow.path, arrow.line, what)
        })
        .collect()
}

fn is_root(room: &str) -> bool {
    matches!(room, "lib" | "main")
}

/// The room of a file: the first part of its path.
fn room(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Whether a file is part of the tests.
fn is_test(path: &str) -> bool {
    path.split('/').any(|part| {
        let name = part.strip_suffix(".rs").unwrap_or(part);
        name == "tests" || name.ends_with("_tests")
    })
}

/// How many modules a file is in, itself included.
fn depth(path: &str) -> usize {
    let parts = path.split('/').count();
    parts - usize::from(path.ends_with("/mod.rs"))
}

/// Every use of another room, but for those of the crate's root.
fn arrows(folder: &str, sources: &[Source]) -> Vec<Arrow> {
    let mut arrows = Vec::new();
    for (path, text) in sources {
        let from = room(path);
        if is_root(from) || is_test(path) {
            continue;
        }
        for (to, line) in names(&code_only(text), depth(path)) {
            if to != from && !to.starts_with(MACRO) && to != SPAN {
                arrows.push(Arrow {
                    from: from.to_owned(),
                    to,
                    path: format!("{folder}/{path}"),
                    line,
                });
            }
        }
    }
    arrows
}

/// A word or a sign, and its line.
type Token<'a> = (&'a str, usize);

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |letter: char| letter == '_' || letter.is_alphanumeric();
            let end = match is_word(first) {
                true => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
                false if rest.starts_with("::") => 2,
                false => first.len_utf8(),
            };
            tokens.push((&rest[..end], number + 1));
            rest = rest[end..].trim_start();
        }
    }
    tokens
}

/// The names that follow a crate's root in the paths of a file, and their lines. `depth`: how many modules the
/// file is in.
fn names(code: &str, depth: usize) -> Vec<(String, usize)> {
    let tokens = tokens(code);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.0);
    let mut found = Vec::new();
    // The braces that are open, and whether each one is a module's.
    let mut braces = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match word(at) {
            "#" if is_test_attribute(&tokens, at) => {
                at = end_of_item(&tokens, at);
                continue;
            }
            "{" => braces.push(at >= 2 && word(at - 2) == "mod"),
            "}" => {
                braces.pop();
            }
            "crate" if word(at + 1) == "::" => found.extend(first_names(&tokens, at + 2)),
            "super" if word(at + 1) == "::" => {
                let mut ups = 1;
                while word(at + 2) == "super" && word(at + 3) == "::" {
                    ups += 1;
                    at += 2;
                }
                let inner = braces.iter().filter(|&&is_module| is_module).count();
                if ups == depth + inner {
                    found.extend(first_names(&tokens, at + 2));
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The first name of a path, or of each path of a group.
fn first_names(tokens: &[Token<'_>], at: usize) -> Vec<(String, usize)> {
    let mut names = Vec::new();
    let Some(&(first, line)) = tokens.get(at) else {
        return names;
    };
    if first != "{" {
        return vec![(first.to_owned(), line)];
    }
    let (mut depth, mut begins) = (0, false);
    for &(word, line) in &tokens[at..] {
        match word {
            "{" => {
                depth += 1;
                begins = depth == 1;
            }
            "}" => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            "," => begins = depth == 1,
            _ if begins => {
                names.push((word.to_owned(), line));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

/// Whether an attribute makes its item a part of tests alone.
fn is_test_attribute(tokens: &[Token<'_>], at: usize) -> bool {
    let words = tokens[at..].iter().map(|token| token.0);
    let words: Vec<&str> = words.take_while(|&word| word != "]").collect();
    match words.as_slice() {
        ["#", "[", "test", ..] => true,
        ["#", "[", "cfg", "(", rest @ ..] => {
            rest.first() != Some(&"not") && rest.contains(&"test") && !rest.contains(&"any")
        }
        _ => false,
    }
}

/// The place behind the item that begins with the attribute at `at`.
fn end_of_item(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (nth, (word, _)) in tokens.iter().enumerate().skip(at) {
        match *word {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && *word == "}" {
                    return nth + 1;
                }
            }
            ";" if depth == 0 => return nth + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests;
