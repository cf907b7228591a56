//! The rings of a process that runs, opened for reading, or for writing commands into them. They are found among the
//! process's mappings. So the user need not know the program's folder or environment, and the files may have lost
//! their names.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use fdr_formats::ring::Ring;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

use super::{END, mapped};

/// What is wrong with a text that is no number of a process.
pub(crate) const NO_PROCESS: &str =
    "not the number of a process; `fdr rings` lists those that record";
/// What the system puts behind the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";
/// How long a process may take to make its ring.
const START: Duration = Duration::from_secs(1);
/// The recorder's own thread.
const DUMPER: &str = "fdr-dumper";

/// A ring and where it is, or was.
pub(crate) struct Mapped {
    pub(crate) path: PathBuf,
    pub(crate) ring: Ring,
    /// The ring's file, as it was opened.
    pub(crate) file: File,
}

/// A process that records, as its ring describes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recorder {
    pub(crate) process: u32,
    pub(crate) program: String,
    /// Unix time in ns.
    pub(crate) started_ns: u64,
}

/// What a ring is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingAccess {
    Reading,
    Writing,
}

/// A part of a file in a process's memory.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    /// As in the name of `map_files`: `7f00-7f01`.
    range: String,
    /// As the system tells it, with [`DELETED`].
    path: Vec<u8>,
}

/// The number of a process.
///
/// # Errors
/// Where it is none.
pub(crate) fn process_number(text: &str) -> Result<u32, &'static str> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or(NO_PROCESS)
}

/// The rings that the process records into. A process that is being started is waited for, a second at most.
///
/// # Errors
/// If there is no such process, if this user may not inspect it, or if it does not record.
pub(crate) fn rings(process: u32, what: RingAccess) -> anyhow::Result<Vec<Mapped>> {
    let since = Instant::now();
    loop {
        if let Some(found) = begun(process, what)? {
            return Ok(found);
        }
        if since.elapsed() > START {
            bail!("process {process} has only begun to make its ring: try again");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The processes that record and that this user may look into, the newest first.
pub(crate) fn recorders() -> Vec<Recorder> {
    let mut found: Vec<Recorder> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let rings =
            process.and_then(|process| Some((process, begun(process, RingAccess::Reading).ok()??)));
        if let Some((process, rings)) = rings
            && let Some(Mapped { ring, .. }) = rings.first()
        {
            found.push(Recorder {
                process,
                program: ring.program(),
                started_ns: ring.started(),
            });
        }
    }
    found.sort_by_key(|recorder| Reverse((recorder.started_ns, recorder.process)));
    found
}

/// As [`rings`]; `None` if the process has only begun to make its ring.
fn begun(process: u32, what: RingAccess) -> anyhow::Result<Option<Vec<Mapped>>> {
    let (folder, maps) = mapped::maps(process).map_err(|error| why(process, &error))?;
    if maps.is_empty() {
        bail!("process {process} has ended already, or is a part of the kernel");
    }
    let (mut found, mut others, mut refused) = (Vec::new(), None, None);
    let mut is_starting = false;
    let numbers = mapped::numbers(process);
    for mapping in mappings(&maps) {
        let path = PathBuf::from(OsString::from_vec(unescaped(&mapping.path)));
        let file = open(process, &folder, &mapping, what).map_err(|error| why(process, &error));
        // A ring that is not finished yet does not keep the others from being found.
        let opened = file.and_then(|file| {
            is_starting |= super::is_empty(&path, file.try_clone()?)?;
            Ok((super::open(&path, file.try_clone()?)?, file))
        });
        let (ring, file) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                refused = Some(error);
                continue;
            }
        };
        // A child of a fork has its parent's ring as well.
        if numbers.contains(&ring.process()) {
            found.push(Mapped { path, ring, file });
        } else {
            others = Some(ring.process());
        }
    }
    match (found.is_empty(), refused, others) {
        (false, ..) => Ok(Some(found)),
        (true, Some(_), _) if is_starting => Ok(None),
        (true, Some(error), _) => Err(error),
        (true, None, Some(parent)) => bail!(
            "process {process} does not record: it has only the ring of process {parent}, from \
             which it was forked"
        ),
        (true, None, None) if has_dumper(process) => bail!(
            "the ring of process {process} is in its memory alone (there was no file to be had: \
             see what it said at its start): send it the dump signal, kill -USR2 {process} or what \
             FDR_SIGNAL is"
        ),
        (true, None, None) => bail!(
            "process {process} does not record: it was started without FDR, or is not built with \
             the crate fdr"
        ),
    }
}

/// Whether the process does not exist, or is a zombie without memory.
pub(crate) fn has_ended(process: u32) -> bool {
    match mapped::maps(process) {
        Ok((_, maps)) => maps.is_empty(),
        Err(error) => mapped::is_gone(&error),
    }
}

