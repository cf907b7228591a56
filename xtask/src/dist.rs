//! `cargo xtask dist`: archives of the tool. Each holds one folder with the programs, completions for bash, zsh and
//! fish, man pages, and the licences, also of the crates in the programs. `[package.metadata.binstall]` of `fdr-cli` has the names of archive and folder,
//! too.

use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, PackageId};
use xshell::{Shell, cmd};
use xtask::process::{host, on_path, run as run_command, shell, target as target_folder};
use xtask::{Result, readers};

use crate::platforms::{IN_USE, add_target};

/// The tool, its completions for bash, zsh and fish, and its man pages: archives in target/dist
#[derive(clap::Args)]
pub(crate) struct Options {
    /// For systems with this C library and processor, such as aarch64-unknown-linux-musl, instead of this system's.
    /// cargo-zigbuild compiles the C code
    #[arg(long = "target", value_name = "TARGET")]
    targets: Vec<String>,
}

/// Makes the archives that the options choose.
///
/// # Errors
/// Where the tool can't be built, or a file not be written.
pub(crate) fn run(options: Options) -> Result<()> {
    let targets = match options.targets {
        targets if targets.is_empty() => vec![host()?],
        targets => targets,
    };
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    archives(&shell()?, env!("CARGO_PKG_VERSION"), &targets)
}

/// Builds the tool of the tree in the shell's folder for each target, and writes archives and their SHA-256 sums.
///
/// # Errors
/// Like [`run`].
pub(crate) fn archives(sh: &Shell, version: &str, targets: &[&str]) -> Result<()> {
    let text = |error: xshell::Error| error.to_string();
    let dist = target_folder()?.join("dist");
    // What an earlier version had, and this one has not, is not left behind.
    sh.remove_path(&dist).map_err(text)?;
    for target in targets {
        let programs = build(sh, target)?;
        // Programs for another processor can't be run here, so those of this processor write the pages.
        let runnable = match target.starts_with(ARCH) {
            true => programs.clone(),
            false => build(sh, &format!("{ARCH}-unknown-linux-musl"))?,
        };
        let name = archive_name(version, target);
        let folder = dist.join(&name);
        let bin = sh.create_dir(folder.join("bin")).map_err(text)?;
        for program in ["fdr", "cargo-fdr"] {
            sh.copy_file(programs.join(program), &bin).map_err(text)?;
            let tool = runnable.join(program);
            run_command(cmd!(sh, "{tool} generate {folder}"))?;
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            sh.copy_file(licence, &folder).map_err(text)?;
        }
        sh.write_file(folder.join("LICENSES-OF-CRATES"), licences(sh, target)?)
            .map_err(text)?;
        run_command(cmd!(
            sh,
            "tar --create --gzip --file {folder}.tar.gz --directory {dist} --sort=name --owner=0 --group=0 {name}"
        ))?;
    }
    print_sums(&dist, version, targets)
}

/// The licence texts of the other people's crates that are linked into the tool: each text once, with its crates.
fn licences(sh: &Shell, target: &str) -> Result<String> {
    let mut metadata = MetadataCommand::new();
    metadata.current_dir(sh.current_dir());
    metadata.other_options(["--filter-platform".to_owned(), target.to_owned()]);
    let metadata = metadata.exec().map_err(|error| error.to_string())?;
    let graph = metadata.resolve.as_ref().ok_or("cargo tells no graph")?;
    let tool = metadata.packages.iter().find(|it| it.name == "fdr-cli");
    let mut linked: Vec<&PackageId> = tool.map(|tool| &tool.id).into_iter().collect();
    let mut done = 0;
    while let Some(id) = linked.get(done) {
        done += 1;
        for dependency in &graph[id].deps {
            let mut kinds = dependency.dep_kinds.iter();
            let is_linked = kinds.any(|it| it.kind == DependencyKind::Normal);
            if is_linked && !linked.contains(&&dependency.pkg) {
                linked.push(&dependency.pkg);
            }
        }
    }
    let mut crates_of = BTreeMap::<String, BTreeSet<String>>::new();
    let packages = linked.iter().map(|id| &metadata[*id]);
    for package in packages.filter(|package| package.source.is_some()) {
        let folder = package.manifest_path.with_file_name("");
        for path in sh.read_dir(folder).map_err(|error| error.to_string())? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_licence = ["LICEN", "COPYING", "NOTICE", "UNLICENSE"];
            if path.is_file()
                && is_licence
                    .iter()
                    .any(|it| name.to_uppercase().starts_with(it))
            {
                let text = fs::read_to_string(&path);
                let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
                let of = format!("{} {}", package.name, package.version);
                crates_of.entry(text).or_default().insert(of);
            }
        }
    }
    let texts = crates_of.iter().map(|(text, crates)| {
        let crates: Vec<&str> = crates.iter().map(String::as_str).collect();
        format!("---- {}\n\n{text}\n", crates.join(", "))
    });
    Ok(texts.collect())
}

/// Writes the sums for `sha256sum --check`, and prints them.
fn print_sums(dist: &Path, version: &str, targets: &[&str]) -> Result<()> {
    let sh = xtask::process::shell_in(dist)?;
    let names = targets.iter();
    let names = names.map(|target| format!("{}.tar.gz", archive_name(version, target)));
    let sums = cmd!(sh, "sha256sum").args(names).read();
    let sums = sums.map_err(|error| error.to_string())?;
    sh.write_file("SHA256SUMS", format!("{sums}\n"))
        .map_err(|error| error.to_string())?;
    println!("{}:\n{sums}", dist.display());
    Ok(())
}

/// The folder in an archive. The archive has the same name with `.tar.gz`.
fn archive_name(version: &str, target: &str) -> String {
    format!("fdr-{version}-{target}")
}

/// Builds the tool, and says where its programs are. With musl they are static.
fn build(sh: &Shell, target: &str) -> Result<PathBuf> {
    let built = target_folder()?;
    if target == host()? {
        run_command(cmd!(sh, "cargo build --quiet --release --package fdr-cli"))?;
        return Ok(built.join("release"));
    }
    add_target(target, IN_USE, true)?;
    const ZIG: &str = "cargo-zigbuild";
    if !readers::provide(ZIG)? {
        let advice = readers::lacking(ZIG).unwrap_or_default();
        return Err(format!("{ZIG} is not installed: {advice}"));
    }
    let zig = on_path("zig").or_else(|| on_path("python-zig"));
    let zig = zig.ok_or("neither zig nor python-zig is installed: pip install ziglang")?;
    let build = cmd!(
        sh,
        "cargo-zigbuild zigbuild --quiet --release --package fdr-cli --target {target}"
    );
    run_command(build.env("CARGO_ZIGBUILD_ZIG_PATH", zig))?;
    Ok(built.join(target).join("release"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binstall_finds_the_archives() {
        let manifest = xtask::process::root().join("cli/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("the manifest");
        let name = archive_name("{ version }", "{ target }");
        let address = format!("\"{{ repo }}/releases/download/v{{ version }}/{name}.tar.gz\"");
        let folder = format!("\"{name}/bin/{{ bin }}\"");
        let has = |line: &str| manifest.lines().any(|other| other == line);
        assert!(has(&format!("pkg-url = {address}")), "{address}");
        assert!(has(&format!("bin-dir = {folder}")), "{folder}");
    }
}
