//! A folder's files as one: a `ustar` archive, which every `tar` reads and writes. A trace needs files of one folder
//! only. The crate [`tar`] knows the layout. Entries are read raw, because a long name or a list of holes would be taken
//! into memory whole, however long it is.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tar::{EntryType, Header};

use crate::ui;

const BLOCK: u64 = 512;
/// Files of a folder: a trace has one for each thread, and a few.
const MAX_FILES: usize = 65_536;

/// Whether a file that begins with these bytes is an archive.
pub(crate) fn probe(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// Reads as an archive of a folder's files, in the order of their names.
pub(crate) struct Archive {
    /// The folder's name in the archive.
    name: PathBuf,
    files: std::vec::IntoIter<PathBuf>,
    /// What is left of a head, of the bytes that fill a block, or of the end.
    block: io::Cursor<Vec<u8>>,
    /// The file that is being read, the number of its unread bytes, and the number of zeros that fill its last block.
    file: Option<(File, u64, u64)>,
    over: bool,
}

impl Archive {
    /// An archive of a folder that has only files. Their names in the archive begin with `name`.
    ///
    /// # Errors
    /// Where it holds something else, or can't be read.
    pub(crate) fn from_folder(folder: &Path, name: &OsStr) -> anyhow::Result<Archive> {
        let text = || ui::path(folder);
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).with_context(text)? {
            let entry = entry.with_context(text)?;
            if !entry.file_type().with_context(text)?.is_file() {
                let entry = ui::path(&entry.path());
                bail!(
                    "{entry}: is no regular file: a folder with others than a trace's is not packed"
                );
            }
            files.push(entry.path());
        }
        files.sort();
        let archive = Archive {
            name: PathBuf::from(name),
            files: Vec::new().into_iter(),
            block: io::Cursor::default(),
            file: None,
            over: false,
        };
        for file in &files {
            let head = archive.head(file, 0);
            head.with_context(|| {
                format!("{}: the name is too long for an archive", ui::path(file))
            })?;
        }
        Ok(Archive {
            files: files.into_iter(),
            ..archive
        })
    }

    /// The head of a file. It does not depend on the file's owner and times, so equal files give equal archives.
    fn head(&self, path: &Path, size: u64) -> io::Result<Header> {
        let mut head = Header::new_ustar();
        head.set_path(self.name.join(path.file_name().unwrap_or_default()))?;
        head.set_entry_type(EntryType::Regular);
        head.set_mode(0o644);
        head.set_uid(0);
        head.set_gid(0);
        head.set_mtime(0);
        head.set_size(size);
        head.set_cksum();
        Ok(head)
    }

    fn begin(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        self.block = io::Cursor::new(self.head(path, size)?.as_bytes().to_vec());
        let fill = size.next_multiple_of(BLOCK) - size;
        self.file = Some((file, size, fill));
        Ok(())
    }

    /// What comes when the bytes of a file, or a block, are all read.
    fn go_on(&mut self) -> io::Result<()> {
        match self.files.next() {
            Some(path) => self.begin(&path).map_err(|error| {
                let what = format!("{}: {error}", ui::path(&path));
                io::Error::new(error.kind(), what)
            }),
            None => {
                self.over = true;
                self.block = io::Cursor::new(vec![0; 2 * BLOCK as usize]);
                Ok(())
            }
        }
    }
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.block.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match &mut self.file {
                Some((file, left, fill)) if *left > 0 => {
                    let count = file.take(*left).read(buffer)?;
                    if count == 0 {
                        return Err(io::Error::other(
                            "a file became shorter while it was packed",
                        ));
                    }
                    *left -= count as u64;
                    if *left == 0 {
                        self.block = io::Cursor::new(vec![0; *fill as usize]);
                    }
                    return Ok(count);
                }
                _ if self.over => return Ok(0),
                _ => self.go_on()?,
            }
        }
    }
}

/// How an archive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Whole,
    /// In the middle of something.
    CutOff,
}

/// Makes the files of an archive of that size in a folder. Errors name the archive `archive_name`. Of an archive that
/// is cut off, it makes the files that are there.
///
/// # Errors
/// Where the archive can't be read or holds anything but files of one folder, or the folder can't be
/// written.
pub(super) fn extract(
    archive: impl Read,
    size: u64,
    folder: &Path,
    archive_name: &str,
) -> anyhow::Result<End> {
    let mut archive = tar::Archive::new(archive);
    let mut entries = archive.entries()?.raw(true);
    // Where the next head begins.
    let mut at = 0_u64;
    for _ in 0..MAX_FILES {
        if at.checked_add(BLOCK).is_none_or(|end| end > size) {
            return Ok(End::CutOff);
        }
        let Some(entry) = entries.next() else {
            return Ok(End::Whole);
        };
        let damaged =
            || format!("the archive is damaged, or no archive of a trace, from byte {at} of it on");
        let mut entry = entry.with_context(damaged)?;
        let length = entry.size();
        let name = match entry.header().entry_type() {
            EntryType::Regular => {
                let name = own_name(&entry.path_bytes()).with_context(damaged)?;
                Some(PathBuf::from(OsStr::from_bytes(&name)))
            }
            // Folders, and what newer tars say of the next file.
            EntryType::Directory | EntryType::XGlobalHeader | EntryType::XHeader => None,
            other => {
                let what = char::from(other.as_byte()).escape_default();
                let damaged = damaged();
                bail!("{damaged}: an entry of type {what}, where only files are expected");
            }
        };
        at = length
            .checked_next_multiple_of(BLOCK)
            .and_then(|length| entry.raw_file_position().checked_add(length))
            .unwrap_or(u64::MAX);
        let copied = match name {
            None => io::copy(&mut entry, &mut io::sink())?,
            Some(name) => {
                let text = || format!("{archive_name}: {}", ui::path(&name));
                let mut options = OpenOptions::new();
                let options = options.write(true).create_new(true).mode(0o600);
                let mut file = options.open(folder.join(&name)).with_context(text)?;
                io::copy(&mut entry, &mut file).with_context(text)?
            }
        };
        if copied < length {
            return Ok(End::CutOff);
        }
    }
    bail!(
        "the archive has more than {} files",
        ui::count(MAX_FILES as u64)
    )
}

/// The last part of a name; it must be one of a folder's files.
fn own_name(name: &[u8]) -> Option<Vec<u8>> {
    let own = name.rsplit(|&byte| byte == b'/').next()?;
    let good = !own.is_empty() && own != b"." && own != b"..";
    good.then(|| own.to_vec())
}
