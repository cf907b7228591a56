//! A trace while it is written: a file with a hidden temporary name, beside its final name. It gets
//! its final name when it is complete. An incomplete trace must never have the final name. Only an earlier
//! trace may be replaced. Anything else must stay as it is.
//!
//! A trace is locked until it has its final name. So if a process finds an unlocked temporary file, the process that
//! made the file has died, and the file is removed.

use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::sys;

/// How many names are tried until one is free.
const NAMES: u32 = 1000;

/// A trace under its temporary name. Dropping it removes the trace, unless it has got its final name.
#[derive(Debug)]
pub(crate) struct Staged {
    temporary: PathBuf,
    path: PathBuf,
    placed: bool,
    /// Holds the lock.
    _lock: Option<File>,
}

impl Staged {
    /// Makes the temporary file. Makes the folders above it if `make_folders` is set. `nonce` should be
    /// unpredictable.
    ///
    /// # Errors
    /// If the final name belongs to something that may not be replaced, or if there is no space.
    pub(crate) fn begin(path: &Path, make_folders: bool, nonce: u64) -> io::Result<(Staged, File)> {
        // With these rights no other user can put anything into the folders.
        let folders = match make_folders {
            true => {
                let mut path = path.as_os_str().as_bytes().to_vec();
                path.push(0);
                sys::file::make_folders(&mut path).map_err(io::Error::from_raw_os_error)
            }
            false => Ok(()),
        };
        let mut staged = Staged {
            temporary: path.with_file_name(format!(".fdr-{nonce:016x}.tmp")),
            path: path.to_owned(),
            // Until the temporary file is made, an object of that name is not ours.
            placed: true,
            _lock: None,
        };
        staged.check()?;
        // Once in a process, because a folder may have very many names.
        static LOOKED: AtomicBool = AtomicBool::new(false);
        if !LOOKED.swap(true, Ordering::Relaxed) {
            remove_abandoned(path);
        }
        let made = staged.make();
        let file = match (made, folders) {
            // The reason why the folder can't be made says more than "not found".
            (Err(error), Err(folder)) if error.kind() == io::ErrorKind::NotFound => Err(folder),
            (made, _) => made,
        }?;
        staged.placed = false;
        Ok((staged, file))
    }

    /// Makes the temporary file, and locks it.
    fn make(&mut self) -> io::Result<File> {
        let mut tries = 1;
        loop {
            let file = create(&self.temporary)?;
            // Without a second descriptor there is no lock.
            let lock = file.try_clone().ok();
            let locked = lock.as_ref().filter(|lock| sys::file::lock(lock));
            let inode = locked.and_then(|lock| Some(lock.metadata().ok()?.ino()));
            // Another process may have found it before it was locked.
            let found = fs::symlink_metadata(&self.temporary).map(|found| found.ino());
            if tries == NAMES || inode.is_none_or(|inode| found.is_ok_and(|found| found == inode)) {
                self._lock = lock;
                return Ok(file);
            }
            tries += 1;
        }
    }

    /// Refuses a final name that a rename must not replace, such as a device or a pipe (`FDR_OUT=/dev/stdout`).
    fn check(&self) -> io::Result<()> {
        if is_planted(&self.path) {
            return Err(io::Error::other(
                "a link that another user made; it is left as it is",
            ));
        }
        if is_open_file(&self.path) {
            return Err(io::Error::other(
                "a link to a file that is open (`-` is the standard output); it is left as it is",
            ));
        }
        match fs::metadata(&self.path) {
            Ok(known) if !known.is_file() => {
                Err(io::Error::other("not a file; it is left as it is"))
            }
            _ => Ok(()),
        }
    }

    /// Gives the trace its final name.
    ///
    /// # Errors
    /// The rename failed. The temporary trace is then removed, and the object of that name is unchanged.
    pub(crate) fn place(mut self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)?;
        self.placed = true;
        Ok(())
    }

    /// Gives the trace its final name and returns the name. If another object has the name, tries the names
    /// that `next` gives. Two processes in two containers may share a folder and have the same pid.
    ///
    /// # Errors
    /// The rename failed. The temporary trace is then removed.
    pub(crate) fn place_where_free(
        mut self,
        mut next: impl FnMut() -> PathBuf,
    ) -> io::Result<PathBuf> {
        let mut tries = 1;
        loop {
            match rename_where_free(&self.temporary, &self.path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < NAMES => {
                    tries += 1;
                    self.path = next();
                }
                result => {
                    result?;
                    self.placed = true;
                    return Ok(std::mem::take(&mut self.path));
                }
            }
        }
    }
}

