//! `cargo xtask release VERSION`: sets the version, has cargo verify the packages, makes the archives of the tool,
//! commits and tags. All of it happens in a copy of the tree below the target folder. The branch moves at the end, so a
//! failure leaves the tree as it was. What other people would see is left to a person: to push and to publish.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::semver::Version;
use toml_edit::{DocumentMut, Item, TableLike};
use xshell::{Shell, cmd};
use xtask::Result;
use xtask::process::{output, root, run as run_command, shell, shell_in, target};

use crate::dist;
use crate::tidy::{
    self,
    crates::{WORKSPACES, packages},
};

/// What the archives are for. The programs are static.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// The branch of releases.
const BRANCH: &str = "main";

/// A workspace without a version of ours. Its lock file has our crates.
const PEERS: &str = "bench/peers/Cargo.toml";

const CHANGELOG: &str = "CHANGELOG.md";
/// The head of the section in it whose changes were not released yet.
const UNRELEASED: &str = "\n## Unreleased\n";

/// A release: versions, CHANGELOG, cargo publish --dry-run, archives of the tool, a commit and a tag
///
/// It publishes nothing, and says at the end how to do it.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Such as 0.2.0
    version: Version,
    /// Does all of it but the commit and the tag
    #[arg(long)]
    dry_run: bool,
}

/// Makes the release.
///
/// # Errors
///
/// If the project is not ready, a program is missing or fails, or a file can't be written.
pub(crate) fn run(options: &Options) -> Result<()> {
    let (sh, version) = (shell()?, &options.version);
    let project = Project::read(&sh)?;
    project.check(version)?;
    let (date, _) = output(cmd!(sh, "date --utc +%F"))?;
    let mut edits = edits(&root(), &project.version, version)?;
    let changelog = sh.read_file(CHANGELOG).map_err(|error| error.to_string())?;
    let changelog = changelog_with(&changelog, version, date.trim());
    let changelog = changelog.map_err(|error| format!("{CHANGELOG}: {error}"))?;
    edits.push((CHANGELOG.into(), changelog));

    let tree = target()?.join("release-tree");
    remove_tree(&sh, &tree)?;
    run_command(cmd!(sh, "git worktree add --force --quiet --detach {tree}"))?;
    let copy = shell_in(&tree)?;
    copy.set_var("CARGO_TARGET_DIR", target()?);
    for (path, text) in edits {
        let written = copy.write_file(path, text);
        written.map_err(|error| error.to_string())?;
    }
    for manifest in WORKSPACES.into_iter().chain([PEERS]) {
        let of_workspace = ["--workspace", "--manifest-path", manifest];
        run_command(cmd!(copy, "cargo update --quiet {of_workspace...}"))?;
    }
    // The commit is made after the checks.
    run_command(cmd!(
        copy,
        "cargo publish --workspace --dry-run --allow-dirty"
    ))?;
    dist::archives(&copy, &version.to_string(), &TARGETS)?;

    let tag = format!("v{version}");
    if options.dry_run {
        run_command(cmd!(copy, "git --no-pager diff --stat"))?;
        println!("{version} can be released. Nothing was committed or tagged.");
    } else {
        let message = format!("Version {version}");
        run_command(cmd!(copy, "git commit --quiet --all --message {message}"))?;
        run_command(cmd!(copy, "git tag --annotate {tag} --message {message}"))?;
        run_command(cmd!(sh, "git merge --quiet --ff-only {tag}"))?;
        println!("{version} is committed and tagged. Two commands are left for you:");
        println!("    git push origin {BRANCH} {tag}");
        println!("    cargo publish --workspace");
        println!("What is uploaded to the release {tag} of the repository is in target/dist.");
    }
    remove_tree(&sh, &tree)
}

fn remove_tree(sh: &Shell, tree: &Path) -> Result<()> {
    match tree.exists() {
        true => run_command(cmd!(sh, "git worktree remove --force {tree}")),
        false => Ok(()),
    }
}

/// What decides whether a version can be released.
struct Project {
    version: Version,
    repository: &'static str,
    branch: String,
    /// What git says of files that are not committed.
    changes: String,
    /// Of released versions.
    tags: String,
}

impl Project {
    fn read(sh: &Shell) -> Result<Project> {
        // This program has the workspace's version and repository, too.
        let version = Version::parse(env!("CARGO_PKG_VERSION"));
        Ok(Project {
            version: version.map_err(|error| error.to_string())?,
            repository: env!("CARGO_PKG_REPOSITORY"),
            branch: output(cmd!(sh, "git branch --show-current"))?.0,
            changes: output(cmd!(sh, "git status --porcelain"))?.0,
            tags: output(cmd!(sh, "git tag --list v*"))?.0,
        })
    }

