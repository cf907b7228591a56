//! The rules about crates: which crate may depend on which, which foreign crates may be linked into our users'
//! programs, and what a published crate needs. ARCHITECTURE.md has the table. The graph is cargo's own. `deny.toml` has
//! the rules about licences and sources.

use std::path::Path;

use cargo_metadata::{Dependency, DependencyKind, MetadataCommand, Package};

use super::{Finding, PAGE};
use xtask::Result;

/// The beginning of the head of the table.
const HEAD: &str = "| crate |";

/// A row of the table.
struct Crate<'a> {
    name: &'a str,
    /// Which of ours it may depend on, for tests too.
    ours: Vec<&'a str>,
    /// Which of other people's crates it may depend on outside its tests; `None`: any.
    others: Option<Vec<&'a str>>,
    /// Any of theirs behind a feature.
    features: bool,
}

/// The page's table. A cell is `none`, `any`, or names with commas between; behind a semicolon, what features may add.
fn rows(page: &str) -> Vec<Crate<'_>> {
    let names = |cell| match cell {
        "none" => Vec::new(),
        names => str::split(names, ", ").collect(),
    };
    let rows = super::table_rows(page, HEAD).into_iter();
    rows.filter_map(|cells| {
        let [name, ours, others, ..] = *cells else {
            return None;
        };
        let (others, features) = match others.split_once("; ") {
            Some((others, "any behind a feature")) => (others, true),
            _ => (others, false),
        };
        Some(Crate {
            name,
            ours: names(ours),
            others: (others != "any").then(|| names(others)),
            features,
        })
    })
    .collect()
}

/// The workspaces that have these crates.
pub(crate) const WORKSPACES: [&str; 3] = ["Cargo.toml", "fuzz/Cargo.toml", "fleet/Cargo.toml"];

/// Checks the workspaces below the folder.
///
/// # Errors
///
/// If cargo cannot tell the graph.
pub(super) fn check(root: &Path, page: &str) -> Result<Vec<Finding>> {
    let rows = rows(page);
    let mut findings = Vec::new();
    for manifest in WORKSPACES {
        for package in packages(&root.join(manifest))? {
            findings.extend(of_package(root, &rows, &package));
            findings.extend(of_published(root, &package));
        }
    }
    Ok(findings)
}

/// The packages of a workspace, as their manifests declare them.
pub(crate) fn packages(manifest: &Path) -> Result<Vec<Package>> {
    let mut metadata = MetadataCommand::new();
    let metadata = metadata.manifest_path(manifest).no_deps().exec();
    let metadata = metadata.map_err(|error| format!("{}: {error}", manifest.display()))?;
    Ok(metadata.packages)
}

fn row<'a>(rows: &'a [Crate<'_>], name: &str) -> Option<&'a Crate<'a>> {
    rows.iter().find(|row| row.name == name)
}

