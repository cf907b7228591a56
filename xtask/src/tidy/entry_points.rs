//! The rule about the two globals of the recorder's room `shell`: its state and its table of sites. Only the functions
//! that the room's `mod.rs` lists read them. All other functions get them as parameters. The rule reads tokens, and leaves
//! tests out.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

use super::Finding;
use super::rooms::{self, Source};
use xtask::Result;

const FOLDER: &str = "runtime/src";

/// The room, and the file of it that has the table.
const ROOM: &str = "shell";
const LIST: &str = "shell/mod.rs";

/// The functions that read the globals, each with the file that has it.
const GLOBALS: [(&str, &str); 2] = [("state", "state"), ("sites", "table")];

/// Checks the room.
///
/// # Errors
///
/// If a file cannot be read, or is no Rust.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut sources = rooms::sources(&root.join(FOLDER))?;
    sources.retain(|(path, _)| rooms::room(path) == ROOM);
    findings(&sources)
}

/// A function that reads a global: its name from the room on, the global, and where.
struct Reader<'a> {
    function: String,
    global: &'static str,
    path: &'a str,
    line: usize,
}

fn findings(sources: &[Source]) -> Result<Vec<Finding>> {
    let list = sources.iter().find(|(path, _)| path == LIST);
    let listed = listed(list.map_or("", |(_, text)| text));
    let readers = readers(sources)?;
    let mut findings = imports(sources, &listed)?;
    for reader in &readers {
        let (function, global) = (&reader.function, reader.global);
        if !listed.iter().any(|(_, listed)| listed == function) {
            let what = format!(
                "{function} reads a global by {global}(): take it as a parameter; {FOLDER}/{LIST} lists the entry \
                 points, which may read it"
            );
            findings.push(found(reader.path, reader.line, what));
        }
    }
    let read: BTreeSet<&str> = readers.iter().map(|reader| &*reader.function).collect();
    for (line, function) in listed.iter().filter(|(_, of)| !read.contains(of.as_str())) {
        let what = format!("{function} reads no global: take it out of the table of entry points");
        findings.push(found(LIST, *line, what));
    }
    Ok(findings)
}

fn found(path: &str, line: usize, what: String) -> Finding {
    Finding::new(&format!("{FOLDER}/{path}"), line, what)
}

/// The functions of the table, each with its line: each `FILE::FUNCTION` of a row's first cell.
fn listed(text: &str) -> Vec<(usize, String)> {
    let mut listed = Vec::new();
    for (nth, line) in text.lines().enumerate() {
        let Some((cell, _)) = line
            .strip_prefix("//! | ")
            .and_then(|row| row.split_once('|'))
        else {
            continue;
        };
        let words = cell.split('`').filter(|word| word.contains("::"));
        listed.extend(words.map(|word| (nth + 1, word.to_owned())));
    }
    listed
}

/// Finds files without an entry point that name the globals' functions by a path, perhaps to rename them.
fn imports(sources: &[Source], listed: &[(usize, String)]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (path, named) in rooms::named(FOLDER, sources)? {
        let file = file(path);
        let has_entry = listed.iter().any(|(_, of)| {
            let function = of.strip_prefix(&file).and_then(|of| of.strip_prefix("::"));
            function.is_some_and(|function| !function.contains("::"))
        });
        for (names, line) in named {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let is_global =
                |(of, function): &(&str, &str)| names.starts_with(&[ROOM, of, function]);
            if !has_entry && GLOBALS.iter().any(is_global) {
                let what = format!(
                    "{file} has no entry point: take {} as a parameter",
                    names.join("::")
                );
                findings.push(found(path, line, what));
            }
        }
    }
    Ok(findings)
}

/// The name of a file from the room on.
fn file(path: &str) -> String {
    rooms::module(path)[1..].join("::")
}

fn readers(sources: &[Source]) -> Result<Vec<Reader<'_>>> {
    let mut readers = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| !rooms::is_test(path)) {
        let bad = |error| format!("{FOLDER}/{path}: {error}");
        let code = text.parse().map_err(|error: LexError| bad(error))?;
        calls(code, "", &mut |function, global, line| {
            readers.push(Reader {
                function: format!("{}::{function}", file(path)),
                global,
                path,
                line,
            });
        });
    }
    Ok(readers)
}

