//! Where space can't be asked for: a file system that has no `fallocate`, mounted for this process alone, and a kernel
//! that refuses the call.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use fdr_tests::programs::system_calls::forbid;
use fdr_tests::support::folder::Folder;

/// Bytes of the file system.
const SIZE: u64 = 1 << 30;

/// A file system of its own kind, below the folder of the torture.
pub(crate) struct FileSystem(PathBuf);

impl FileSystem {
    /// Mounts what can be mounted; the mount goes with this process. `None`: the skip is printed.
    pub(crate) fn mount(folder: &Path) -> Option<FileSystem> {
        let mounted = mount(folder);
        if let Err(why) = &mounted {
            fdr_tests::skip(&format!(
                "descriptors on a file system without fallocate: {why}"
            ));
        }
        mounted.ok().map(FileSystem)
    }

    /// A new folder in it.
    pub(crate) fn folder(&self) -> Folder {
        Folder::within(&self.0, "try")
    }
}

/// Copies a folder of the file system elsewhere when its try fails, because the mount goes.
pub(crate) struct CopyOfFailure<'a>(pub(crate) &'a Folder, pub(crate) &'a Path);

impl Drop for CopyOfFailure<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let mut copy = Command::new("cp");
            let _ = copy.arg("-r").arg(self.0.path()).arg(self.1).status();
        }
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
    let answer = libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP as u32;
    match forbid(&[libc::SYS_fallocate], answer, 0) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