/// Renames a file if no object has the new name.
fn rename_where_free(from: &Path, to: &Path) -> io::Result<()> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let error = match sys::raw::rename(&text(from)?, &text(to)?, false) {
        Ok(_) => return Ok(()),
        Err(error) => io::Error::from_raw_os_error(error),
    };
    let unknown = [libc::ENOSYS, libc::EPERM, libc::EOPNOTSUPP, libc::EMLINK];
    if !unknown.iter().any(|&no| error.raw_os_error() == Some(no)) {
        return Err(error);
    }
    // The file system or the kernel can't do this in one step.
    match fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.placed {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Removes the temporary files of dead processes in the folder of `path`.
fn remove_abandoned(path: &Path) {
    let Some(folder) = path.parent() else {
        return;
    };
    let me = sys::process::user();
    sys::file::each_name(folder, &mut |name| {
        if is_temporary(name) {
            let temporary = folder.join(name);
            let mut options = OpenOptions::new();
            let options = options.read(true);
            let options = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
            let Ok(file) = options.open(&temporary) else {
                return true;
            };
            let is_mine = file.metadata().is_ok_and(|known| known.uid() == me);
            // It stays locked until it is removed.
            if is_mine && sys::file::lock(&file) {
                let _ = fs::remove_file(&temporary);
            }
        }
        true
    });
}

/// Whether a file is named like a trace that is being written: `.fdr-0123456789abcdef.tmp`.
fn is_temporary(name: &OsStr) -> bool {
    let middle = name.as_bytes().strip_prefix(b".fdr-");
    let middle = middle.and_then(|rest| rest.strip_suffix(b".tmp"));
    middle.is_some_and(|hex| hex.len() == 16 && hex.iter().all(u8::is_ascii_hexdigit))
}

/// Makes a new file that only its owner can read and write.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
    // The umask may have removed rights of the owner. If they can't be set, the file stays as it is.
    let _ = file.set_permissions(Permissions::from_mode(0o600));
    Ok(file)
}

/// Whether a path is a link of another user. A link of the program's own user is replaced like an earlier trace
/// and never followed.
fn is_planted(path: &Path) -> bool {
    let me = sys::process::user();
    fs::symlink_metadata(path).is_ok_and(|known| known.is_symlink() && known.uid() != me)
}

/// Whether a path is a link to an open file of some process, as /dev/stdout is.
pub(crate) fn is_open_file(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|to| to.as_os_str().as_bytes().starts_with(b"/proc/"))
}

/// Makes a file without a name in `folder`, for this process alone.
///
/// # Errors
/// The file can't be made there.
pub(crate) fn unnamed(folder: &Path, nonce: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    if let Ok(file) = options.custom_flags(libc::O_TMPFILE).open(folder) {
        return Ok(file);
    }
    // Some file systems have no such files.
    let path = folder.join(format!(".fdr-{nonce:016x}.dump"));
    let file = create(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Write as _;

    use super::*;

    /// The names in a folder, sorted.
    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<OsString> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        names
    }

    fn folder(name: &str) -> PathBuf {
        let name = format!("fdr-staged-{name}-{:016x}", sys::process::random());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_name_taken_meanwhile_is_left_alone() {
        let folder = folder("file");
        let name = |number: u32| folder.join(format!("x.1.{number}.fdr"));
        let (staged, mut file) = Staged::begin(&name(1), false, 7).expect("begun");
        file.write_all(b"ours").expect("written");
        fs::write(name(1), b"theirs").expect("written");
        fs::write(name(2), b"theirs").expect("written");
        let mut number = 1;
        let placed = staged.place_where_free(|| {
            number += 1;
            name(number)
        });
        assert_eq!(placed.expect("placed"), name(3));
        assert_eq!(fs::read(name(1)).expect("it"), b"theirs");
        assert_eq!(fs::read(name(2)).expect("it"), b"theirs");
        assert_eq!(fs::read(name(3)).expect("it"), b"ours");
        assert_eq!(names(&folder).len(), 3);
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn what_a_dead_process_left_is_removed() {
        let folder = folder("abandoned");
        let temporary = |digit: &str| folder.join(format!(".fdr-{}.tmp", digit.repeat(16)));
        for path in [&temporary("0"), &temporary("1"), &folder.join(".fdr-x.tmp")] {
            fs::write(path, b"a part").expect("written");
        }
        let locked = File::open(temporary("1")).expect("there");
        assert!(sys::file::lock(&locked));
        remove_abandoned(&folder.join("x.fdr"));
        let left = names(&folder);
        assert_eq!(left, [".fdr-1111111111111111.tmp", ".fdr-x.tmp"]);
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn without_a_free_name_it_is_gone() {
        let folder = folder("none");
        let path = folder.join("x.fdr");
        let (staged, _) = Staged::begin(&path, false, 7).expect("begun");
        fs::write(&path, b"theirs").expect("written");
        let error = staged.place_where_free(|| path.clone()).expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(&folder).len(), 1);
        fs::remove_dir_all(folder).expect("removed");
    }
}
