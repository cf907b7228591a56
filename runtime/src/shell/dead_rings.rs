//! The rings that earlier runs of this program left because they were killed, and the bound on them (`FDR_OUT_MOST`).
//!
//! A process holds a lock on its ring as long as it lives. The ring has its magic only when it is locked.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fdr_formats::ring::layout::MAGIC;
use fdr_formats::trigger::OutMost;

use super::state::State;
use crate::messages;
use crate::recorder::ring;
use crate::ring::Ring;
use crate::sys;

/// Bytes of a block, as the system counts them.
const BLOCK: u64 = 512;

/// The bound without `FDR_OUT_MOST`. Children of one process may leave the same number of rings
/// (`recorder::left_rings`).
const DEFAULT_MOST: OutMost = OutMost {
    files: 256,
    bytes: 1 << 30,
};

/// The rings that are too many, the newest first.
pub(super) struct DeadRings(Vec<DeadRing>);

/// A ring whose process has ended.
struct DeadRing {
    path: PathBuf,
    inode: u64,
    written: SystemTime,
    /// Bytes that the ring takes on the disk.
    bytes: u64,
}

impl DeadRings {
    /// Looks for them beside the ring of this process, and says which are too many. Not async-signal-safe.
    pub(super) fn find(state: &State) -> Option<DeadRings> {
        let own = Path::new(OsStr::from_bytes(ring().and_then(Ring::path)?.to_bytes()));
        let folder = own.parent()?;
        let mut rings: Vec<DeadRing> = Vec::new();
        sys::file::each_name(folder, &mut |name| {
            let is_ours = is_of_program(name, &state.program);
            let found = is_ours.then(|| DeadRing::at(&folder.join(name)));
            if let Some((ring, _)) = found.flatten() {
                // There are few, and a sort is 6 kB of code.
                let at = rings.partition_point(|known| known.written > ring.written);
                rings.insert(at, ring);
            }
            true
        });
        let most = state.config.out_most.unwrap_or(DEFAULT_MOST);
        let (all, bytes) = (
            rings.len(),
            rings.iter().map(|ring| ring.bytes).sum::<u64>(),
        );
        let too_many = rings.split_off(rings_to_keep(&rings, most));
        let mib = bytes.div_ceil(1 << 20);
        let folder = folder.display();
        match (all, too_many.len()) {
            (0, _) => {}
            (_, 0) => messages::info(format_args!(
                "rings of earlier runs that were killed: {all}, {mib} MiB in {folder}; fdr rings \
                 --remove dead removes them"
            )),
            (_, removed) => messages::warn(format_args!(
                "rings of earlier runs that were killed: {all}, {mib} MiB in {folder}; the {removed} \
                 oldest are removed (FDR_OUT_MOST), and fdr rings lists the others"
            )),
        }
        (!too_many.is_empty()).then_some(DeadRings(too_many))
    }

    /// Removes the oldest one. Returns whether there are more. To remove a large file may take long, so the caller looks
    /// after its other work in between.
    pub(super) fn remove_one(&mut self) -> bool {
        if let Some(ring) = self.0.pop() {
            ring.remove();
        }
        !self.0.is_empty()
    }
}

impl DeadRing {
    /// The ring at that path, and its file, which holds a lock. `None`: the file is no ring, or its process may live.
    fn at(path: &Path) -> Option<(DeadRing, File)> {
        let mut options = OpenOptions::new();
        options.read(true);
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let mut file = options.open(path).ok()?;
        let known = file.metadata().ok()?;
        let mut magic = [0; MAGIC.len()];
        let is_ring = known.is_file()
            && known.uid() == sys::process::user()
            && file.read_exact(&mut magic).is_ok()
            && magic == MAGIC
            && sys::file::lock_shared(&file);
        let ring = is_ring.then(|| DeadRing {
            path: path.to_owned(),
            inode: known.ino(),
            written: known.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            bytes: known.blocks().saturating_mul(BLOCK),
        });
        Some((ring?, file))
    }

