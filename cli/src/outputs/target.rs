//! The formats that are written, by their names. The registry is the list, and [`EXPORTS`] that of formats which are only
//! written. Nothing in here may know a format.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use fdr_formats::filter::near;
use fdr_formats::registry::{is_converted, targets};
use fdr_formats::writer::{Kind, Target};

use super::export::EXPORTS;
use super::map;

/// Reads a format's name, in capital letters or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parser {
    /// Formats that a recorder writes.
    Recorded,
    /// Formats that fdr reads, too.
    Traces,
    /// All that it writes.
    WithExports,
}

impl TypedValueParser for Parser {
    type Value = &'static Target;

    fn parse_ref(
        &self,
        command: &clap::Command,
        option: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<&'static Target, clap::Error> {
        let own = *self;
        let parser = move |text: &str| parse(text, own);
        parser.parse_ref(command, option, value)
    }

    /// For completions; the help has a list with titles.
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |target: &Target| PossibleValue::new(target.name).help(target.title);
        Some(Box::new(for_parser(*self).map(value)))
    }
}

/// The formats that an option takes.
pub(super) fn for_parser(parser: Parser) -> impl Iterator<Item = &'static Target> {
    let of_recorder = parser == Parser::Recorded;
    let traces = targets().filter(move |target| !(of_recorder && is_converted(target.name)));
    traces.chain(written_only().filter(move |_| parser == Parser::WithExports))
}

/// The formats that fdr does not read.
fn written_only() -> impl Iterator<Item = &'static Target> {
    let exports = EXPORTS.iter().map(|export| &export.target);
    exports.chain([&map::TARGET])
}

/// The format of that name.
///
/// # Errors
/// The nearest name, where one is near, and all there are.
fn parse(name: &str, parser: Parser) -> Result<&'static Target, String> {
    let lower = name.to_lowercase();
    let mut all = for_parser(parser);
    all.find(|target| target.name == lower).ok_or_else(|| {
        let near = near(for_parser(parser).map(|target| target.name), name);
        let near = near.map_or(String::new(), |near| format!("; the nearest is {near}"));
        let list = match parser {
            Parser::WithExports => list(),
            _ => format!("Formats:\n{}", lines(for_parser(parser))),
        };
        let is_other = for_parser(Parser::WithExports).any(|target| target.name == lower);
        let what = match is_other {
            true => "only `fdr convert` writes this, of a trace",
            false => "there is no such format",
        };
        format!("{what}{near}\n\n{}", list.trim_end())
    })
}

/// Every format with its title, a line each.
pub(crate) fn list() -> String {
    format!(
        "Formats:\n{}\nExports, which fdr does not read:\n{}",
        lines(targets()),
        lines(written_only())
    )
}

fn lines(targets: impl Iterator<Item = &'static Target>) -> String {
    let width = for_parser(Parser::WithExports)
        .map(|target| target.name.len())
        .max();
    let width = width.unwrap_or_default();
    let line = |target: &Target| {
        let shape = match target.kind {
            Kind::Folder => " (a folder)",
            Kind::File | Kind::Stream => "",
        };
        format!("  {:width$}  {}{shape}\n", target.name, target.title)
    };
    targets.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_or_explained() {
        for target in for_parser(Parser::WithExports) {
            assert_eq!(
                parse(target.name, Parser::WithExports).unwrap().title,
                target.title
            );
            let loud = target.name.to_uppercase();
            assert_eq!(
                parse(&loud, Parser::WithExports).unwrap().title,
                target.title
            );
        }
        let first = targets().next().unwrap();
        let error = parse(&format!("{}x", first.name), Parser::Traces).unwrap_err();
        let near = format!("there is no such format; the nearest is {}\n", first.name);
        assert!(error.contains(&near), "{error}");
        let error = parse("", Parser::WithExports).unwrap_err();
        assert!(error.starts_with("there is no such format\n"), "{error}");
        for target in for_parser(Parser::WithExports) {
            assert!(error.contains(target.title), "{error}");
        }
        let error = parse("chrome", Parser::Traces).unwrap_err();
        assert!(
            error.starts_with("only `fdr convert` writes this"),
            "{error}"
        );
        assert!(!error.contains("firefox"), "{error}");
        let error = parse("ctf", Parser::Recorded).unwrap_err();
        assert!(
            error.starts_with("only `fdr convert` writes this"),
            "{error}"
        );
        assert!(error.contains("Heph") && !error.contains("CTF"), "{error}");
    }
}