fn of_package(root: &Path, rows: &[Crate<'_>], package: &Package) -> Vec<Finding> {
    let manifest = package.manifest_path.as_std_path();
    let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
    let name = package.name.as_str();
    let finding = |what| Finding::new(&manifest.to_string_lossy(), 0, what);
    let Some(row) = row(rows, name) else {
        let what = format!("{name} is not in the table of crates: add it to {PAGE}");
        return vec![finding(what)];
    };
    let refused = package
        .dependencies
        .iter()
        .filter(|dependency| !row.allows(rows, dependency));
    let what = |dependency: &Dependency| {
        let kind = if dependency.optional {
            " as a feature"
        } else {
            ""
        };
        format!(
            "{name} must not depend on {}{kind}: {PAGE} has the table",
            dependency.name
        )
    };
    refused
        .map(|dependency| finding(what(dependency)))
        .collect()
}

/// What a package that is published lacks for that.
fn of_published(root: &Path, package: &Package) -> Vec<Finding> {
    let manifest = package.manifest_path.as_std_path();
    let path = manifest.strip_prefix(root).unwrap_or(manifest);
    let finding = |what| Finding::new(&path.to_string_lossy(), 0, what);
    // `publish = false` is an empty list of registries.
    if package.publish.is_some() {
        return Vec::new();
    }
    let folder = manifest.parent().unwrap_or(root);
    let has_file = |name: &str| folder.join(name).is_file();
    let has = [
        ("description", package.description.is_some()),
        ("documentation", package.documentation.is_some()),
        ("repository.workspace", package.repository.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
        (
            "readme",
            package.readme().is_some_and(|page| page.is_file()),
        ),
        ("LICENSE-MIT", has_file("LICENSE-MIT")),
        ("LICENSE-APACHE", has_file("LICENSE-APACHE")),
    ];
    let lacking = has.into_iter().filter(|(_, has)| !has);
    let mut findings: Vec<Finding> = lacking
        .map(|(what, _)| finding(format!("a published crate needs {what}: add it")))
        .collect();
    for dependency in &package.dependencies {
        // The tests of a package are not published.
        let is_linked = dependency.kind != DependencyKind::Development;
        let is_anything = dependency.req.to_string() == "*";
        if is_linked && dependency.path.is_some() && is_anything {
            let what = format!("{} needs a version beside its path", dependency.name);
            findings.push(finding(what));
        }
    }
    findings
}

impl Crate<'_> {
    fn allows(&self, rows: &[Crate<'_>], dependency: &Dependency) -> bool {
        let name = dependency.name.as_str();
        if row(rows, name).is_some() {
            // A crate's own library is no arrow.
            return name == self.name || self.ours.contains(&name);
        }
        let is_listed = |names: &Vec<&str>| names.contains(&name);
        dependency.kind == DependencyKind::Development
            || self.others.as_ref().is_none_or(is_listed)
            || self.features && dependency.optional
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is found in a package of that name with these dependencies.
    fn found(name: &str, dependencies: &str) -> Vec<String> {
        let folder = format!("crates-test-{}/{name}", std::process::id());
        let folder = xtask::process::work_folder(&folder).expect("a folder");
        let manifest = folder.join("Cargo.toml");
        let text = format!(
            "[workspace]\n[package]\nname = {name:?}\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n{dependencies}"
        );
        fs::write(folder.join("lib.rs"), "").expect("a file");
        fs::write(&manifest, text).expect("a manifest");
        let found = packages(&manifest).expect("cargo's answer");
        fs::remove_dir_all(&folder).expect("the folder can be removed");
        let page = fs::read_to_string(xtask::process::root().join(PAGE)).expect("the page");
        let rows = rows(&page);
        let found = found
            .iter()
            .flat_map(|package| of_package(&folder, &rows, package));
        found.map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn wrong_arrows_are_caught() {
        let cli = "[dependencies]\nclap = \"4\"\nfdr = \"0.1\"\nfdr-formats = \"0.1\"\n";
        let wanted = "Cargo.toml: fdr-cli must not depend on fdr: ARCHITECTURE.md has the table";
        assert_eq!(found("fdr-cli", cli), [wanted]);
        let of_tests = "[dev-dependencies]\nfdr = \"0.1\"\nlibc = \"0.2\"\n";
        let wanted = "Cargo.toml: fdr-fuzz must not depend on fdr: ARCHITECTURE.md has the table";
        assert_eq!(found("fdr-fuzz", of_tests), [wanted]);
        let renamed = "[target.'cfg(windows)'.dependencies]\nother = { package = \"fdr\", version = \"0.1\" }\n";
        assert_eq!(found("xtask", renamed).len(), 1);
        assert!(found("fdr-new", "")[0].contains("fdr-new is not in the table"));
    }

    #[test]
    fn the_recorder_stays_small() {
        let good = "[dependencies]\nlibc = { version = \"0.2\", optional = true }\nfdr-formats = \"0.1\"\n\
                    crossbeam-utils = \"0.8\"\n[dev-dependencies]\nserde = \"1\"\n";
        assert_eq!(found("fdr", good), [""; 0]);
        for bad in [
            "[dependencies]\nserde = \"1\"\n",
            "[build-dependencies]\ncc = \"1\"\n",
        ] {
            assert_eq!(found("fdr", bad).len(), 1, "{bad}");
        }
        let macros = "[dependencies]\nsyn = \"3\"\nquote = \"1\"\nserde = \"1\"\n";
        assert_eq!(found("fdr-macros", macros).len(), 1);
    }

    #[test]
    fn a_published_crate_is_complete() {
        let root = xtask::process::root();
        let mut packages = packages(&root.join("Cargo.toml")).expect("cargo's answer");
        let found = |package: &Package| of_published(&root, package).len();
        let tracing = packages.iter_mut().find(|it| it.name == "fdr-tracing");
        let tracing = tracing.expect("a published crate");
        assert_eq!(found(tracing), 0);
        tracing.keywords.clear();
        tracing.repository = None;
        assert_eq!(found(tracing), 2);
        // Its dependency on `fdr` without a version.
        for dependency in &mut tracing.dependencies {
            dependency.req = "*".parse().expect("a requirement");
        }
        assert_eq!(found(tracing), 3);
        // Neither a page nor a licence is there.
        tracing.manifest_path = tracing.manifest_path.with_file_name("src/Cargo.toml");
        assert_eq!(found(tracing), 6);
        tracing.publish = Some(Vec::new());
        assert_eq!(found(tracing), 0);
    }

    #[test]
    fn the_core_of_formats_needs_features() {
        let behind_a_feature =
            "[dependencies]\nserde_json = { version = \"1\", optional = true }\n";
        assert_eq!(found("fdr-formats", behind_a_feature), [""; 0]);
        assert_eq!(
            found("fdr-formats", "[dependencies]\nserde_json = \"1\"\n").len(),
            1
        );
    }
}
