//! What cargo knows: packages, their targets, and which of them can hold the attribute.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

/// A workspace, or a package that is one by itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    pub(crate) workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// Where cargo has it from, such as `registry+URL`. `None`: it is a folder of this machine.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) targets: Vec<Target>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    rename: Option<String>,
    optional: bool,
    target: Option<String>,
}

/// Our own packages, which cannot record themselves.
const OURS: [&str; 4] = ["fdr", "fdr-macros", "fdr-marks", "fdr-formats"];

impl Workspace {
    /// Asks cargo for the workspace of a manifest.
    ///
    /// # Errors
    /// What cargo says.
    pub(crate) fn load(manifest: &Path) -> anyhow::Result<Workspace> {
        Workspace::ask(manifest, "--no-deps")
    }

    /// As [`Workspace::load`], with the packages that the members depend on. Cargo changes no lock file.
    ///
    /// # Errors
    /// As there, and if the lock file is not up to date.
    pub(crate) fn load_all(manifest: &Path) -> anyhow::Result<Workspace> {
        Workspace::ask(manifest, "--locked")
    }

    fn ask(manifest: &Path, option: &str) -> anyhow::Result<Workspace> {
        let text = run_cargo(
            Command::new(cargo())
                .args(["metadata", option, "--format-version", "1"])
                .arg("--manifest-path")
                .arg(manifest),
        )?;
        serde_json::from_str(&text).context("cargo metadata: not the JSON that cargo 1.95 writes")
    }

    /// All packages of that name.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(move |package| package.name == name)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        let is_member = |package: &&Package| self.workspace_members.contains(&package.id);
        self.packages.iter().filter(is_member)
    }

    /// The packages of a manifest: all members for the manifest of the workspace, otherwise its own package.
    ///
    /// # Errors
    /// Where a name is no member's.
    pub(crate) fn choose_packages(
        &self,
        manifest: &Path,
        names: &[String],
    ) -> anyhow::Result<Vec<&Package>> {
        let all: Vec<&Package> = self.members().collect();
        for name in names {
            if !all.iter().any(|package| package.name == *name) {
                let members: Vec<&str> = all.iter().map(|package| &*package.name).collect();
                bail!(
                    "-p {name}: not a member; the members are {}",
                    members.join(", ")
                );
            }
        }
        if !names.is_empty() {
            return Ok(all
                .into_iter()
                .filter(|package| names.contains(&package.name))
                .collect());
        }
        let is_root = manifest.parent() == Some(&self.workspace_root);
        let is_chosen = |package: &&Package| is_root || package.manifest_path == manifest;
        Ok(all.into_iter().filter(is_chosen).collect())
    }
}

impl Package {
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Why no function of the package can be traced.
    pub(crate) fn is_left_out(&self) -> Option<&'static str> {
        if OURS.contains(&&*self.name) {
            return Some("it is a part of the recorder");
        }
        if self.targets.iter().any(|target| target.is("proc-macro")) {
            return Some("a procedural macro runs in the compiler");
        }
        if self.programs().next().is_none() {
            return Some("it has no library and no program");
        }
        None
    }

    /// The library and the programs.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Target> {
        const KINDS: [&str; 6] = ["lib", "rlib", "dylib", "cdylib", "staticlib", "bin"];
        let is_program = |target: &&Target| KINDS.iter().any(|kind| target.is(kind));
        self.targets.iter().filter(is_program)
    }

    pub(crate) fn build_scripts(&self) -> impl Iterator<Item = &Target> {
        self.targets
            .iter()
            .filter(|target| target.is("custom-build"))
    }

    /// The name under which the package already sees `fdr`, on every platform and with every feature.
    pub(crate) fn sees_fdr(&self) -> Option<String> {
        let usual = |d: &&Dependency| {
            d.name == "fdr" && d.kind.is_none() && !d.optional && d.target.is_none()
        };
        let dependency = self.dependencies.iter().find(usual)?;
        let name = dependency.rename.as_deref().unwrap_or("fdr");
        Some(name.replace('-', "_"))
    }

    /// The name of another package that stands where `fdr` has to.
    pub(crate) fn in_the_way(&self) -> Option<&str> {
        let taken =
            |d: &&Dependency| d.kind.is_none() && d.rename.as_deref().unwrap_or(&d.name) == "fdr";
        self.dependencies.iter().find(taken).map(|d| &*d.name)
    }
}

impl Target {
    fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|own| own == kind)
    }

    /// The first part of its functions' names.
    pub(crate) fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// The manifest for a path: the path itself, or the manifest in this folder or in a folder above.
///
/// # Errors
/// Where there is none.
pub(crate) fn manifest_of(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    let full = path.canonicalize().with_context(|| format!("{shown}"))?;
    if full.is_file() {
        if full.file_name().is_some_and(|name| name == "Cargo.toml") {
            return Ok(full);
        }
        bail!("{shown}: give the folder of a package or of a workspace, or its Cargo.toml");
    }
    let mut manifests = full.ancestors().map(|folder| folder.join("Cargo.toml"));
    let manifest = manifests.find(|manifest| manifest.is_file());
    manifest.with_context(|| format!("{shown}: no Cargo.toml here or in a folder above"))
}

/// The cargo that runs this program, or the one in the path.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn run_cargo(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("cargo cannot be run")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("cargo cannot read the package: {}", message.trim());
    }
    String::from_utf8(output.stdout).context("cargo metadata: not UTF-8")
}