    fn check(&self, version: &Version) -> Result<()> {
        let (present, branch) = (&self.version, self.branch.trim());
        let is_first = version == present && self.tags.is_empty();
        Err(if !self.changes.is_empty() {
            let changes = self.changes.trim_end();
            format!("the tree has changes; commit or remove them:\n{changes}")
        } else if branch != BRANCH {
            format!("this is the branch {branch:?}; a release is made on {BRANCH}")
        } else if version <= present && !is_first {
            format!("the version is {present} already; a release needs a greater one than that")
        } else if self.repository.is_empty() {
            "Cargo.toml: `repository` in [workspace.package] is empty; write the address of the project there, such as \
             repository = \"https://github.com/OWNER/fdr\", and commit it"
                .to_owned()
        } else {
            return Ok(());
        })
    }
}

/// The manifests and pages of the tree that name the version, with their texts after the release.
fn edits(root: &Path, old: &Version, new: &Version) -> Result<Vec<(PathBuf, String)>> {
    let mut manifests = BTreeSet::from([root.join("Cargo.toml")]);
    for workspace in WORKSPACES {
        let packages = packages(&root.join(workspace))?.into_iter();
        manifests.extend(packages.map(|package| package.manifest_path.into_std_path_buf()));
    }
    let mut edits = Vec::new();
    let mut edit = |path: &Path, change: &dyn Fn(&str) -> Result<String>| {
        let text = fs::read_to_string(path).map_err(|error| error.to_string());
        let text = text.and_then(|text| change(&text));
        let path = path.strip_prefix(root).unwrap_or(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        edits.push((path.to_owned(), text));
        Ok::<_, String>(())
    };
    for manifest in manifests {
        edit(&manifest, &|text| manifest_with(text, new))?;
    }
    let files = tidy::list(root)?.into_iter();
    for page in files.filter(|file| file.extension().is_some_and(|it| it == "md")) {
        edit(&page, &|text| Ok(page_with(text, old, new)))?;
    }
    Ok(edits)
}

/// Sets the version of the package or of the workspace's packages, and of each dependency that has a path.
fn manifest_with(text: &str, version: &Version) -> Result<String> {
    let manifest = text.parse::<DocumentMut>();
    let mut manifest = manifest.map_err(|error| error.to_string())?;
    set_dependencies(manifest.as_table_mut(), version);
    for table in ["package", "workspace"] {
        let Some(table) = manifest.get_mut(table).and_then(Item::as_table_like_mut) else {
            continue;
        };
        let of_packages = table.get_mut("package").and_then(Item::as_table_like_mut);
        match of_packages {
            Some(of_packages) => set(of_packages, version),
            None => set(table, version),
        }
    }
    Ok(manifest.to_string())
}

fn set_dependencies(table: &mut dyn TableLike, version: &Version) {
    if table.contains_key("path") {
        set(table, version);
    }
    for (_, item) in table.iter_mut() {
        if let Some(table) = item.as_table_like_mut() {
            set_dependencies(table, version);
        }
    }
}

/// Sets the version of a table that has one, and keeps what stands around it.
fn set(table: &mut dyn TableLike, version: &Version) {
    let value = table.get_mut("version").and_then(Item::as_value_mut);
    if let Some(value) = value.filter(|value| value.is_str()) {
        let around = value.decor().clone();
        *value = version.to_string().into();
        *value.decor_mut() = around;
    }
}

/// Sets the version in the lines of a page that begin like a dependency on a crate of ours.
fn page_with(text: &str, old: &Version, new: &Version) -> String {
    let (old, new) = (requirement(old), requirement(new));
    let lines = text.split_inclusive('\n');
    let lines = lines.map(|line| match line.starts_with("fdr") {
        true => line.replace(&old, &new),
        false => line.to_owned(),
    });
    lines.collect()
}

/// What a page says of a version, in quotes: what is compatible with it.
fn requirement(version: &Version) -> String {
    match version.pre.is_empty() {
        true => format!("\"{}.{}\"", version.major, version.minor),
        false => format!("\"{version}\""),
    }
}

/// Gives the unreleased changes a version and a date.
fn changelog_with(text: &str, version: &Version, date: &str) -> Result<String> {
    let missing = || format!("no line is {:?}", UNRELEASED.trim());
    let (head, rest) = text.split_once(UNRELEASED).ok_or_else(missing)?;
    let changes = rest.split("\n## ").next().unwrap_or_default();
    // The next section may begin at once.
    if changes.trim().is_empty() || changes.starts_with("## ") {
        return Err("nothing stands below \"Unreleased\"; write there what changed".to_owned());
    }
    Ok(format!("{head}{UNRELEASED}\n## {version} - {date}\n{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).expect(text)
    }

    /// A project that can release 0.2.0.
    fn ready() -> Project {
        Project {
            version: version("0.1.0"),
            repository: "https://example.org/fdr",
            branch: "main\n".to_owned(),
            changes: String::new(),
            tags: "v0.1.0\n".to_owned(),
        }
    }

    #[test]
    fn only_what_is_ready_is_released() {
        assert_eq!(ready().check(&version("0.2.0")), Ok(()));
        assert_eq!(ready().check(&version("0.2.0-rc.1")), Ok(()));
        let refused = |change: fn(&mut Project), wanted: &str, text: &str| {
            let mut project = ready();
            change(&mut project);
            let error = project.check(&version(wanted)).expect_err(text);
            assert!(error.contains(text), "{error}");
        };
        let same = |_: &mut Project| {};
        refused(same, "0.1.0", "0.1.0 already");
        refused(same, "0.1.0-rc.1", "0.1.0 already");
        refused(|it| it.branch = "work\n".into(), "0.2.0", "\"work\"");
        refused(|it| it.changes = " M a\n".into(), "0.2.0", " M a");
        refused(|it| it.repository = "", "0.2.0", "[workspace.package]");
        let mut unreleased = ready();
        unreleased.tags.clear();
        assert_eq!(unreleased.check(&version("0.1.0")), Ok(()));
    }

    /// The version stands in no other form than the release looks for.
    #[test]
    fn a_release_finds_every_version() {
        let now = version(env!("CARGO_PKG_VERSION"));
        let edits = |new| edits(&root(), &now, new).expect("edits");
        for (path, text) in edits(&now) {
            let original = fs::read_to_string(root().join(&path)).expect("a file");
            assert_eq!(text, original, "{path:?}");
        }
        let is_dependency = |line: &str| {
            let (name, value) = line.split_once(" = ").unwrap_or_default();
            name.starts_with("fdr") && (value.starts_with('"') || value.contains("version = "))
        };
        let edits = edits(&version("98.7.6"));
        let lines = edits.iter().flat_map(|(_, text)| text.lines());
        let dependencies: Vec<&str> = lines.filter(|line| is_dependency(line)).collect();
        assert!(dependencies.contains(&"fdr = { path = \"runtime\", version = \"98.7.6\" }"));
        for line in dependencies {
            assert!(line.contains("\"98.7"), "{line}");
        }
    }

    #[test]
    fn manifests_keep_their_form() {
        let manifest = "[package]\nversion = \"0.1.0\" # ours\n[dependencies]\nfdr = { path = \"../fdr\", version = \"0.1.0\", optional = true }\nclap = \"0.1.0\"\n[lib]\npath = \"lib.rs\"\n";
        let changed = manifest_with(manifest, &version("0.2.0"));
        let wanted = "[package]\nversion = \"0.2.0\" # ours\n[dependencies]\nfdr = { path = \"../fdr\", version = \"0.2.0\", optional = true }\nclap = \"0.1.0\"\n[lib]\npath = \"lib.rs\"\n";
        assert_eq!(changed.as_deref(), Ok(wanted));
        let inherited =
            "[package]\nversion.workspace = true\n[workspace.package]\nversion = '0.1.0'\n";
        let changed = manifest_with(inherited, &version("0.2.0")).expect("a manifest");
        assert_eq!(changed, inherited.replace("'0.1.0'", "\"0.2.0\""));
    }

    #[test]
    fn pages_name_what_is_compatible() {
        let page = "Depend on \"0.1\":\nfdr = \"0.1\"  # or a path\n";
        let changed = |new| page_with(page, &version("0.1.4"), &version(new));
        let with = |new| format!("Depend on \"0.1\":\nfdr = \"{new}\"  # or a path\n");
        assert_eq!(changed("0.2.3"), with("0.2"));
        assert_eq!(changed("0.2.0-rc.1"), with("0.2.0-rc.1"));
    }

    #[test]
    fn changes_get_a_version_and_a_date() {
        let release = |text| changelog_with(text, &version("0.2.0"), "2026-01-02");
        let text = "# Changelog\n\n## Unreleased\n\n- New.\n\n## 0.1.0 - 2026-01-01\n\n- Old.\n";
        let wanted = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-01-02\n\n- New.\n\n## 0.1.0 - 2026-01-01\n\n- Old.\n";
        assert_eq!(release(text).as_deref(), Ok(wanted));
        // Nothing is new after a release.
        for empty in [
            wanted,
            "# Changelog\n\n## Unreleased\n## 0.1.0\n",
            "# Changelog\n\n## Unreleased\n",
            "# Changelog\n",
        ] {
            release(empty).expect_err(empty);
        }
    }
}