    fn remove(&self) {
        let path = &self.path;
        let Some((_, _locked)) = DeadRing::at(path).filter(|(now, _)| now.inode == self.inode)
        else {
            return;
        };
        match fs::remove_file(path) {
            Ok(()) => messages::info(format_args!("removed {}", path.display())),
            Err(error) => messages::info(format_args!("{}: {error}", path.display())),
        }
    }
}

/// How many of these rings stay. The newest comes first, and stays always.
fn rings_to_keep(rings: &[DeadRing], most: OutMost) -> usize {
    let mut bytes = 0_u64;
    let fits = |ring: &&DeadRing| {
        bytes = bytes.saturating_add(ring.bytes);
        bytes <= most.bytes
    };
    let files = usize::try_from(most.files).unwrap_or(usize::MAX);
    let count = rings.iter().take_while(fits).count();
    count.min(files).max(1).min(rings.len())
}

/// Whether a ring of that program has such a name: `PROGRAM.PID.RANDOM.fdr-ring`.
fn is_of_program(name: &OsStr, program: &str) -> bool {
    let middle = name.as_bytes().strip_prefix(program.as_bytes());
    let middle = middle.and_then(|rest| rest.strip_prefix(b"."));
    let middle = middle.and_then(|rest| rest.strip_suffix(b".fdr-ring"));
    let Some((pid, random)) =
        middle.and_then(|rest| rest.split_at_checked(rest.len().checked_sub(17)?))
    else {
        return false;
    };
    let is_random = |&digit: &u8| digit.is_ascii_hexdigit();
    !pid.is_empty()
        && pid.iter().all(u8::is_ascii_digit)
        && random.starts_with(b".")
        && random[1..].iter().all(is_random)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_are_of_one_program() {
        let is = |name: &str| is_of_program(OsStr::new(name), "app.1");
        assert!(is("app.1.77.0123456789abcdef.fdr-ring"));
        for name in [
            "app.77.0123456789abcdef.fdr-ring",
            "app.1.2.77.0123456789abcdef.fdr-ring",
            "app.1.77.0123456789abcde.fdr-ring",
            "app.1.77.0123456789abcdeg.fdr-ring",
            "app.1.77.0123456789abcdef.fdr",
            "app.1..0123456789abcdef.fdr-ring",
            "app.1.fdr-ring",
            "",
        ] {
            assert!(!is(name), "{name}");
        }
    }

    #[test]
    fn the_newest_rings_stay_within_the_bound() {
        let rings: Vec<DeadRing> = (0..5)
            .map(|age| DeadRing {
                path: PathBuf::new(),
                inode: age,
                written: SystemTime::UNIX_EPOCH + Duration::from_secs(100 - age),
                bytes: 10,
            })
            .collect();
        let kept = |files, bytes| rings_to_keep(&rings, OutMost { files, bytes });
        assert_eq!(kept(u64::MAX, u64::MAX), 5);
        assert_eq!(kept(3, u64::MAX), 3);
        assert_eq!(kept(u64::MAX, 29), 2);
        assert_eq!((kept(9, 1), kept(0, 0)), (1, 1));
        assert_eq!(super::rings_to_keep(&[], DEFAULT_MOST), 0);
    }

    #[test]
    fn only_dead_rings_of_this_user_are_found() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("fdr-dead-{:016x}", sys::process::random()));
        fs::write(&path, b"of somebody else").expect("written");
        assert!(DeadRing::at(&path).is_none());
        fs::write(&path, MAGIC).expect("written");
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(DeadRing::at(&link).is_none());
        let (ring, lock) = DeadRing::at(&path).expect("a dead ring");
        // Another process may look at the same time.
        assert!(DeadRing::at(&path).is_some());
        drop(lock);
        // A process lives that has it.
        let living = File::open(&path).expect("a ring");
        assert!(sys::file::lock(&living) && DeadRing::at(&path).is_none());
        ring.remove();
        assert!(path.exists());
        drop(living);
        // Another file has the name now.
        let other = DeadRing {
            inode: ring.inode + 1,
            path: path.clone(),
            ..ring
        };
        other.remove();
        assert!(path.exists());
        DeadRings(vec![DeadRing {
            inode: other.inode - 1,
            ..other
        }])
        .remove_one();
        assert!(!path.exists());
        fs::remove_file(link).expect("removed");
    }
}
