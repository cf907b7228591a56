//! A copy of a workspace whose functions are marked, below the target folder. Only what changed is written again, so
//! that cargo builds no more than it has to.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::plan::{Plan, read};
use crate::workspace::{Package, Workspace};
use crate::write::Change;

/// A package that the copy of the workspace takes in place of the one from a registry.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// Where cargo has the original from, as `[patch]` names it.
    pub(crate) source: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) folder: PathBuf,
}

/// Waits until no other command writes the copy, and keeps others waiting until the value is dropped.
///
/// # Errors
/// Where there can be no lock.
pub(crate) fn lock(copy: &Path) -> anyhow::Result<File> {
    fs::create_dir_all(copy).with_context(|| copy.display().to_string())?;
    let lock = copy.with_extension("lock");
    let lock = File::create(&lock).with_context(|| lock.display().to_string())?;
    lock.lock().context("the lock of the copy")?;
    Ok(lock)
}

/// Brings the copy of a workspace up to date. The caller has its [`lock`].
///
/// # Errors
/// Where a file cannot be read or written, or the workspace has members elsewhere.
pub(crate) fn update(
    workspace: &Workspace,
    plan: &Plan,
    replaced: &[Replacement],
    copy: &Path,
) -> anyhow::Result<()> {
    let root = &workspace.workspace_root;
    for package in workspace.members() {
        if !package.manifest_path.starts_with(root) {
            let path = package.manifest_path.display();
            bail!(
                "{path}: a member outside the workspace's folder cannot be copied; use cargo fdr instrument"
            );
        }
    }
    let mut copier = Copier {
        root,
        copy,
        build: &workspace.target_directory,
        plan,
        replaced,
        lock: Some(root.join("Cargo.lock")),
        manifests: workspace
            .members()
            .map(|package| package.manifest_path.clone())
            .collect(),
    };
    copier.manifests.insert(root.join("Cargo.toml"));
    copier.folder(root, copy)
}

/// Brings the copy of a package up to date. The caller has the [`lock`] of the workspace's copy.
///
/// # Errors
/// Where a file cannot be read or written.
pub(crate) fn update_package(package: &Package, plan: &Plan, copy: &Path) -> anyhow::Result<()> {
    let root = package.folder();
    let copier = Copier {
        root,
        copy,
        build: Path::new(""),
        plan,
        replaced: &[],
        lock: None,
        manifests: BTreeSet::from([package.manifest_path.clone()]),
    };
    copier.folder(root, copy)
}

struct Copier<'a> {
    root: &'a Path,
    copy: &'a Path,
    /// The target folder, which is not copied.
    build: &'a Path,
    plan: &'a Plan,
    replaced: &'a [Replacement],
    /// The lock file that counts. That of a dependency does not.
    lock: Option<PathBuf>,
    manifests: BTreeSet<PathBuf>,
}

