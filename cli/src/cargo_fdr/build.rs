//! `cargo fdr run`, `test`, `bench`, `build` and their like: cargo's own command on a marked copy of the workspace.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::copy;
use crate::dependencies;
use crate::manifest::Recorder;
use crate::marks::{Layout, Verdict};
use crate::plan::{Marking, Plan};
use crate::workspace::{Workspace, cargo, manifest_of};
use crate::{Selection, things};

/// Cargo's commands that build a package, with cargo's own short names.
const COMMANDS: [&str; 13] = [
    "run", "r", "test", "t", "bench", "build", "b", "check", "c", "clippy", "doc", "d", "rustc",
];

/// Ends as cargo does.
///
/// # Errors
/// Where the copy cannot be made, or cargo cannot be run.
pub(crate) fn run(
    words: &[OsString],
    selection: &Selection,
    with: &[String],
) -> anyhow::Result<()> {
    let Some((name, arguments)) = words.split_first() else {
        bail!("no command; see cargo fdr --help");
    };
    if !COMMANDS.iter().any(|command| name == command) {
        let name = name.display();
        bail!(
            "{name}: no command of cargo fdr: instrument, or run, test, bench, build, check, clippy, doc, rustc"
        );
    }
    let options = arguments
        .split(|word| word == "--")
        .next()
        .unwrap_or_default();
    if options.iter().any(|word| word == "--help" || word == "-h") {
        let name = name.display();
        println!(
            "cargo fdr [OPTIONS] {name} …: cargo {name} on a marked copy of the workspace. Below are cargo's options.\n\
             Those of cargo fdr stand before `{name}`: see cargo fdr --help.\n"
        );
        return Err(Command::new(cargo()).args(words).exec()).context("cargo cannot be run");
    }
    let (given, arguments) = manifest_argument(arguments)?;
    let manifest = manifest_of(given.as_deref().unwrap_or(Path::new(".")))?;
    let workspace = Workspace::load(&manifest)?;
    let marking = Marking {
        choice: selection.choice()?,
        layout: Layout::SameLine,
        recorder: Recorder::parse(selection.fdr.as_deref())?,
    };
    let packages: Vec<_> = workspace.members().collect();
    let plan = Plan::mark(&packages, &marking)?;
    for line in &plan.left {
        eprintln!("cargo fdr: {line}");
    }
    eprintln!("cargo fdr: {}", marked_line(&plan));
    let build = workspace.target_directory.join("fdr");
    let sources = build.join("src");
    let copies = build.join("with");
    let lock = copy::lock(&sources)?;
    let mut replaced = Vec::new();
    if !with.is_empty() {
        for (replacement, plan) in dependencies::mark(&manifest, with, &marking, &copies)? {
            let marked = plan.packages.iter().map(|of| of.marked).sum();
            let (name, version) = (&replacement.name, &replacement.version);
            eprintln!(
                "cargo fdr: {name} {version}: {} marked",
                things(marked, "function")
            );
            replaced.push(replacement);
        }
    }
    copy::update(&workspace, &plan, &replaced, &sources)?;
    drop(lock);
    let root = &workspace.workspace_root;
    let inside = manifest.strip_prefix(root).with_context(|| {
        let manifest = manifest.display();
        format!(
            "{manifest}: outside the workspace's folder {}",
            root.display()
        )
    })?;
    let mut command = Command::new(cargo());
    command
        .arg(name)
        .arg("--manifest-path")
        .arg(sources.join(inside));
    command.args(arguments).env("CARGO_TARGET_DIR", &build);
    if !replaced.is_empty() {
        dependencies::replace_compiler(&mut command, &copies)?;
    }
    let is_run = name == "run" || name == "r";
    if is_run && std::env::var_os("FDR").is_none() {
        command.env("FDR", "1");
    }
    Err(command.exec()).context("cargo cannot be run")
}

/// How many functions are marked and left out. A few that are left out are named.
fn marked_line(plan: &Plan) -> String {
    const MAX_NAMES: usize = 5;
    let (marked, left_out): (Vec<_>, Vec<_>) = plan
        .functions
        .iter()
        .map(|(_, function)| function)
        .partition(|function| function.verdict == Verdict::Marked);
    let names: Vec<&str> = left_out.iter().map(|function| &*function.name).collect();
    let named = match names.len() {
        1..=MAX_NAMES => format!(" ({})", names.join(", ")),
        _ => String::new(),
    };
    format!(
        "{} marked, {} left out{named}: `cargo fdr instrument --list` says why, and --all marks them, too",
        things(marked.len(), "function"),
        names.len()
    )
}

/// The arguments without `--manifest-path`, which names the original.
fn manifest_argument(arguments: &[OsString]) -> anyhow::Result<(Option<PathBuf>, Vec<&OsStr>)> {
    const OPTION: &str = "--manifest-path";
    let mut manifest = None;
    let mut rest: Vec<&OsStr> = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        if text == "--" {
            rest.push(argument);
            rest.extend(arguments.by_ref().map(OsString::as_os_str));
        } else if text == OPTION {
            let path = arguments.next().context("--manifest-path needs a path")?;
            manifest = Some(PathBuf::from(path));
        } else if let Some(path) = text
            .strip_prefix(OPTION)
            .and_then(|rest| rest.strip_prefix('='))
        {
            manifest = Some(PathBuf::from(path));
        } else {
            rest.push(argument);
        }
    }
    Ok((manifest, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_taken_out_of_the_arguments() {
        let split = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let (manifest, rest) = manifest_argument(&words).expect("arguments");
            let rest: Vec<String> = rest
                .iter()
                .map(|word| word.to_string_lossy().into())
                .collect();
            (manifest, rest.join(" "))
        };
        let path = |path| Some(PathBuf::from(path));
        assert_eq!(
            split(&["-r", "--manifest-path", "a", "--", "b"]),
            (path("a"), "-r -- b".into())
        );
        assert_eq!(
            split(&["--manifest-path=a/b"]),
            (path("a/b"), String::new())
        );
        assert_eq!(
            split(&["--", "--manifest-path", "c"]),
            (None, "-- --manifest-path c".into())
        );
        assert!(manifest_argument(&["--manifest-path".into()]).is_err());
    }
}
