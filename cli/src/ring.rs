//! The recorder's own files, the rings, as far as this tool knows them: whose they are, and whether
//! that process still runs. Must never take the number alone for the process: numbers are reused,
//! and a signal to the wrong process may end it.
//!
//! The first bytes of a ring file, little-endian (source: the recorder's ring file):
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | `FDRRING` and 1, the version |
//! | 8 | 4 | process |

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

const MAGIC: &[u8; 8] = b"FDRRING\x01";

/// A ring file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// The process that records, or did.
    process: u32,
    owner: Owner,
}

/// What has become of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It runs, and the file is mapped into it.
    Runs,
    /// There is no such process, or it is another one.
    Ended,
    /// There is a process of that number, which may not be looked into.
    Perhaps,
}

impl Ring {
    /// The ring in that file; `None` where it is no ring.
    pub(crate) fn read(file: &Path) -> Option<Ring> {
        let mut head = [0; 12];
        File::open(file).ok()?.read_exact(&mut head).ok()?;
        let process = process_of(&head)?;
        let owner = owner(process, file);
        Some(Ring { process, owner })
    }

    /// Whether its process runs, as far as can be told.
    pub(crate) fn runs(&self) -> bool {
        self.owner != Owner::Ended
    }

    /// What it is, and how to come to a trace.
    pub(crate) fn in_words(&self) -> String {
        let process = self.process;
        let signal =
            format!("send it the dump signal (kill -USR2 {process}, or what FDR_SIGNAL is)");
        let later = "reading a ring after its process has died is not there yet";
        match self.owner {
            Owner::Runs => format!(
                "this is the ring of process {process}, which is running: for a trace, {signal}; {later}"
            ),
            Owner::Ended => format!(
                "this is the ring of process {process}, which is not running any more; {later}"
            ),
            Owner::Perhaps => format!(
                "this is the ring of process {process}; there is a process of that number, of \
                 another user: if it is still the same, {signal}; {later}"
            ),
        }
    }
}

fn process_of(head: &[u8; 12]) -> Option<u32> {
    let (magic, process) = head.split_first_chunk::<8>()?;
    let process = u32::from_le_bytes(process.try_into().ok()?);
    (magic == MAGIC).then_some(process)
}

fn owner(process: u32, file: &Path) -> Owner {
    let folder = format!("/proc/{process}");
    if !Path::new(&folder).exists() {
        return Owner::Ended;
    }
    let name = file.canonicalize().ok();
    let Some(name) = name.as_deref().and_then(Path::file_name) else {
        return Owner::Perhaps;
    };
    match fs::read(format!("{folder}/maps")) {
        // Ring files have a random part in their names.
        Ok(maps) if is_mapped(&maps, name.as_encoded_bytes()) => Owner::Runs,
        Ok(_) => Owner::Ended,
        Err(_) => Owner::Perhaps,
    }
}

/// Whether a file of that name is among a process's mappings.
fn is_mapped(maps: &[u8], name: &[u8]) -> bool {
    maps.split(|&byte| byte == b'\n').any(|line| {
        let folder = line.strip_suffix(name);
        folder.is_some_and(|folder| folder.ends_with(b"/"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_told_from_others() {
        assert_eq!(process_of(b"FDRRING\x01\x39\x30\0\0"), Some(12345));
        assert_eq!(process_of(b"FDRRING\x02\x39\x30\0\0"), None);
        assert_eq!(process_of(b"\x03\0\x01\0\x03\0\0\0\0\0\0\0"), None);
    }

    #[test]
    fn a_mapping_is_found_by_its_whole_name() {
        let maps = b"7f00-7f01 r-xp 00000000 fe:00 12 /usr/lib/libc.so.6\n\
                     7f01-7f02 rw-s 00000000 fe:00 13 /tmp/a b/app.7.x1.fdr-ring\n";
        assert!(is_mapped(maps, b"app.7.x1.fdr-ring"));
        assert!(!is_mapped(maps, b"7.x1.fdr-ring"));
        assert!(!is_mapped(maps, b"app.7.x2.fdr-ring"));
    }

    #[test]
    fn only_a_process_that_has_the_file_open_is_its_owner() {
        let ring = |owner| Ring { process: 7, owner };
        assert!(ring(Owner::Runs).in_words().contains("kill -USR2 7"));
        assert!(!ring(Owner::Ended).in_words().contains("kill"));
        assert!(
            ring(Owner::Perhaps)
                .in_words()
                .contains("if it is still the same")
        );
        // This test runs, and has no ring: a file that says otherwise is from another process.
        let own = std::process::id();
        assert_eq!(owner(own, Path::new("/proc/self/status")), Owner::Ended);
        assert_eq!(
            owner(u32::MAX, Path::new("/proc/self/status")),
            Owner::Ended
        );
    }
}