impl Copier<'_> {
    fn folder(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let bad = |path: &Path| path.display().to_string();
        if !to.symlink_metadata().is_ok_and(|there| there.is_dir()) {
            remove(to)?;
            fs::create_dir_all(to).with_context(|| bad(to))?;
        }
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(from).with_context(|| bad(from))? {
            let entry = entry.with_context(|| bad(from))?;
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().with_context(|| bad(&path))?;
            let to = to.join(&name);
            if kind.is_dir() {
                let is_build = path == self.build || path.join("CACHEDIR.TAG").is_file();
                if is_build || name == ".git" {
                    continue;
                }
                self.folder(&path, &to)?;
            } else if kind.is_symlink() {
                self.link(&path, &to)?;
            } else if kind.is_file() {
                self.file(&path, &to)?;
            } else {
                // A socket or a pipe is no source.
                continue;
            }
            names.insert(name);
        }
        if from == self.root && self.lock.is_some() {
            // If the workspace has no such file, the copy keeps its own.
            names.insert("Cargo.lock".into());
        }
        for entry in fs::read_dir(to).with_context(|| bad(to))? {
            let entry = entry.with_context(|| bad(to))?;
            if !names.contains(&entry.file_name()) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn file(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        if self.manifests.contains(from) {
            return write_if_new(to, &self.manifest(from)?);
        }
        if self.lock.as_deref() == Some(from) {
            let before = self.copy.with_extension("Cargo.lock");
            return copy_lock(from, to, &before, &format!("{:?}", self.replaced));
        }
        let planned = self.plan.sources.iter().find(|change| change.path == from);
        match planned {
            Some(Change { text, .. }) => write_if_new(to, text),
            None => copy_if_new(from, to),
        }
    }

    /// A relative link is copied as it is if it points into the workspace. Otherwise the copy gets an absolute link.
    fn link(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let bad = || from.display().to_string();
        let mut target = fs::read_link(from).with_context(bad)?;
        if target.is_relative() {
            let full = plain(&from.parent().unwrap_or(from).join(&target));
            if !full.starts_with(self.root) {
                target = full;
            }
        }
        if fs::read_link(to).is_ok_and(|there| there == target) {
            return Ok(());
        }
        remove(to)?;
        symlink(&target, to).with_context(|| to.display().to_string())
    }

    /// A manifest with the dependency. Paths that lead out of the workspace lead to the same folders as before.
    fn manifest(&self, from: &Path) -> anyhow::Result<String> {
        let planned = self
            .plan
            .manifests
            .iter()
            .find(|change| change.path == from);
        let text = match planned {
            Some(change) => change.text.clone(),
            None => read(from)?,
        };
        let mut document: DocumentMut = text
            .parse()
            .map_err(|error| anyhow::anyhow!("{}: {error}", from.display()))?;
        let folder = from.parent().unwrap_or(from);
        let mut is_changed = self.paths(document.as_table_mut(), folder, false);
        let is_root = folder == self.root;
        if is_root && !self.replaced.is_empty() {
            self.patch(&mut document)
                .with_context(|| from.display().to_string())?;
            is_changed = true;
        }
        let is_alone = is_root && !document.contains_key("workspace");
        let mut text = if is_changed {
            document.to_string()
        } else {
            text
        };
        if is_alone {
            // Without this line, cargo looks for a workspace in the folders above the copy.
            text += "\n[workspace]\n";
        }
        Ok(text)
    }

    /// Has cargo take the replacements.
    fn patch(&self, document: &mut DocumentMut) -> anyhow::Result<()> {
        for (number, of) in self.replaced.iter().enumerate() {
            let mut value = InlineTable::new();
            value.insert("package", of.name.as_str().into());
            value.insert("path", of.folder.to_string_lossy().into_owned().into());
            let table = ["patch", &of.source].into_iter().try_fold(
                document.as_table_mut() as &mut dyn TableLike,
                |table, key| {
                    let mut inner = Table::new();
                    inner.set_implicit(true);
                    let inner = table.entry(key).or_insert(Item::Table(inner));
                    inner.as_table_like_mut()
                },
            );
            let table = table.context("`patch` is no table")?;
            // Two versions of a package need two keys.
            let key = format!("{}-fdr-{number}", of.name);
            table.insert(&key, Item::Value(Value::InlineTable(value)));
        }
        Ok(())
    }

    /// Makes the paths of dependencies absolute that lead out of the workspace; whether there were any.
    fn paths(&self, table: &mut dyn TableLike, folder: &Path, is_dependency: bool) -> bool {
        let mut is_changed = false;
        for (key, item) in table.iter_mut() {
            let inside = is_dependency || DEPENDENCIES.contains(&key.get());
            if let (true, "path", Item::Value(value)) = (is_dependency, key.get(), &mut *item) {
                is_changed |= self.path(value, folder);
            } else if let Some(table) = item.as_table_like_mut() {
                is_changed |= self.paths(table, folder, inside);
            }
        }
        is_changed
    }

    fn path(&self, value: &mut Value, folder: &Path) -> bool {
        let Some(path) = value
            .as_str()
            .map(Path::new)
            .filter(|path| path.is_relative())
        else {
            return false;
        };
        let full = plain(&folder.join(path));
        if full.starts_with(self.root) {
            return false;
        }
        let decor = value.decor().clone();
        *value = Value::from(full.to_string_lossy().into_owned());
        *value.decor_mut() = decor;
        true
    }
}

/// The tables of a manifest in which `path` names a package.
const DEPENDENCIES: [&str; 5] = [
    "dependencies",
    "dev-dependencies",
    "build-dependencies",
    "patch",
    "replace",
];

/// A path without `.` and `..`, as cargo reads it: links are not looked at.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The copy's lock file has the recorder in it. It is made anew when the original changed, or what is replaced. `before`
/// keeps both.
fn copy_lock(from: &Path, to: &Path, before: &Path, replaced: &str) -> anyhow::Result<()> {
    let text = read(from)?;
    let now = format!("{text}# {replaced}\n");
    if to.is_file() && fs::read_to_string(before).is_ok_and(|before| before == now) {
        return Ok(());
    }
    write_if_new(to, &text)?;
    write_if_new(before, &now)
}

fn write_if_new(path: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    remove(path)?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Copies a file unless size and time of the last change say that it is the same.
fn copy_if_new(from: &Path, to: &Path) -> anyhow::Result<()> {
    let source = fs::metadata(from).with_context(|| from.display().to_string())?;
    let is_same = |there: fs::Metadata| {
        there.is_file()
            && there.len() == source.len()
            && (there.mtime(), there.mtime_nsec()) == (source.mtime(), source.mtime_nsec())
    };
    if fs::symlink_metadata(to).is_ok_and(is_same) {
        return Ok(());
    }
    remove(to)?;
    let copied = || -> io::Result<()> {
        fs::copy(from, to)?;
        let times = FileTimes::new().set_modified(source.modified()?);
        File::options().append(true).open(to)?.set_times(times)
    };
    match copied() {
        Ok(()) => Ok(()),
        // The time of a read-only file can't be set. So such a file is copied again the next time.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && to.is_file() => Ok(()),
        Err(error) => Err(error).with_context(|| to.display().to_string()),
    }
}

/// Removes what is there, if anything is.
fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
        Ok(there) if there.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    removed.with_context(|| path.display().to_string())
}
