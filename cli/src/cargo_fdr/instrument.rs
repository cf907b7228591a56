//! `cargo fdr instrument`: marks functions in a person's own sources, and takes the marks out again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::manifest::Recorder;
use crate::marks::Layout;
use crate::plan::{Marking, Plan};
use crate::workspace::{Workspace, manifest_of};
use crate::write::{Change, write};
use crate::{Selection, things};

const HELP: &str = "\
Puts #[fdr::traced(auto)] before each function that is worth two clock reads,
and the dependency fdr into Cargo.toml. A function is worth them if it has a
loop or waits, or runs about 65 instructions of its own. --list says why a
function is left out. #[traced(always)] and #[traced(skip)] on a function
decide for it.

Files are found along the mod declarations of libraries and programs. Tests,
benches, examples, build scripts, proc-macro crates and included files are left
as they are. Nothing between two marks changes, and --remove restores every
byte.

Exit codes: 0: done. 1: --check found something to change. 2: wrong usage, or a
file that can't be read or written.";

/// Marks the functions of a package or a workspace in place
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// A package's folder, or a workspace's for all its members
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Only these members of the workspace
    #[arg(short, long, value_name = "NAME")]
    package: Vec<String>,
    /// Change nothing: exit with 1 and a list if a file would change
    #[arg(long)]
    check: bool,
    /// Take out what this command put in
    #[arg(long, conflicts_with = "list")]
    remove: bool,
    /// Put each attribute on the line of its function, so that no line moves
    #[arg(long)]
    same_line: bool,
    /// Change nothing: list all functions, and why some are left out
    #[arg(long, conflicts_with = "check")]
    list: bool,
}

/// # Errors
/// Where a file cannot be read or written.
pub(crate) fn run(
    options: &Options,
    selection: &Selection,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let manifest = manifest_of(&options.path)?;
    let workspace = Workspace::load(&manifest)?;
    let packages = workspace.choose_packages(&manifest, &options.package)?;
    let plan = if options.remove {
        Plan::remove(&packages)?
    } else {
        let marking = Marking {
            choice: selection.choice()?,
            layout: match options.same_line {
                false => Layout::OwnLine,
                true => Layout::SameLine,
            },
            recorder: Recorder::parse(selection.fdr.as_deref())?,
        };
        Plan::mark(&packages, &marking)?
    };
    let root = &workspace.workspace_root;
    for line in &plan.left {
        eprintln!("cargo fdr: {}", relative(line, root));
    }
    if options.list {
        list(&plan, root, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    // The dependency is there before the first attribute, and until the last has gone.
    let (first, last) = match options.remove {
        false => (&plan.manifests, &plan.sources),
        true => (&plan.sources, &plan.manifests),
    };
    if options.check {
        for change in first.iter().chain(last) {
            let path = relative_path(&change.path, root);
            writeln!(out, "{path}: would change")?;
        }
        let is_same = first.is_empty() && last.is_empty();
        return Ok(ExitCode::from(u8::from(!is_same)));
    }
    let all: Vec<&Change> = first.iter().chain(last).collect();
    write(&all)?;
    for counts in &plan.packages {
        let package = &counts.package;
        let marked = things(counts.marked, "function");
        writeln!(
            out,
            "{package}: {marked} marked, {} left out",
            counts.left_out
        )?;
    }
    let reasons: Vec<String> = plan
        .reasons()
        .iter()
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    if !reasons.is_empty() {
        writeln!(out, "left out: {}; --list shows each", reasons.join(", "))?;
    }
    writeln!(out, "{} changed", things(all.len(), "file"))?;
    Ok(ExitCode::SUCCESS)
}

fn list(plan: &Plan, root: &Path, out: &mut impl Write) -> std::io::Result<()> {
    for (path, function) in &plan.functions {
        let path = relative_path(path, root);
        writeln!(
            out,
            "{path}:{}: {}: {}",
            function.line, function.name, function.verdict
        )?;
    }
    Ok(())
}

/// A path as it is below the workspace.
fn relative_path(path: &Path, root: &Path) -> String {
    relative(&path.to_string_lossy(), root)
}

fn relative(text: &str, root: &Path) -> String {
    let root = format!("{}/", root.to_string_lossy());
    text.strip_prefix(&root).unwrap_or(text).to_owned()
}
