//! `--with`: packages of a registry whose functions are marked, too. Each is copied below the target folder, and
//! the copy of the workspace takes it in place of the original. The compiler prints no warnings of such a package, as it
//! prints none of the original.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::copy::{self, Replacement};
use crate::plan::{Marking, Plan};
use crate::workspace::{Package, Workspace};

/// What the recorder is built of. It can't record itself.
const NEEDED: [&str; 8] = [
    "libc",
    "crossbeam-utils",
    "core_affinity",
    "num_cpus",
    "syn",
    "quote",
    "proc-macro2",
    "unicode-ident",
];

/// The folder of the copies, for the program that cargo runs in place of the compiler.
const FOLDER: &str = "CARGO_FDR_WITH";
/// What cargo would have run in place of the compiler without us.
const WRAPPER: &str = "CARGO_FDR_WRAPPER";

/// The chosen packages, marked.
///
/// # Errors
/// If a name is that of no package that can be replaced, or the lock file is not up to date.
pub(crate) fn mark(
    manifest: &Path,
    names: &[String],
    marking: &Marking,
    folder: &Path,
) -> anyhow::Result<Vec<(Replacement, Plan)>> {
    let all = Workspace::load_all(manifest)
        .context("--with needs a Cargo.lock that is up to date (cargo generate-lockfile)")?;
    let mut marked = Vec::new();
    for name in names.iter().collect::<BTreeSet<_>>() {
        let mut is_there = false;
        for package in all.named(name) {
            is_there = true;
            let replacement = Replacement {
                source: patch_key(package)?,
                name: package.name.clone(),
                version: package.version.clone(),
                folder: folder.join(format!("{}-{}", package.name, package.version)),
            };
            let plan = Plan::mark(&[package], marking)?;
            copy::update_package(package, &plan, &replacement.folder)?;
            marked.push((replacement, plan));
        }
        if !is_there {
            bail!("--with {name}: no package of that name in Cargo.lock");
        }
    }
    Ok(marked)
}

/// The name of the package's source in `[patch]`.
fn patch_key(package: &Package) -> anyhow::Result<String> {
    let name = &package.name;
    if NEEDED.contains(&name.as_str()) {
        bail!("--with {name}: the recorder itself is built of it");
    }
    if let Some(why) = package.is_left_out() {
        bail!("--with {name}: {why}");
    }
    let source = package.source.as_deref();
    let Some(source) = source else {
        bail!(
            "--with {name}: it is a folder of this machine: `cargo fdr instrument` marks it there"
        );
    };
    // A package of git may take settings of a workspace, and packages beside it.
    match source.strip_prefix("registry+") {
        Some(url) if url.ends_with("/crates.io-index") => Ok("crates-io".to_owned()),
        Some(url) => Ok(url.to_owned()),
        None if source.starts_with("sparse+") => Ok(source.to_owned()),
        None => bail!(
            "--with {name}: it is not of a registry: let `[patch]` name a clone, and mark it by `cargo fdr instrument`"
        ),
    }
}

/// Has cargo run this program in place of the compiler, see [`become_compiler`].
pub(crate) fn replace_compiler(cargo: &mut Command, folder: &Path) -> anyhow::Result<()> {
    let own = env::current_exe().context("the path of this program")?;
    if let Some(wrapper) = env::var_os("RUSTC_WRAPPER").filter(|wrapper| !wrapper.is_empty()) {
        cargo.env(WRAPPER, wrapper);
    }
    cargo.env(FOLDER, folder).env("RUSTC_WRAPPER", own);
    Ok(())
}

/// If cargo runs this program in place of the compiler, the process becomes the compiler, which prints no warnings of the
/// copies. Otherwise nothing happens.
///
/// # Errors
/// If the compiler can't be run.
pub(crate) fn become_compiler(words: &[OsString]) -> anyhow::Result<()> {
    // The program that cargo runs has the variables, too, and may run `cargo fdr`.
    let is_subcommand = words.get(1).is_some_and(|word| word == "fdr");
    let folder = env::var_os(FOLDER).filter(|_| !is_subcommand);
    let Some(folder) = folder.map(PathBuf::from) else {
        return Ok(());
    };
    let mut command: Vec<OsString> = env::var_os(WRAPPER).into_iter().collect();
    command.extend(words.iter().skip(1).cloned());
    let is_copy =
        env::var_os("CARGO_MANIFEST_DIR").is_some_and(|of| Path::new(&of).starts_with(folder));
    if is_copy {
        command.push("--cap-lints=allow".into());
    }
    let Some((compiler, arguments)) = command.split_first() else {
        bail!("{FOLDER} is set: cargo runs this program in place of the compiler");
    };
    let name = compiler.display().to_string();
    Err(Command::new(compiler).args(arguments).exec()).context(name)
}