/// Why a process can't be looked into.
fn why(process: u32, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotFound => anyhow!("there is no process {process}"),
        io::ErrorKind::PermissionDenied => anyhow!(
            "process {process} may not be looked into: it is of another user, or protected; try as \
             that user, or as root"
        ),
        _ if error.raw_os_error() == Some(nix::libc::ESRCH) => {
            anyhow!("there is no process {process} any more")
        }
        _ => anyhow!("process {process}: {error}"),
    }
}

/// The beginnings of ring files among the mappings, each file once.
fn mappings(maps: &[u8]) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in maps.split(|&byte| byte == b'\n') {
        let Some(mapping) = mapping(line) else {
            continue;
        };
        if !found.iter().any(|known| known.path == mapping.path) {
            found.push(mapping);
        }
    }
    found
}

/// `7f00-7f01 rw-s 00000000 fe:00 13       /tmp/a b/app.7.x1.fdr-ring`
fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let (range, rights) = (fields.next()?, fields.next()?);
    let (_offset, _device, _inode) = (fields.next()?, fields.next()?, fields.next()?);
    let path = fields.next()?.trim_ascii_start();
    let name = path.strip_suffix(DELETED).unwrap_or(path);
    let is_ring = rights.ends_with(b"s") && name.ends_with(END.as_bytes());
    let range = String::from_utf8(range.to_vec()).ok()?;
    is_ring.then(|| Mapping {
        range,
        path: path.to_vec(),
    })
}

/// Opens the mapped file: by the process's own descriptor, by the mapping (only for root), or by the file's name, if
/// it still has one. `folder` is the folder in `/proc` of a thread that has the process's files.
fn open(process: u32, folder: &Path, mapping: &Mapping, what: RingAccess) -> io::Result<File> {
    let mut first = None;
    for entry in fs::read_dir(folder.join("fd"))?.flatten() {
        let target = fs::read_link(entry.path()).map(|target| target.into_os_string().into_vec());
        if target.is_ok_and(|target| mapped::escaped(&target) == mapping.path) {
            match regular(&entry.path(), 0, what) {
                Ok(file) => return Ok(file),
                Err(error) => first = Some(error),
            }
        }
    }
    let files = PathBuf::from(format!("/proc/{process}/map_files"));
    if let Ok(file) = regular(&files.join(&mapping.range), 0, what) {
        return Ok(file);
    }
    // The process's own folders: it may be in a container.
    let name = unescaped(&mapping.path);
    let name = Path::new(OsStr::from_bytes(name.strip_prefix(b"/").unwrap_or(&name)));
    regular(&folder.join("root").join(name), O_NOFOLLOW, what)
        .map_err(|error| first.unwrap_or(error))
}

fn regular(path: &Path, flags: i32, what: RingAccess) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(what == RingAccess::Writing);
    let file = options.custom_flags(O_NONBLOCK | flags);
    let file = file.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("its ring is no regular file")),
    }
}

/// A path out of the mappings as it is.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::new(), path);
    while let [first, after @ ..] = rest {
        match rest.strip_prefix(b"\\012") {
            Some(after) => {
                plain.push(b'\n');
                rest = after;
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

fn has_dumper(process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    let mut names = tasks.into_iter().flatten().flatten().map(name);
    names.any(|name| name.is_ok_and(|name| name.trim_end() == DUMPER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_found_among_mappings() {
        let maps = b"5500-5501 r-xp 00000000 fe:00 12                    /bin/app\n\
            7f00-7f01 rw-s 00000000 fe:00 13                    /tmp/a b/app.7.x1.fdr-ring\n\
            7f01-7f02 rw-s 00001000 00:05 15                    /dev/zero (deleted)\n\
            7f02-7f03 rw-s 00002000 fe:00 13                    /tmp/a b/app.7.x1.fdr-ring\n\
            7f04-7f05 rw-s 00000000 fe:00 14                    /app.7.x2.fdr-ring (deleted)\n\
            7f06-7f07 r--p 00000000 fe:00 14                    /copy.fdr-ring\n\
            7f08-7f09 rw-p 00000000 00:00 0 \n";
        let found = mappings(maps);
        let wanted = [
            ("7f00-7f01", "/tmp/a b/app.7.x1.fdr-ring"),
            ("7f04-7f05", "/app.7.x2.fdr-ring (deleted)"),
        ];
        let wanted = wanted.map(|(range, path)| Mapping {
            range: range.into(),
            path: path.into(),
        });
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_path_may_have_lines() {
        let path = b"/a\nb\\01/c\n.fdr-ring";
        assert_eq!(mapped::escaped(path), b"/a\\012b\\01/c\\012.fdr-ring");
        assert_eq!(unescaped(&mapped::escaped(path)), path);
    }

    #[test]
    fn what_can_not_be_had_is_reported() {
        let error = |process| {
            rings(process, RingAccess::Reading)
                .err()
                .map(|error| error.to_string())
        };
        let own = error(std::process::id()).expect("this test does not record");
        assert!(own.contains("does not record"), "{own}");
        // No process has this number.
        let nobody = error(u32::MAX).expect("no process");
        assert_eq!(nobody, format!("there is no process {}", u32::MAX));
        assert!(has_ended(u32::MAX) && !has_ended(std::process::id()));
    }
}
