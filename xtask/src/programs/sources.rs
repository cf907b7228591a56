//! Other people's sources: as their packages hold them, and beside these the same as `cargo fdr instrument` marks them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;
use xshell::cmd;

use super::Program;
use crate::Result;
use crate::process::{output, run, shell, shell_in};

/// Which of the two.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// As the packages hold them.
    Original,
    /// As `cargo fdr` marks them.
    Marked,
}

impl Kind {
    /// Of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Original => "original",
            Kind::Marked => "marked",
        }
    }
}

/// Puts both kinds of the program's sources below the folder, and says how many functions are marked. `tool` is
/// `cargo-fdr`.
///
/// # Errors
///
/// If the packages cannot be had, or marks cannot be taken out again byte for byte.
pub fn prepare(folder: &Path, program: &Program, tool: &Path) -> Result<usize> {
    let packages = fetch(&folder.join("fetched"), program)?;
    let folder = folder.join(program.name);
    let [original, marked] = [Kind::Original, Kind::Marked].map(|kind| folder.join(kind.name()));
    let sh = shell()?;
    for folder in [&original, &marked] {
        // What an earlier run left, if any.
        let _ = fs::remove_dir_all(folder);
        write(&folder.join("Cargo.toml"), &workspace(program))?;
        for ((name, _), package) in program.packages.iter().zip(&packages) {
            let to = folder.join(name);
            output(cmd!(sh, "cp --recursive {package} {to}"))?;
        }
    }
    sh.change_dir(&original);
    run(cmd!(sh, "cargo generate-lockfile --quiet"))?;
    let lock = fs::copy(original.join("Cargo.lock"), marked.join("Cargo.lock"));
    lock.map_err(|error| format!("{}: {error}", marked.display()))?;
    mark(&original, &marked, tool)
}

/// The folders in which cargo keeps the packages.
fn fetch(folder: &Path, program: &Program) -> Result<Vec<PathBuf>> {
    let mut manifest = "[package]\nname = \"fetched\"\nedition = \"2024\"\n[workspace]\n\
                        [lib]\npath = \"lib.rs\"\n[dependencies]\nlibc = \"0.2\"\n"
        .to_owned();
    for (name, version) in program.packages {
        let _ = writeln!(manifest, "{name} = \"={version}\"");
    }
    write(&folder.join("lib.rs"), "")?;
    write(&folder.join("Cargo.toml"), &manifest)?;
    let sh = shell_in(folder)?;
    run(cmd!(sh, "cargo fetch --quiet"))?;
    let mut metadata = MetadataCommand::new();
    metadata
        .current_dir(folder)
        .other_options(["--offline".to_owned()]);
    let metadata = metadata
        .exec()
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    // A package without a library is fetched, but not in the list, as libc is. All lie side by side.
    let mut listed = metadata.packages.iter();
    let one = listed.find(|package| package.source.is_some());
    let sources = one.and_then(|package| package.manifest_path.parent()?.parent());
    let sources = sources.ok_or("cargo metadata does not say where the packages are")?;
    let sources = sources.as_std_path();
    let packages = program.packages.iter();
    packages
        .map(|(name, version)| {
            let folder = sources.join(format!("{name}-{version}"));
            match folder.is_dir() {
                true => Ok(folder),
                false => Err(format!("{}: cargo did not fetch it", folder.display())),
            }
        })
        .collect()
}

/// All packages as one workspace, which use each other's sources from here.
fn workspace(program: &Program) -> String {
    let mut text =
        "[workspace]\nresolver = \"2\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n".to_owned();
    for (name, _) in program.packages {
        let _ = writeln!(text, "{name} = {{ path = \"{name}\" }}");
    }
    text
}

/// Has `cargo fdr` mark the functions, after it has shown that it can take all marks out again.
fn mark(original: &Path, marked: &Path, tool: &Path) -> Result<usize> {
    let sh = shell()?;
    let instrument = |options: &[&str]| -> Result<String> {
        Ok(output(cmd!(sh, "{tool} fdr instrument {marked} {options...}"))?.0)
    };
    // Messages are compared by their lines.
    instrument(&["--same-line"])?;
    instrument(&["--same-line", "--check"])?;
    instrument(&["--remove"])?;
    run(cmd!(sh, "diff --recursive --brief {original} {marked}")).map_err(|error| {
        format!("{error}: cargo fdr instrument --remove does not restore every file")
    })?;
    let listing = instrument(&["--same-line"])?;
    Ok(listing.lines().filter_map(functions).sum())
}

/// `PACKAGE: N functions marked, M left out`
fn functions(line: &str) -> Option<usize> {
    let (_, said) = line.split_once(": ")?;
    let (marked, _) = said.split_once(" marked, ")?;
    marked.split(' ').next()?.parse().ok()
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_functions_are_counted() {
        assert_eq!(functions("a-b: 12 functions marked, 30 left out"), Some(12));
        assert_eq!(functions("a: 1 function marked, 0 left out"), Some(1));
        assert_eq!(functions("left out: 3 const; --list shows each"), None);
        assert_eq!(functions("3 files changed"), None);
    }
}
