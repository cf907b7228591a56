//! The rules about rooms: which parts of the recorder may use which others, and no circle between the parts of
//! the formats. A room is a file or a folder beside a crate's `lib.rs`. The rules read paths that begin with
//! `crate::` or `super::`, outside of tests. Tests may use every room.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

use super::{Finding, PAGE};
use xtask::Result;

/// A room and the rooms that it uses.
type Row<'a> = (&'a str, Vec<&'a str>);

/// The beginning of the head of the table of the recorder's rooms, from the lowest to the highest. A room uses lower
/// rooms only, so there is no circle.
const RUNTIME: &str = "| runtime/ |";

/// The formats. No format uses another one, except by [`FORMAT_ARROWS`]. Only `registry` names all of them.
const FORMATS: [&str; 7] = [
    "ctf", "entrace", "heph", "htdump", "ring", "tcstate", "xray",
];

/// A ring's chunks are XRay buffers.
const FORMAT_ARROWS: [(&str, &str); 1] = [("ring", "xray")];

/// The crates whose rooms have no circles inside.
const INSIDE: [&str; 3] = ["runtime/src", "formats/src", "cli/src"];

/// The beginning of names at a crate's root that are no rooms: macros that expansions name.
const MACRO: &str = "__fdr_";

/// The one type that expansions name at the root, because it is a part of the API.
const SPAN: &str = "Span";

/// One room's use of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) path: String,
    pub(super) line: usize,
}

/// A file of a crate: its path relative to the crate's `src`, and its text.
pub(super) type Source = (String, String);

/// Checks the crates. The page has the table of the recorder's rooms.
///
/// # Errors
///
/// If a file cannot be read, or is no Rust.
pub(super) fn check(root: &Path, page: &str) -> Result<Vec<Finding>> {
    let runtime = sources(&root.join("runtime/src"))?;
    let formats = sources(&root.join("formats/src"))?;
    let mut findings = table(&rows(page), "runtime/src", &runtime)?;
    let arrows = arrows("formats/src", &formats)?;
    findings.extend(circles(&arrows));
    findings.extend(formats_apart(&arrows));
    for folder in INSIDE {
        findings.extend(circles_inside(folder, &sources(&root.join(folder))?)?);
    }
    Ok(findings)
}

/// The rows of the page's table. What a room uses is `no other`, or names with commas between.
fn rows(page: &str) -> Vec<Row<'_>> {
    let rows = super::table_rows(page, RUNTIME).into_iter();
    rows.filter_map(|cells| match *cells {
        [room, "no other", ..] => Some((room, Vec::new())),
        [room, uses, ..] => Some((room, uses.split(", ").collect())),
        _ => None,
    })
    .collect()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(super) fn sources(folder: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for file in super::list(folder)? {
        let path = file.strip_prefix(folder).unwrap_or(&file);
        let path = path.to_string_lossy().into_owned();
        if path.ends_with(".rs") {
            sources.push((path, read(&file)?));
        }
    }
    Ok(sources)
}

