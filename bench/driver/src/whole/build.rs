//! Building a program of other people's, unmarked and marked: what the compiler takes for it, and how large the
//! stripped program is. Where builds are measured, each has a target folder of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use xshell::cmd;
use xtask::process::{output, run as run_command, shell_in, target};
use xtask::programs::{Kind, Program, prepare};

use super::workload::{Recipe, Run, folder};
use crate::Result;
use crate::program::{RunCost, measured, stripped_bytes};

/// Unmarked, marked.
const KINDS: [Kind; 2] = [Kind::Original, Kind::Marked];
/// The package of a program of ours.
const OURS: &str = "fdr-workload";

/// A program and where it is built.
pub(super) struct Build<'a> {
    program: &'static Program,
    recipe: &'a Recipe,
    /// Of all programs, and of this one.
    folders: [PathBuf; 2],
    /// Into one folder, so that what programs share is built once. No build is measured.
    quick: bool,
}

/// What came out: unmarked, then marked.
pub(super) struct Built {
    pub(super) name: &'static str,
    pub(super) functions: usize,
    pub(super) programs: [PathBuf; 2],
    /// Of the stripped programs.
    pub(super) bytes: [u64; 2],
    /// Seconds of CPU of a build of everything, and of one after a file was touched, where they were measured.
    pub(super) clean: Option<[f64; 2]>,
    pub(super) touched: Option<[f64; 2]>,
}

impl<'a> Build<'a> {
    /// # Errors
    /// If there is no such program.
    pub(super) fn new(folder: &Path, recipe: &'a Recipe, quick: bool) -> Result<Build<'a>> {
        Ok(Build {
            program: recipe.program()?,
            recipe,
            folders: [folder.to_owned(), folder.join(&recipe.name)],
            quick,
        })
    }

    /// Builds both.
    ///
    /// # Errors
    /// If the sources can't be had, or do not compile.
    pub(super) fn run(&self) -> Result<Built> {
        let tool = target()?.join("release/cargo-fdr");
        let functions = prepare(&self.folders[0], self.program, &tool)?;
        self.add_ours()?;
        let programs = KINDS.map(|kind| self.folders[1].join(format!("program-{}", kind.name())));
        let (mut clean, mut touched, mut bytes) = ([0.0; 2], [0.0; 2], [0; 2]);
        for (at, kind) in KINDS.into_iter().enumerate() {
            if !self.quick {
                // What an earlier run left, if any.
                let _ = fs::remove_dir_all(self.target(kind));
            }
            clean[at] = self.build(kind)?;
            // The next program may have the same name.
            let binary = self.target(kind).join("release").join(self.names().1);
            fs::copy(binary, &programs[at])?;
            bytes[at] = stripped_bytes(&programs[at])?;
            if !self.quick {
                let file = File::options().append(true).open(self.touched(kind))?;
                file.set_modified(SystemTime::now())?;
                touched[at] = self.build(kind)?;
            }
        }
        Ok(Built {
            name: self.program.name,
            functions,
            programs,
            bytes,
            clean: (!self.quick).then_some(clean),
            touched: (!self.quick).then_some(touched),
        })
    }

    /// Writes the program of ours beside the sources, if there is one, and fetches what it needs. Both kinds have the
    /// same versions of everything.
    fn add_ours(&self) -> Result<()> {
        let [original, marked] = KINDS.map(|kind| self.sources(kind));
        if let Run::Ours {
            source,
            dependencies,
        } = &self.recipe.run
        {
            let manifest = format!(
                "[package]\nname = \"{OURS}\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n{dependencies}"
            );
            let source = fs::read(folder().join(source))?;
            for folder in [&original, &marked] {
                let package = folder.join(OURS);
                fs::create_dir_all(package.join("src"))?;
                fs::write(package.join("Cargo.toml"), &manifest)?;
                fs::write(package.join("src/main.rs"), &source)?;
            }
            let sh = shell_in(&original)?;
            run_command(cmd!(sh, "cargo update --workspace --quiet"))?;
            fs::copy(original.join("Cargo.lock"), marked.join("Cargo.lock"))?;
        }
        for folder in [original, marked] {
            let sh = shell_in(&folder)?;
            run_command(cmd!(sh, "cargo fetch --quiet"))?;
        }
        Ok(())
    }

    /// Seconds of CPU that a build takes.
    fn build(&self, kind: Kind) -> Result<f64> {
        let (package, binary) = self.names();
        let sh = shell_in(&self.sources(kind))?;
        sh.set_var("CARGO_TARGET_DIR", self.target(kind));
        // Other people's warnings are no figures.
        sh.set_var("RUSTFLAGS", "--cap-lints=allow");
        let cargo = measured(&sh)?.args(["cargo", "build", "--quiet", "--release", "--offline"]);
        let (_, log) = output(cargo.args(["--package", package, "--bin", binary]))?;
        Ok(RunCost::parse(&log)?.cpu_seconds)
    }

    fn names(&self) -> (&str, &str) {
        match &self.recipe.run {
            Run::Own { package, binary } => (package, binary),
            Run::Ours { .. } => (OURS, OURS),
        }
    }

    fn sources(&self, kind: Kind) -> PathBuf {
        self.folders[1].join(kind.name())
    }

    fn touched(&self, kind: Kind) -> PathBuf {
        self.sources(kind).join(&self.recipe.touched)
    }

    fn target(&self, kind: Kind) -> PathBuf {
        match self.quick {
            false => self.folders[1].join(format!("target-{}", kind.name())),
            true => self.folders[0].join("target"),
        }
    }
}
