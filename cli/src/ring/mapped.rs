//! Which files the processes of this machine have mapped. All processes are looked at once. The process of a ring is
//! found by its mapping and not by its number, because the number differs within a container.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal;
use nix::unistd::Pid;

use super::Owner;

/// The files that processes have mapped as shared, and the processes whose mappings can't be read.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    /// The processes that map a file, by its device and inode. This is exact, except on file systems whose mappings
    /// name another device.
    files: HashMap<(u64, u64), Vec<u32>>,
    /// The processes by the file names of their mappings, as the system writes them. The name of a ring file has a
    /// random part, so it is unique.
    names: HashMap<Vec<u8>, Vec<u32>>,
    /// All numbers of the processes whose mappings we may not read.
    refused: HashSet<u32>,
    /// There may be processes that do not show.
    hidden: bool,
}

impl Mapped {
    /// Looks at every process.
    pub(crate) fn look() -> Mapped {
        let mut mapped = Mapped {
            // Every container has a process 1.
            hidden: !Path::new("/proc/1/status").exists() || fs::read("/proc/1/status").is_err(),
            ..Mapped::default()
        };
        let Ok(entries) = fs::read_dir("/proc") else {
            mapped.hidden = true;
            return mapped;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            match maps(process) {
                Ok((_, maps)) => mapped.add(process, &maps),
                Err(error) if is_gone(&error) => {}
                Err(_) => mapped.refused.extend(numbers(process)),
            }
        }
        mapped
    }

    fn add(&mut self, process: u32, maps: &[u8]) {
        for line in maps.split(|&byte| byte == b'\n') {
            let Some((file, path)) = shared(line) else {
                continue;
            };
            self.files.entry(file).or_default().push(process);
            let name = path.rsplit(|&byte| byte == b'/').next();
            let name = name.unwrap_or_default().to_vec();
            self.names.entry(name).or_default().push(process);
        }
    }

    /// The process id that the owner of a ring has in our namespace. The id in the ring is of the owner's own
    /// namespace, and may differ in a container. `None`: no process has the ring mapped.
    pub(super) fn number_here(&self, process: u32, path: &Path, file: &Metadata) -> Option<u32> {
        let name = path.canonicalize().ok();
        let name = name.as_deref().and_then(Path::file_name);
        let name = name.map(|name| escaped(name.as_bytes()));
        let by_file = self.files.get(&(file.dev(), file.ino()));
        let by_name = name.and_then(|name| self.names.get(&name));
        let all = by_file.or(by_name)?;
        // The owner's children have the ring mapped, too.
        let own = all.iter().find(|here| numbers(**here).contains(&process));
        own.or(all.first()).copied()
    }

    /// The state of the process whose ring was copied. No process has the copy mapped, so the process id decides.
    pub(super) fn owner_of_copy(&self, process: u32) -> Owner {
        let rings = self
            .names
            .iter()
            .filter(|(name, _)| name.ends_with(super::END.as_bytes()));
        let mut owners = rings.flat_map(|(_, owners)| owners);
        let may_run = self.refused.contains(&process)
            || (self.hidden && !is_nobody(process))
            || owners.any(|here| numbers(*here).contains(&process));
        match may_run {
            true => Owner::Perhaps,
            false => Owner::Ended,
        }
    }

    /// What has become of the process that a ring names.
    pub(super) fn owner(&self, process: u32, path: &Path, file: &Metadata) -> Owner {
        if self.number_here(process, path, file).is_some() {
            Owner::Runs
        } else if self.refused.contains(&process)
            || (self.hidden && !is_nobody(process))
            || stays_locked(process, path)
        {
            Owner::Perhaps
        } else {
            Owner::Ended
        }
    }
}

/// A process's mappings, and the folder that lists them: the process's own, or a thread's. A main thread that has ended
/// lists none, while other threads go on. Empty where it has ended.
///
/// # Errors
/// Where it may not be looked into, or is gone.
pub(crate) fn maps(process: u32) -> io::Result<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let maps = fs::read(folder.join("maps"))?;
    if !maps.is_empty() {
        return Ok((folder, maps));
    }
    for task in fs::read_dir(folder.join("task"))?.flatten() {
        match fs::read(task.path().join("maps")) {
            Ok(maps) if !maps.is_empty() => return Ok((task.path(), maps)),
            Err(error) if !is_gone(&error) => return Err(error),
            _ => {}
        }
    }
    Ok((folder, Vec::new()))
}

/// Whether an error says that there is no such process any more.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let gone = error.raw_os_error() == Some(nix::libc::ESRCH);
    gone || error.kind() == io::ErrorKind::NotFound
}

/// The ids of the process: in our namespace, and in the namespaces of its container.
pub(crate) fn numbers(process: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let words = line.unwrap_or_default().split_whitespace();
    let mut numbers: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
    numbers.push(process);
    numbers
}

/// How often, and how long each time, a process that is ending is waited for.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// Whether a process keeps holding the recorder's lock. A killed process gives up its memory before its files, so this
/// waits until it has given up its files, too.
fn stays_locked(process: u32, path: &Path) -> bool {
    for _ in 0..LOOKS {
        if !is_locked(path) {
            return false;
        }
        if !is_ending(process) {
            break;
        }
        thread::sleep(PAUSE);
    }
    is_locked(path)
}

