//! Builds the packages beside this file as a user of `fdr` would: outside the workspace, each with features of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A package in a temporary folder.
pub(crate) struct Package {
    folder: PathBuf,
    target: PathBuf,
}

impl Package {
    /// A copy of `tests/programs/NAME`, with `more` at the end of its `Cargo.toml`.
    ///
    /// # Panics
    ///
    /// If it cannot be copied.
    pub(crate) fn copy_of(name: &str, more: &str) -> Package {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let original = tests.join("programs").join(name);
        let manifest = fs::read_to_string(original.join("Cargo.toml")).expect("Cargo.toml");
        let package = Package::new(name, &(manifest + more));
        let sources = package.folder.join("src");
        fs::create_dir_all(&sources).expect("a temporary folder");
        // A package of other people's sources has none of its own.
        for file in fs::read_dir(original.join("src")).into_iter().flatten() {
            let file = file.expect("a source file");
            fs::copy(file.path(), sources.join(file.file_name())).expect("a copy");
        }
        package
    }

    /// A package without sources of its own. In the manifest, `../../..` is the workspace's folder.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub(crate) fn new(name: &str, manifest: &str) -> Package {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let workspace = tests.parent().expect("the workspace's folder");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
        let folder = target.join("packages").join(name);
        fs::create_dir_all(&folder).expect("a temporary folder");
        let root = workspace.to_str().expect("a path in UTF-8");
        let manifest = manifest.replace("../../..", root);
        fs::write(folder.join("Cargo.toml"), manifest).expect("Cargo.toml");
        // The versions that are surely there.
        fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).expect("Cargo.lock");
        Package { folder, target }
    }

    /// Runs `cargo COMMAND --offline …` in it.
    ///
    /// # Panics
    ///
    /// If cargo cannot be run.
    pub(crate) fn cargo(&self, command: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(command, arguments);
        command.env_remove("FDR").output().expect("cargo runs")
    }

    /// As [`Package::cargo`], with the variables of this process.
    pub(crate) fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([command, "--offline", "--quiet"])
            .args(arguments)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .current_dir(&self.folder);
        cargo
    }

    /// Its own folder.
    #[allow(dead_code, reason = "not every test changes a package")]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where cargo puts programs: `PROFILE/PROGRAM`.
    #[allow(dead_code, reason = "not every test runs what it builds")]
    pub(crate) fn built(&self, path: &str) -> PathBuf {
        self.target.join(path)
    }
}

/// The output of a failed command.
pub(crate) fn text_of(output: &Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
