//! A folder for each test. It is removed if the test succeeds. After a failure it stays, and the free space
//! of the disk is printed, because the failures of programs on a full disk do not show the cause.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that was empty at first.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one; `name` is for people who look at it after a failure.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Folder {
        Folder::within(&crate::target_folder().join("tmp"), name)
    }

    /// Makes one in another folder than that of all tests.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    #[must_use]
    pub fn within(parent: &Path, name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Folder(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of all files in it, hidden ones too, sorted.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The files in it whose names end so, sorted.
    #[must_use]
    pub fn ending(&self, end: &str) -> Vec<PathBuf> {
        let names = self.names().into_iter();
        names
            .filter(|name| name.ends_with(end))
            .map(|name| self.join(&name))
            .collect()
    }

    /// The files of the folder of that name in it, sorted: none, if there is no such folder.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    #[must_use]
    pub fn files(&self, place: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.join(place)).into_iter().flatten();
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        files
    }

    /// The only one of them whose name ends so.
    ///
    /// # Panics
    ///
    /// If there is none or more than one.
    #[must_use]
    pub fn only_file(&self, place: &str, end: &str) -> PathBuf {
        let mut files = self.files(place);
        files.retain(|path| path.to_string_lossy().ends_with(end));
        assert_eq!(files.len(), 1, "{place}/…{end}: {files:?}");
        files.remove(0)
    }

    /// The files of a process in it whose names end so, sorted.
    #[must_use]
    pub fn of_process(&self, pid: u32, end: &str) -> Vec<PathBuf> {
        let pid = pid.to_string();
        let is_of = |name: &str| name.split('.').nth(1) == Some(&pid);
        let names = self.names().into_iter();
        let names = names.filter(|name| name.ends_with(end) && is_of(name));
        names.map(|name| self.join(&name)).collect()
    }

    /// The only one of them.
    ///
    /// # Panics
    ///
    /// If there is none or more than one.
    #[must_use]
    pub fn only_of_process(&self, pid: u32, end: &str) -> PathBuf {
        let mut files = self.of_process(pid, end);
        assert_eq!(files.len(), 1, "…{end} of {pid} in {:?}", self.names());
        files.remove(0)
    }

    /// The trace in it.
    ///
    /// # Panics
    ///
    /// If there is none or more than one, or anything else in the folder.
    #[must_use]
    pub fn only_trace(&self) -> PathBuf {
        let names = self.names();
        assert!(
            names.len() == 1 && names[0].ends_with(".fdr"),
            "one trace and nothing else: {names:?}"
        );
        self.join(&names[0])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let space = Command::new("df").arg("-h").arg(&self.0).output();
            let space = space.map(|output| output.stdout).unwrap_or_default();
            eprintln!("kept: {self:?}; {}", String::from_utf8_lossy(&space));
        } else if env::var_os("FDR_TESTS_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