/// Whether the process is still there, and has no memory any more.
fn is_ending(process: u32) -> bool {
    maps(process).is_ok_and(|(_, maps)| maps.is_empty())
}

/// Whether a process holds the recorder's lock, even a process that we can't see, such as one of another container.
/// Several readers may try this at once.
fn is_locked(path: &Path) -> bool {
    let file = super::regular(path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether no process has that number: the system tells even where it does not show others' processes.
fn is_nobody(process: u32) -> bool {
    let Ok(number) = i32::try_from(process) else {
        return true;
    };
    number <= 0 || signal::kill(Pid::from_raw(number), None) == Err(Errno::ESRCH)
}

/// A name as mappings have it.
pub(crate) fn escaped(name: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = name.split(|&byte| byte == b'\n').collect();
    lines.join(&b"\\012"[..])
}

/// `7f00-7f01 rw-s 00000000 fe:00 13    /tmp/a b/app.7.x1.fdr-ring`: device, inode and path, if it is shared.
fn shared(line: &[u8]) -> Option<((u64, u64), &[u8])> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let (_range, rights, _offset) = (fields.next()?, fields.next()?, fields.next()?);
    let device = str::from_utf8(fields.next()?).ok()?;
    let inode = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let path = fields.next()?.trim_ascii_start();
    let (major, minor) = device.split_once(':')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let device = device_number(number(major)?, number(minor)?);
    rights.ends_with(b"s").then_some(((device, inode), path))
}

/// A device as `stat` has it.
fn device_number(major: u64, minor: u64) -> u64 {
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | minor & 0xff | (minor & !0xff) << 12
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const MAPS: &[u8] = b"7f00-7f01 r-xp 00000000 fe:00 12     /usr/lib/libc.so.6\n\
        7f01-7f02 rw-s 00000000 103:12345 13     /tmp/a b/app.7.x\\0121.fdr-ring\n\
        7f02-7f03 rw-s 00000000 00:00 0 \n";

    #[test]
    fn mappings_are_found_by_file_or_name() {
        let mut mapped = Mapped::default();
        mapped.add(9, MAPS);
        let here = mapped.files.get(&(device_number(0x103, 0x12345), 13));
        assert_eq!(here, Some(&vec![9]));
        assert!(!mapped.files.keys().any(|file| file.1 == 12));
        assert!(mapped.names.contains_key(&escaped(b"app.7.x\n1.fdr-ring")));
        assert!(!mapped.names.contains_key(&b"7.x\\0121.fdr-ring"[..]));
        assert_eq!(device_number(0xfe, 0x12345), 0x1230_fe45);
    }

    #[test]
    fn processes_are_gone_only_if_known() {
        let own = std::process::id();
        let path = Path::new("/proc/self/status");
        let file = File::open(path).unwrap().metadata().unwrap();
        let nobody = |process, mapped: &Mapped| mapped.owner(process, path, &file);
        let mut mapped = Mapped::default();
        // This test runs, and has no ring: a file that says otherwise is from another process.
        assert_eq!(nobody(own, &Mapped::look()), Owner::Ended);
        assert_eq!(nobody(own, &mapped), Owner::Ended);
        mapped.hidden = true;
        assert_eq!(nobody(own, &mapped), Owner::Perhaps);
        assert_eq!(nobody(u32::MAX, &mapped), Owner::Ended);
        // A container's process that may not be looked into, by its number there.
        mapped.refused.extend([4_200_000, 7]);
        assert_eq!(nobody(7, &mapped), Owner::Perhaps);
        mapped.files.insert((file.dev(), file.ino()), vec![own]);
        assert_eq!(nobody(7, &mapped), Owner::Runs);
        assert!(numbers(own).contains(&own));
        // It counts itself as 7, and has another number here.
        assert_eq!(mapped.number_here(7, path, &file), Some(own));
        // For a copy, the only sign is whether the process has any ring mapped.
        let mut mapped = Mapped::default();
        assert_eq!(mapped.owner_of_copy(own), Owner::Ended);
        mapped
            .names
            .insert(b"app.7.x1.fdr-ring".to_vec(), vec![own]);
        assert_eq!(mapped.owner_of_copy(own), Owner::Perhaps);
    }

    #[test]
    fn locks_of_exiting_processes_are_awaited() {
        let path = std::env::temp_dir().join(format!("fdr-locked-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        file.lock().unwrap();
        // If the process has memory, or if no process has that id, the holder of the lock is in another container.
        for other in [std::process::id(), u32::MAX] {
            assert!(stays_locked(other, &path));
        }
        // A process that has ended and was not waited for has none.
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        while !is_ending(ended.id()) {
            thread::yield_now();
        }
        thread::scope(|scope| {
            let letting_go = scope.spawn(|| {
                thread::sleep(4 * PAUSE);
                file.unlock().unwrap();
            });
            assert!(!stays_locked(ended.id(), &path));
            letting_go.join().unwrap();
        });
        let _ = ended.wait();
        fs::remove_file(&path).unwrap();
    }
}
