//! The files of a trace's folder, written. At most one of them is open at a time, whatever the
//! number of threads. Must never write outside of the folder that it was given.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Who may read and write files: their owner.
const OWNER: u32 = 0o600;

/// A folder that is being filled.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The file that was written last.
    current: Option<(String, File)>,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Folder {
        Folder {
            path,
            current: None,
        }
    }

    /// Appends to a file, which is made if it is not there.
    pub(super) fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.current {
            Some((current, file)) if current == name => file,
            current => {
                let path = self.path.join(name);
                let mut options = OpenOptions::new();
                let options = options.append(true).create(true).mode(OWNER);
                let file = options.open(&path);
                let file = file.map_err(|error| named(&path, &error))?;
                &mut current.insert((name.to_owned(), file)).1
            }
        };
        let written = file.write_all(bytes);
        written.map_err(|error| named(&self.path.join(name), &error))
    }

    /// Writes a whole file, in a folder of its own if the name says so. Does not make the trace's folder:
    /// whoever removes that one, because the process ends, must not find it again.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent().filter(|folder| *folder != self.path) {
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(named(folder, &error));
                }
                _ => {}
            }
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let file = options.mode(OWNER).open(&path);
        let written = file.and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| named(&path, &error))
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
