//! Where a command's output goes. A file or folder is made under a temporary name, beside its own name. It gets its own
//! name when it is complete.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fdr_formats::registry::of_folder;
use nix::unistd::geteuid;

use crate::cleanup::{self, Entry};
use crate::ui;

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    File,
    Folder,
}

/// An output that is not in its place yet. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Pending {
    temporary: PathBuf,
    path: PathBuf,
    shape: Shape,
    replace: bool,
    /// The temporary one, once it is made: another command's is never removed.
    made: Option<Entry>,
}

/// Refuses an output that is the trace which is read.
///
/// # Errors
/// Where it is.
pub(crate) fn check_is_not(output: &Path, trace: &Path) -> anyhow::Result<()> {
    let both = (trace.canonicalize(), output.canonicalize());
    if matches!(both, (Ok(left), Ok(right)) if left == right) {
        let output = ui::path(output);
        bail!("{output}: is the trace itself; -o gives another name");
    }
    Ok(())
}

/// Refuses a path that may not be written, before any work is done.
///
/// # Errors
/// What is there, and what to do.
pub(crate) fn check(path: &Path, shape: Shape, replace: bool) -> anyhow::Result<()> {
    let text = ui::path(path);
    if path.file_name().is_none() {
        bail!("{text}: no name for an output");
    }
    // The check is of the link itself, because a link is in the way even if it points to nothing.
    let Ok(there) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if there.is_symlink() && !is_trusted(path, &there) {
        bail!("{text}: is a link that another user made, and is left as it is; give another name");
    }
    let kind = fs::metadata(path).map_or(there.file_type(), |there| there.file_type());
    match (shape, replace) {
        _ if !kind.is_file() && !kind.is_dir() && !kind.is_symlink() => {
            bail!("{text}: is no regular file and is left as it is; `-o -` writes to a pipe")
        }
        (_, false) => bail!("{text}: exists; --force replaces it, -o gives another name"),
        (Shape::File, true) if kind.is_dir() => bail!("{text}: is a folder; give another name"),
        (Shape::Folder, true) if !kind.is_dir() => bail!("{text}: is no folder; give another name"),
        (Shape::Folder, true) if !is_replaceable(path) => {
            bail!("{text}: has more in it than a trace; remove it yourself, or give another name")
        }
        _ => Ok(()),
    }
}

/// Whether a link may be followed: it belongs to this user or to the owner of its folder.
fn is_trusted(path: &Path, link: &Metadata) -> bool {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::metadata(folder.unwrap_or(Path::new(".")));
    link.uid() == geteuid().as_raw() || folder.is_ok_and(|folder| folder.uid() == link.uid())
}

/// Whether a folder is a trace and nothing else, or empty.
fn is_replaceable(folder: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(folder) else {
        return false;
    };
    let is_file =
        |entry: io::Result<fs::DirEntry>| entry.and_then(|entry| Ok(entry.file_type()?.is_file()));
    let empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    empty || (of_folder(folder).is_some() && entries.all(|entry| is_file(entry).unwrap_or(false)))
}

impl Pending {
    /// A new file; with a handle to write it by, and to read it back.
    ///
    /// # Errors
    /// Where it can't be made, or its place is taken.
    pub(crate) fn file(path: &Path, replace: bool) -> anyhow::Result<(Pending, File)> {
        let mut pending = Pending::new(path, Shape::File, replace)?;
        let made = pending.make(create);
        let file = made.with_context(|| ui::path(&pending.path))?;
        Ok((pending, file))
    }

    /// A new, empty folder.
    ///
    /// # Errors
    /// Where it can't be made, or its place is taken.
    pub(crate) fn folder(path: &Path, replace: bool) -> anyhow::Result<Pending> {
        let mut pending = Pending::new(path, Shape::Folder, replace)?;
        let made = pending.make(create_folder);
        made.with_context(|| ui::path(&pending.path))?;
        Ok(pending)
    }

    /// Makes the temporary one.
    fn make<T>(&mut self, create: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let mut names = cleanup::lock()?;
        let made = create(&self.temporary)?;
        let (path, shape) = (self.temporary.clone(), self.shape);
        self.made = Some(names.add(move || remove(&path, shape)));
        Ok(made)
    }

    fn new(path: &Path, shape: Shape, replace: bool) -> anyhow::Result<Pending> {
        check(path, shape, replace)?;
        // If the path is a link and may be replaced, the target of the link is replaced. The link stays.
        let path = match replace {
            true => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            false => path.to_owned(),
        };
        Ok(Pending {
            temporary: beside(&path, "part"),
            path,
            shape,
            replace,
            made: None,
        })
    }

    /// Has a signal that ends the process leave what was written: in its place, else where it is.
    pub(crate) fn keep_at_signal(&mut self) {
        let mut names = cleanup::wait_for_lock();
        if let Some(entry) = self.made.take() {
            names.forget(&entry);
            let (from, to) = (self.temporary.clone(), self.path.clone());
            let (shape, replace) = (self.shape, self.replace);
            let keep = move || match put(&from, &to, shape, replace) {
                Ok(()) => ui::complain(&format!("{}: ended by a signal", ui::path(&to))),
                Err(error) => ui::complain(&format!(
                    "{}: {error}; what came is in {}",
                    ui::path(&to),
                    ui::path(&from)
                )),
            };
            self.made = Some(names.add(keep));
        }
    }

