//! Where space can't be asked for: a file system that has no `fallocate`, mounted for this process alone, and a kernel
//! that refuses the call.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use fdr_tests::support::random::Random;

use crate::plan::{Folder, Tally, lock};

/// Bytes of the file system.
const SIZE: u64 = 1 << 30;

/// The file systems that tries may be on, beside those of all cases.
pub(crate) struct Places {
    mounted: Option<PathBuf>,
}

/// A file system of its own kind.
#[derive(Clone, Copy)]
pub(crate) struct FileSystem<'a>(&'a Path);

impl FileSystem<'_> {
    /// A new folder in it.
    pub(crate) fn folder(self, index: u64) -> PathBuf {
        let folder = self.0.join(index.to_string());
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// Removes the folder; after a failure what is in it is kept elsewhere, because the mount goes.
    pub(crate) fn leave(self, folder: &Path, kept: &Folder, is_good: bool) {
        if !is_good {
            let mut copy = Command::new("cp");
            let _ = copy.arg("-r").arg(folder).arg(kept.path()).status();
        }
        let _ = fs::remove_dir_all(folder);
    }
}

impl Places {
    /// Mounts what can be mounted, below the folder; the mount goes with this process.
    pub(crate) fn new(folder: &Path) -> Places {
        let mounted = mount(folder);
        if let Err(why) = &mounted {
            fdr_tests::skip(&format!(
                "descriptors on a file system without fallocate: {why}"
            ));
        }
        Places {
            mounted: mounted.ok(),
        }
    }

    /// One of four tries is there.
    pub(crate) fn any(&self, random: &mut Random, tally: &Mutex<Tally>) -> Option<FileSystem<'_>> {
        let chosen = random.below(4) == 0;
        let place = self.mounted.as_deref().filter(|_| chosen)?;
        lock(tally).count("programs on a file system without fallocate", 1);
        Some(FileSystem(place))
    }
}

/// An ext3: the kernel has no `fallocate` for its files.
fn mount(folder: &Path) -> Result<PathBuf, String> {
    // SAFETY: a plain system call on this process, which has one thread yet.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error().to_string());
    }
    let (image, place) = (folder.join("ext3.image"), folder.join("ext3"));
    let made = fs::File::create(&image).and_then(|file| file.set_len(SIZE));
    made.and_then(|()| fs::create_dir_all(&place))
        .map_err(|error| error.to_string())?;
    let script = "mount --make-rprivate / && mkfs.ext3 -q -F \"$0\" && mount -o loop \"$0\" \"$1\"; \
                  code=$?; rm \"$0\"; exit $code";
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", script]).arg(&image).arg(&place);
    let ended = shell.stdin(Stdio::null()).stdout(Stdio::null()).output();
    match ended {
        Ok(output) if output.status.success() => Ok(place),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr)
            .trim()
            .replace('\n', "; ")),
        Err(error) => Err(error.to_string()),
    }
}

/// From now on the kernel refuses `fallocate` to this process.
pub(crate) fn refuse() -> io::Result<()> {
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let mut filter = [
        // The number of the call.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            1,
            libc::SYS_fallocate as u32,
        ),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP as u32,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its filter are valid for reading.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    match done {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}