/// Calls `found` with each call of a global's function: the function around the call, the global, and the line.
fn calls(code: TokenStream, around: &str, found: &mut dyn FnMut(&str, &'static str, usize)) {
    let tokens: Vec<TokenTree> = code.into_iter().collect();
    let mut rest = tokens.as_slice();
    // The function whose body comes next.
    let mut next = None;
    let mut is_method = false;
    while let [first, behind @ ..] = rest {
        if rooms::begins_test(rest) {
            rest = rooms::behind_item(rest);
            continue;
        }
        rest = behind;
        match (first, behind) {
            (TokenTree::Ident(word), [TokenTree::Ident(name), ..]) if word == "fn" => {
                next = Some(name.to_string());
                rest = &behind[1..];
            }
            (TokenTree::Ident(word), [TokenTree::Group(arguments), ..])
                if !is_method && is_empty(arguments) =>
            {
                let global = GLOBALS.iter().find(|(_, function)| word == function);
                if let Some((_, global)) = global {
                    found(around, global, word.span().start().line);
                }
            }
            (TokenTree::Group(body), _) if body.delimiter() == Delimiter::Brace => {
                let function = next.take();
                calls(body.stream(), function.as_deref().unwrap_or(around), found);
            }
            (TokenTree::Group(group), _) => calls(group.stream(), around, found),
            _ if rooms::is_sign(first, ';') => next = None,
            _ => {}
        }
        is_method = rooms::is_sign(first, '.');
    }
}

fn is_empty(arguments: &proc_macro2::Group) -> bool {
    arguments.delimiter() == Delimiter::Parenthesis && arguments.stream().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 4] = [
        (
            "shell/mod.rs",
            "//! | entry points | who calls them |\n//! | `exit::at_exit`, `low::deep::run` | the C library |\n",
        ),
        (
            "shell/exit.rs",
            "use super::{sites::table, state::state};\nfn at_exit() {\n    end(state(), table());\n}\n",
        ),
        (
            "shell/low/deep.rs",
            "impl Hook {\n    fn run(&self) {\n        let f = || m!(crate::shell::sites::table());\n    }\n}\n",
        ),
        (
            "shell/state.rs",
            "fn state() -> Option<State> {\n    site.state()\n}\n#[cfg(test)]\nmod tests {\n    fn t() { table() }\n}\n",
        ),
    ];

    fn refused(planted: &[(&str, &str)]) -> Vec<String> {
        let files = GOOD
            .iter()
            .filter(|(path, _)| planted.iter().all(|(of, _)| of != path));
        let owned = |&(path, text): &(&str, &str)| (path.to_owned(), text.to_owned());
        let sources: Vec<Source> = files.chain(planted).map(owned).collect();
        let findings = findings(&sources).expect("Rust");
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn entry_points_may_read_the_globals() {
        assert_eq!(refused(&[]), [""; 0]);
    }

    #[test]
    fn a_planted_reader_is_refused() {
        for (planted, function, global) in [
            ("fn f() {\n    table();\n}\n", "f", "table"),
            (
                "fn f() -> u8 {\n    m!(a, sites::table().lock());\n}\n",
                "f",
                "table",
            ),
            ("fn at_exit(\n) { other(|| state()) }\n", "at_exit", "state"),
            ("fn f();\nstatic X: S = state();\n", "", "state"),
        ] {
            let wanted = format!(
                "runtime/src/shell/dumping.rs:2: dumping::{function} reads a global by {global}(): take it as a \
                 parameter; runtime/src/shell/mod.rs lists the entry points, which may read it"
            );
            assert_eq!(refused(&[("shell/dumping.rs", planted)]), [wanted]);
        }
    }

    #[test]
    fn a_reader_beside_an_entry_is_refused() {
        let planted = "fn at_exit() {\n    table();\n}\nfn end() {\n    state();\n}\n";
        let found = refused(&[("shell/exit.rs", planted)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("runtime/src/shell/exit.rs:5: exit::end reads"));
    }

    #[test]
    fn another_name_for_a_global_is_refused() {
        for planted in [
            "\nuse super::state::{self, State, state as current};\n",
            "\nuse crate::shell::{names, state::state};\n",
        ] {
            let wanted = "runtime/src/shell/dumping.rs:2: dumping has no entry point: take shell::state::state as a \
                          parameter";
            assert_eq!(refused(&[("shell/dumping.rs", planted)]), [wanted]);
        }
    }

    #[test]
    fn a_row_without_a_reader_is_refused() {
        let found = refused(&[("shell/exit.rs", "fn at_exit() {}\n")]);
        assert_eq!(found.len(), 1, "{found:?}");
        let wanted = "runtime/src/shell/mod.rs:2: exit::at_exit reads no global";
        assert!(found[0].starts_with(wanted), "{found:?}");
    }
}
