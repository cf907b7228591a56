//! The path of an output, and its name if the user gives none.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fdr_formats::registry::of_folder;
use fdr_formats::writer::Target;

use super::target::{Parser, for_parser};
use crate::input::{self, packed};
use crate::ui;

/// The output's path for a trace of that name. `-o` names a file or a folder. It names a folder if there are `several`
/// traces, if it ends with `/`, or if there is a folder of that name that is no trace. Without `-o`, the output goes
/// into `folder`.
///
/// # Errors
/// Where the folder can't be made.
pub(crate) fn output(
    output: Option<&Path>,
    several: bool,
    folder: &Path,
    name: &OsStr,
) -> anyhow::Result<PathBuf> {
    let Some(output) = output else {
        return Ok(folder.join(name));
    };
    if output.as_os_str() == "-" {
        bail!("-o -: give a file or a folder; fdr convert RING --to FORMAT -o - writes to a pipe");
    }
    let named_so = output.as_os_str().as_bytes().ends_with(b"/");
    if several || named_so || (output.is_dir() && of_folder(output).is_none()) {
        fs::create_dir_all(output).with_context(|| ui::path(output))?;
        return Ok(output.join(name));
    }
    Ok(output.to_owned())
}

/// What a new trace is called: the trace's name with the end that the format has.
pub(crate) fn default_name(trace: &Path, target: &Target) -> OsString {
    let plain = packed::plain_name(trace);
    let trace = plain.as_deref().unwrap_or(trace);
    let known = |end: &str| for_parser(Parser::WithExports).any(|target| target.extension == end);
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
pub(crate) fn default_output(trace: &Path, target: &Target) -> anyhow::Result<PathBuf> {
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
    use fdr_formats::registry::targets;

    use super::*;

    #[test]
    fn outputs_are_files_or_go_into_folders() {
        let name = OsStr::new("app.7.fdr");
        let of = |asked: Option<&str>, several| {
            output(asked.map(Path::new), several, Path::new("/r"), name).unwrap()
        };
        assert_eq!(of(None, true), Path::new("/r/app.7.fdr"));
        assert_eq!(of(Some("x.fdr"), false), Path::new("x.fdr"));
        let folder = std::env::temp_dir();
        let folder = folder.to_str().unwrap();
        assert_eq!(of(Some(folder), false), Path::new(folder).join(name));
        assert!(output(Some(Path::new("-")), false, Path::new("/r"), name).is_err());
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
