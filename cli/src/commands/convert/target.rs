//! The formats of `fdr convert`: their names, their help, and what an output is called where nobody
//! says it. The registry is the list; but for the help text, nothing in here may know a format.

use std::path::{Path, PathBuf};

use anyhow::bail;
use fdr_formats::filter::nearest;
use fdr_formats::registry::{self, targets};
use fdr_formats::writer::{Kind, Target};

use crate::{packed, ui};

/// The format of that name, in capital letters or not.
///
/// # Errors
/// The nearest names, and all there are.
pub(in crate::commands) fn parse(name: &str) -> Result<&'static Target, String> {
    registry::target(&name.to_lowercase()).ok_or_else(|| {
        let near = nearest(targets().map(|target| target.name), name, 1);
        let near = near.first().copied().unwrap_or_default();
        format!(
            "there is no such format; the nearest is {near}\n\n{}",
            list()
        )
    })
}

/// Every format with its title, a line each.
fn list() -> String {
    let width = targets().map(|target| target.name.len()).max();
    let width = width.unwrap_or_default();
    let line = |target: &Target| {
        let shape = match target.kind {
            Kind::Folder => " (a folder)",
            Kind::File | Kind::Stream => "",
        };
        format!("  {:width$}  {}{shape}\n", target.name, target.title)
    };
    let lines: String = targets().map(line).collect();
    format!("Formats:\n{lines}")
}

/// The end of the help text.
pub(super) fn help() -> String {
    format!("{}\n{HELP}", list())
}

const HELP: &str = "\
The new trace is made under a temporary name beside its own, and is there only when it is whole. What
the format can't hold is said, with counts. A damaged trace is converted as far as it can be read.

Memory does not grow with the trace, and most formats are written as it is read. Where a call is one
record, it is written when it has ended: Heph and HTDUMP (memory: the calls that are open). In the
order of time over all threads, or with sizes in front, nothing can be written before the last event
is known: XRay, ENTRACE and Trace Compass's states keep what comes, from 64 MiB on in a file without a
name in TMPDIR.

Examples:
  fdr convert app.fdr --to heph                  app.heph, beside it
  fdr convert app.fdr --to ctf -o traces/app     a folder, for babeltrace2 and Trace Compass
  fdr convert app.fdr --to htdump -o - | gzip > app.htdump.gz
  fdr convert app.htdump --to xray               and back, with names, counts and times";

/// The trace's name with the end that the format has.
///
/// # Errors
/// Where that is the trace itself.
pub(super) fn default_output(trace: &Path, target: &Target) -> anyhow::Result<PathBuf> {
    let plain = packed::plain_name(trace);
    let (trace, packed) = (plain.as_deref().unwrap_or(trace), trace);
    let known = |end: &str| targets().any(|target| target.extension == end);
    let end = trace.extension().and_then(|end| end.to_str());
    let output = match (trace.file_name(), end) {
        (None, _) => bail!("{}: give the new trace a name: -o", ui::path(trace)),
        (Some(_), Some(end)) if known(end) => trace.with_extension(target.extension),
        // Its last part is a number, or something else that tells traces apart.
        (Some(name), _) => {
            let mut name = name.to_owned();
            name.push(".");
            name.push(target.extension);
            trace.with_file_name(name)
        }
    };
    if output == packed {
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
        for target in targets() {
            assert_eq!(parse(target.name).unwrap().title, target.title);
            let loud = target.name.to_uppercase();
            assert_eq!(parse(&loud).unwrap().title, target.title);
        }
        let first = targets().next().unwrap();
        let error = parse(&format!("{}x", first.name)).unwrap_err();
        let near = format!("the nearest is {}\n", first.name);
        assert!(error.contains(&near), "{error}");
        for target in targets() {
            assert!(error.contains(target.title), "{error}");
        }
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