    /// Where it is made.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Puts it into its place.
    ///
    /// # Errors
    /// Where that is taken, since [`check`] looked.
    pub(crate) fn place(&mut self) -> anyhow::Result<()> {
        let mut names = cleanup::wait_for_lock();
        let placed = put(&self.temporary, &self.path, self.shape, self.replace);
        placed.with_context(|| ui::path(&self.path))?;
        if let Some(entry) = self.made.take() {
            names.forget(&entry);
        }
        Ok(())
    }

    /// Leaves it where it was made, and says where that is.
    pub(crate) fn keep(mut self) -> PathBuf {
        let mut names = cleanup::wait_for_lock();
        if let Some(entry) = self.made.take() {
            names.forget(&entry);
        }
        std::mem::take(&mut self.temporary)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // In its place, it is not here any more.
        if let Some(entry) = self.made.take() {
            let mut names = cleanup::wait_for_lock();
            remove(&self.temporary, self.shape);
            names.forget(&entry);
        }
    }
}

/// Makes a file of what is written, and puts it into its place.
///
/// # Errors
/// Where it can't be written, or its place is taken.
pub(crate) fn write(
    path: &Path,
    replace: bool,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut pending, file) = Pending::file(path, replace)?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    written.map_err(|error| match error.is::<io::Error>() {
        true => error.context(ui::path(path)),
        false => error,
    })?;
    pending.place()
}

/// Gives what was made its own name.
fn put(from: &Path, to: &Path, shape: Shape, replace: bool) -> io::Result<()> {
    match (shape, replace) {
        (Shape::File, true) => fs::rename(from, to),
        (Shape::File, false) => link(from, to),
        (Shape::Folder, true) => swap(from, to),
        // Only an empty folder can be in the way and be replaced.
        (Shape::Folder, false) => fs::rename(from, to),
    }
}

fn remove(path: &Path, shape: Shape) {
    match shape {
        Shape::File => {
            let _ = fs::remove_file(path);
        }
        Shape::Folder => remove_folder(path),
    }
}

/// How often a folder is emptied anew. Each time, a thread has finished a file that it was making.
const EMPTIED: u32 = 10_000;

/// Removes a folder in which other threads may be making files. Under another name none can begin a new one,
/// so it is empty after as many tries as there are threads.
fn remove_folder(path: &Path) {
    let other = beside(path, "gone");
    let path = match fs::rename(path, &other) {
        Ok(()) => &other,
        Err(_) => path,
    };
    for _ in 0..EMPTIED {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            _ => return,
        }
    }
}

/// A new, empty folder for its owner alone.
fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    Ok(())
}

/// A new file for its owner alone; a link of that name is not followed.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(path)?;
    // A umask may have taken the owner's own rights. Where that can't be, it stays as it is.
    let _ = file.set_permissions(Permissions::from_mode(0o600));
    Ok(file)
}

/// A name in the folder of the path. It is random, so no other command uses the name, and no other user can guess it.
fn beside(path: &Path, end: &str) -> PathBuf {
    // The standard library's keys are random; each state has others.
    let number = RandomState::new().build_hasher().finish();
    let mut name = OsString::from(".");
    // The longest name has 255 bytes.
    let own = path.file_name().unwrap_or_default().as_bytes();
    name.push(OsStr::from_bytes(own.get(..200).unwrap_or(own)));
    name.push(format!(".{number:016x}.{end}"));
    path.with_file_name(name)
}

/// Gives a file another name, which must be free.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems have no links.
        Err(_) if fs::symlink_metadata(to).is_err() => fs::rename(from, to),
        Err(_) => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

/// Puts a folder in the place of another, which is removed; that one comes back if it can't be.
fn swap(from: &Path, to: &Path) -> io::Result<()> {
    // Much may have been put there since `check` looked.
    if to.is_dir() && !(is_replaceable(to) && names(to).is_subset(&names(from))) {
        return Err(io::Error::other("has more in it than such a trace"));
    }
    let old = beside(to, "old");
    match fs::rename(to, &old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return fs::rename(from, to),
        moved => moved?,
    }
    if let Err(error) = fs::rename(from, to) {
        let _ = fs::rename(&old, to);
        return Err(error);
    }
    fs::remove_dir_all(old)
}

/// The names of a folder's entries, without digits, because the names of streams differ only in their numbers.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries
        .map(|entry| name(entry).replace(|digit: char| digit.is_ascii_digit(), ""))
        .collect()
}

/// A file for this process alone, which is gone when it is closed.
///
/// # Errors
/// The folder for temporary files and what is wrong with it.
pub(crate) fn unnamed() -> anyhow::Result<File> {
    tempfile::tempfile().with_context(in_temporary)
}

/// The folder for temporary files, for an error that happened there.
pub(crate) fn in_temporary() -> String {
    let folder = std::env::temp_dir();
    format!("{} (TMPDIR chooses another folder)", ui::path(&folder))
}

/// A folder for this process alone, in the one for temporary files; gone when it is dropped.
///
/// # Errors
/// As [`unnamed`].
pub(crate) fn unnamed_folder() -> anyhow::Result<Pending> {
    let temporary = beside(&std::env::temp_dir().join("fdr"), "part");
    let mut pending = Pending {
        path: temporary.clone(),
        temporary,
        shape: Shape::Folder,
        replace: false,
        made: None,
    };
    pending.make(create_folder).with_context(in_temporary)?;
    Ok(pending)
}

/// The size of a file, or of all files in a folder.
pub(crate) fn size(path: &Path) -> u64 {
    let one = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    if !path.is_dir() {
        return one(path);
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| one(&entry.path())).sum()
}
