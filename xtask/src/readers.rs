//! Programs of other people that tests and bench hold our files against. Missing ones are installed
//! where that is surely wanted and possible (root on a Debian-like system), and named otherwise.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use crate::Result;
use crate::process::{command, on_path, work_folder};

struct Reader {
    /// Any of these will do.
    programs: &'static [&'static str],
    /// Debian's package.
    package: &'static str,
    what_for: &'static str,
}

const READERS: &[Reader] = &[
    Reader {
        programs: &["llvm-xray-14", "llvm-xray"],
        package: "llvm",
        what_for: "XRay traces read by Debian's default llvm-xray",
    },
    Reader {
        programs: &["llvm-xray-19"],
        package: "llvm-19",
        what_for: "XRay traces read by a newer llvm-xray",
    },
    Reader {
        programs: &["strace"],
        package: "strace",
        what_for: "off means off: no file, thread, handler or mapping",
    },
    Reader {
        programs: &["valgrind"],
        package: "valgrind",
        what_for: "instructions of a call site that is off",
    },
];

fn missing() -> Vec<&'static Reader> {
    let absent = |reader: &&Reader| !reader.programs.iter().any(|name| on_path(name).is_some());
    READERS.iter().filter(absent).collect()
}

/// Whether this process belongs to root, who owns its folder in /proc.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|folder| folder.uid() == 0)
}

/// Installs what is missing, if `install` and it can be; says what is missing afterwards.
///
/// # Errors
///
/// If the log cannot be written. That a package cannot be installed is no error here: the tests that
/// need it say so, and fail in CI.
pub(crate) fn prepare(install: bool) -> Result<()> {
    let wanted = missing();
    if wanted.is_empty() {
        return Ok(());
    }
    if install && is_root() && on_path("apt-get").is_some() {
        let log = work_folder("xtask")?.join("apt.log");
        let packages: Vec<_> = wanted.iter().map(|reader| reader.package).collect();
        eprintln!(
            "installing {} (log: {})",
            packages.join(", "),
            log.display()
        );
        File::create(&log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        if let Err(error) = apt(&["update", "-qq"], &log) {
            eprintln!("{error}");
        }
        for package in packages {
            // One by one: an old release lacks one of them, not all.
            if let Err(error) = apt(
                &["install", "-qq", "-y", "--no-install-recommends", package],
                &log,
            ) {
                eprintln!("{error}");
            }
        }
    }
    for reader in missing() {
        let (programs, package) = (reader.programs.join(" or "), reader.package);
        eprintln!("not installed: {programs}; skips: {}", reader.what_for);
        eprintln!("  on Debian: apt-get install {package}");
    }
    Ok(())
}

fn apt(arguments: &[&str], log: &Path) -> Result<()> {
    let open = || File::options().append(true).open(log);
    let (out, err) = open()
        .and_then(|out| Ok((out, open()?)))
        .map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let mut apt = command("apt-get");
    apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    apt.stdin(Stdio::null()).stdout(out).stderr(err);
    crate::process::run(&mut apt).map_err(|error| format!("{error}; see {}", log.display()))
}