/// Holds a crate to its table, and the table to the crate.
fn table(rows: &[Row<'_>], folder: &str, sources: &[Source]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let arrows = arrows(folder, sources)?;
    let rooms: BTreeSet<&str> = sources.iter().map(|(path, _)| room(path)).collect();
    let row = |name: &str| rows.iter().position(|(room, _)| *room == name);
    for room in rooms.iter().filter(|&&room| !is_root(room)) {
        if row(room).is_none() {
            let what = format!("the room {room} is not in the table of {folder}: add it");
            findings.push(Finding::new(PAGE, 0, what));
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
            findings.push(Finding::new(PAGE, 0, what));
            continue;
        }
        for to in uses {
            let used = arrows
                .iter()
                .any(|arrow| arrow.from == *from && arrow.to == *to);
            if !used {
                let what = format!("{from} may use {to}, but does not: take it out of the table");
                findings.push(Finding::new(PAGE, 0, what));
            }
            if row(to).is_none_or(|below| below >= at) {
                let what = format!("{from} uses {to}, which is no lower room: change the order");
                findings.push(Finding::new(PAGE, 0, what));
            }
        }
    }
    Ok(findings)
}

/// Finds the rooms that use each other in a circle.
pub(super) fn circles(arrows: &[Arrow]) -> Vec<Finding> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for arrow in arrows {
        uses.entry(&arrow.from).or_default().insert(&arrow.to);
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
pub(super) fn room(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Whether a file is part of the tests.
pub(super) fn is_test(path: &str) -> bool {
    path.split('/').any(|part| {
        let name = part.strip_suffix(".rs").unwrap_or(part);
        name == "tests" || name.ends_with("_tests")
    })
}

/// The module of a file, as the names from the crate's root to it.
pub(super) fn module(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').map(str::to_owned).collect()
}

/// A path that a file names, from the crate's root, and its line.
pub(super) type Named = (Vec<String>, usize);

/// The paths that each file names, outside of tests.
///
/// # Errors
///
/// If a file is no Rust.
pub(super) fn named<'a>(folder: &str, sources: &'a [Source]) -> Result<Vec<(&'a str, Vec<Named>)>> {
    let mut files = Vec::new();
    for (path, text) in sources {
        if is_root(room(path)) || is_test(path) {
            continue;
        }
        let bad = |error| format!("{folder}/{path}: {error}");
        let code = text.parse().map_err(|error: LexError| bad(error))?;
        let mut found = Vec::new();
        names(code, &module(path), &mut found);
        files.push((path.as_str(), found));
    }
    Ok(files)
}

/// Every use of another room, but for those of the crate's root.
///
/// # Errors
///
/// If a file is no Rust.
fn arrows(folder: &str, sources: &[Source]) -> Result<Vec<Arrow>> {
    let mut arrows = Vec::new();
    for (path, found) in named(folder, sources)? {
        let from = room(path);
        for (names, line) in found {
            let Some(to) = names.into_iter().next() else {
                continue;
            };
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
    arrows.dedup();
    Ok(arrows)
}

/// Finds the parts of a room that use each other in a circle, in each room of a crate and in each room of a room. What
/// a room's `mod.rs` holds is for all of its parts.
///
/// # Errors
///
/// If a file is no Rust.
fn circles_inside(folder: &str, sources: &[Source]) -> Result<Vec<Finding>> {
    let files = named(folder, sources)?;
    let modules: BTreeSet<Vec<String>> = files.iter().map(|(path, _)| module(path)).collect();
    let rooms: BTreeSet<&[String]> = modules
        .iter()
        .flat_map(|module| (1..module.len()).map(|length| &module[..length]))
        .collect();
    let mut findings = Vec::new();
    for room in rooms {
        let part = |names: &[String]| {
            let inside = names.strip_prefix(room)?;
            let is_part = modules.iter().any(|module| {
                module.strip_prefix(room).and_then(|inside| inside.first()) == inside.first()
            });
            inside.first().filter(|_| is_part).cloned()
        };
        let mut arrows = Vec::new();
        for (path, found) in &files {
            let Some(from) = part(&module(path)) else {
                continue;
            };
            let others = found
                .iter()
                .filter_map(|(names, line)| Some((part(names)?, *line)));
            arrows.extend(
                others
                    .filter(|(to, _)| *to != from)
                    .map(|(to, line)| Arrow {
                        from: from.clone(),
                        to,
                        path: format!("{folder}/{path}"),
                        line,
                    }),
            );
        }
        findings.extend(circles(&arrows));
    }
    Ok(findings)
}

/// Finds the paths in the code of a module that begin at the crate's root. It reads tokens and no tree of `syn`,
/// because the arguments of macros contain paths, too, and `syn` does not parse these arguments.
fn names(code: TokenStream, module: &[String], found: &mut Vec<Named>) {
    let tokens: Vec<TokenTree> = code.into_iter().collect();
    let mut rest = tokens.as_slice();
    while let [first, behind @ ..] = rest {
        if begins_test(rest) {
            rest = behind_item(rest);
            continue;
        }
        rest = behind;
        match first {
            TokenTree::Ident(word) if word == "crate" => found.extend(paths(&[], rest)),
            TokenTree::Ident(word) if word == "self" => found.extend(paths(module, rest)),
            TokenTree::Ident(word) if word == "super" => {
                let mut around = module.split_last();
                while let [_, _, TokenTree::Ident(word), behind @ ..] = rest
                    && word == "super"
                {
                    around = around.and_then(|(_, around)| around.split_last());
                    rest = behind;
                }
                if let Some((_, around)) = around {
                    found.extend(paths(around, rest));
                }
            }
            TokenTree::Ident(word) if word == "mod" => {
                if let [TokenTree::Ident(name), TokenTree::Group(body), behind @ ..] = rest {
                    let inner = [module, &[name.to_string()]].concat();
                    names(body.stream(), &inner, found);
                    rest = behind;
                }
            }
            TokenTree::Group(group) => names(group.stream(), module, found),
            _ => {}
        }
    }
}

/// The path that goes on behind `around`, or each path of a group.
fn paths(around: &[String], behind: &[TokenTree]) -> Vec<Named> {
    let [colon, second, first, rest @ ..] = behind else {
        return Vec::new();
    };
    if !is_sign(colon, ':') || !is_sign(second, ':') {
        return Vec::new();
    }
    let line = first.span().start().line;
    match first {
        TokenTree::Group(group) => {
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            let mut found = Vec::new();
            for path in tokens.split(|tree| is_sign(tree, ',')) {
                found.extend(
                    path.split_first()
                        .into_iter()
                        .flat_map(|(name, rest)| behind_name(around, name, rest)),
                );
            }
            found
        }
        TokenTree::Ident(_) => behind_name(around, first, rest),
        _ => vec![(around.to_vec(), line)],
    }
}

/// The paths that begin with `name`.
fn behind_name(around: &[String], name: &TokenTree, rest: &[TokenTree]) -> Vec<Named> {
    let line = name.span().start().line;
    let around = match name.to_string().as_str() {
        "self" => around.to_vec(),
        name => [around, &[name.to_owned()]].concat(),
    };
    let further = paths(&around, rest);
    match further.is_empty() {
        true => vec![(around, line)],
        false => further,
    }
}

pub(super) fn is_sign(tree: &TokenTree, sign: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// Whether an item of tests alone begins here, with the attribute that makes it one.
pub(super) fn begins_test(tokens: &[TokenTree]) -> bool {
    let [sign, TokenTree::Group(attribute), ..] = tokens else {
        return false;
    };
    let text = attribute.stream().to_string();
    let words = text.split(|letter: char| letter != '_' && !letter.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    is_sign(sign, '#')
        && match words.as_slice() {
            ["test", ..] => true,
            ["cfg", rest @ ..] => {
                rest.first() != Some(&"not") && rest.contains(&"test") && !rest.contains(&"any")
            }
            _ => false,
        }
}

/// What follows the item that begins here.
pub(super) fn behind_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let ends_item = |tree: &TokenTree| match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        other => is_sign(other, ';'),
    };
    let end = tokens.iter().position(ends_item);
    end.map_or(&[], |end| &tokens[end + 1..])
}

#[cfg(test)]
mod tests;
