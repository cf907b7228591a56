//! The formats of `fdr convert`: their names, their help, and what an output is called where nobody says it. The
//! registry is the list, and [`EXPORTS`] that of formats which are only written. Except for the help text, nothing in
//! here may know a format.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::builder::{PossibleValue, TypedValueParser};
use fdr_formats::filter::near;
use fdr_formats::registry::{is_converted, targets};
use fdr_formats::writer::{Kind, Target};

use super::export::EXPORTS;
use super::map;
use crate::input::{self, packed};
use crate::ui;

/// Reads a format's name, in capital letters or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Parser {
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
        Some(Box::new(known(*self).map(value)))
    }
}

/// The formats that an option takes.
fn known(parser: Parser) -> impl Iterator<Item = &'static Target> {
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
    let mut all = known(parser);
    all.find(|target| target.name == lower).ok_or_else(|| {
        let near = near(known(parser).map(|target| target.name), name);
        let near = near.map_or(String::new(), |near| format!("; the nearest is {near}"));
        let list = match parser {
            Parser::WithExports => list(),
            _ => format!("Formats:\n{}", lines(known(parser))),
        };
        let is_other = known(Parser::WithExports).any(|target| target.name == lower);
        let what = match is_other {
            true => "only `fdr convert` writes this, of a trace",
            false => "there is no such format",
        };
        format!("{what}{near}\n\n{}", list.trim_end())
    })
}

/// Every format with its title, a line each.
fn list() -> String {
    format!(
        "Formats:\n{}\nExports, which fdr does not read:\n{}",
        lines(targets()),
        lines(written_only())
    )
}

fn lines(targets: impl Iterator<Item = &'static Target>) -> String {
    let width = known(Parser::WithExports)
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

/// The end of the help text.
pub(super) fn help() -> String {
    format!("{}\n{HELP}", list())
}

const HELP: &str = "\
The new trace is made under a temporary name beside its own. It gets its name
when it is whole. fdr counts and reports what the format can't hold. A damaged
trace is converted as far as it can be read.

Memory does not grow with the trace. Most formats are written while the trace
is read. Heph and HTDUMP have one record per call, which is written when the
call has ended; open calls take memory. XRay, ENTRACE and Trace Compass's
states are in order of time over all threads, or have sizes in front. So they
can be written only after the last event. From 64 MiB on they keep the events
in a file without a name in TMPDIR.

Exports are for other people's viewers. docs/exports.md says what each keeps,
and how to open it. The trace is read twice. Those of Perfetto, Chrome, OTLP,
CSV and JSON lines are written while it is read; the others are made at the end.
A map has the functions' names for llvm-xray, which reads only XRay. Traces that
fdr converts into XRay keep their function ids, so the map fits them, too.

Examples:
  fdr convert app.fdr --to heph     app.heph, beside it
  fdr convert app.fdr --to ctf -o traces/app
      a folder, for babeltrace2 and Trace Compass
  fdr convert app.fdr --to htdump -o - | gzip > app.htdump.gz
  fdr convert app.htdump --to xray  and back, with names, counts and times
  fdr convert 1234 --to iet-prefix2 -o tcp://127.0.0.1:8000
      the ring of process 1234, to ENTRACE's viewer, which listens there
  fdr convert app.fdr --to perfetto --last 2s
      app.perfetto-trace, for ui.perfetto.dev
  fdr convert app.fdr --to map      app.map, and then, with XRay's traces:
  llvm-xray account -m app.map app.fdr";

/// What a new trace is called: the trace's name with the end that the format has.
pub(super) fn default_name(trace: &Path, target: &Target) -> OsString {
    let plain = packed::plain_name(trace);
    let trace = plain.as_deref().unwrap_or(trace);
    let known = |end: &str| known(Parser::WithExports).any(|target| target.extension == end);
    let end = trace.extension().and_then(|end| end.to_str());
    let whole = if input::is_standard(trace) {
        "stdin".as_ref()
    } else {
        trace
    };
    let name = match end {
        Some(end) if known(end) => trace.file_stem(),
        // Its last part is a number, or something else that tells traces apart.
        _ => whole.file_name(),
    };
    let mut name = name.unwrap_or(OsStr::new("trace")).to_owned();
    name.push(".");
    name.push(target.extension);
    name
}

/// The same, beside the trace.
///
/// # Errors
/// Where that is the trace itself, or nothing has a name.
pub(super) fn default_output(trace: &Path, target: &Target) -> anyhow::Result<PathBuf> {
    if trace.file_name().is_none() || input::is_standard(trace) {
        bail!("{}: give the new trace a name: -o", ui::path(trace));
    }
    let output = trace.with_file_name(default_name(trace, target));
    if output == trace {
        let trace = ui::path(trace);
        bail!("{trace}: the new trace would have the same name; -o gives another");
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_or_explained() {
        for target in known(Parser::WithExports) {
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
        for target in known(Parser::WithExports) {
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

    #[test]
    fn an_output_is_named_after_its_trace() {
        let mut other = *targets().next().unwrap();
        let own = other.extension;
        other.extension = "other";
        let name = |trace: &str| default_output(Path::new(trace), &other);
        let is = |trace: &str, wanted: &str| {
            assert_eq!(name(trace).unwrap(), Path::new(wanted), "{trace}");
        };
        is(&format!("a/app.7.1.{own}"), "a/app.7.1.other");
        is("app.7.1", "app.7.1.other");
        is(&format!("a/app.7.1.{own}.zst"), "a/app.7.1.other");
        is("a/app.tar.zst", "a/app.other");
        is("a b/", "a b.other");
        assert!(name("..").is_err());
        other.extension = own;
        assert!(default_output(&PathBuf::from(format!("x.{own}")), &other).is_err());
        let packed = default_output(&PathBuf::from(format!("x.{own}.zst")), &other);
        assert_eq!(packed.unwrap(), PathBuf::from(format!("x.{own}")));
    }
}
