//! `cargo xtask bench lean`: the cost of a library for a program of one function. It measures a cold build, the size of
//! the stripped program, and the crates that are built. The guard asks for the recorder's size and symbols, and for the
//! CPU time of its build beside that of `tracing`. Every build has a target folder of its own.

use std::fs;
use std::path::{Path, PathBuf};

use xshell::cmd;
use xtask::process::{output, root, shell_in, work_folder};

use crate::Result;
use crate::program::{self, RunCost, machine, measured, remove, stripped_bytes};
use crate::table::table;

/// A program that has one function, which a library records.
struct Lean {
    name: &'static str,
    /// Lines of its manifest. `RUNTIME` is the recorder's folder.
    dependencies: &'static str,
    source: &'static str,
}

const PROGRAMS: [Lean; 4] = [
    BARE,
    FDR,
    TRACING,
    Lean {
        name: "fastrace",
        dependencies: "fastrace = { version = \"0.7\", features = [\"enable\"] }\n",
        source: "use fastrace::collector::{Config, ConsoleReporter};
use fastrace::prelude::*;
#[trace]
fn work(number: usize) -> usize { number + 1 }
fn main() {
    fastrace::set_reporter(ConsoleReporter, Config::default());
    let root = Span::root(\"main\", SpanContext::random());
    let _guard = root.set_local_parent();
    println!(\"{}\", work(std::env::args().count()));
    fastrace::flush();
}
",
    },
];

const FDR: Lean = Lean {
    name: "fdr",
    dependencies: "fdr = { path = \"RUNTIME\" }\n",
    source: "#[fdr::traced]
fn work(number: usize) -> usize { number + 1 }
fn main() { println!(\"{}\", work(std::env::args().count())); }
",
};

const BARE: Lean = Lean {
    name: "none",
    dependencies: "",
    source: "fn work(number: usize) -> usize { number + 1 }
fn main() { println!(\"{}\", work(std::env::args().count())); }
",
};

const TRACING: Lean = Lean {
    name: "tracing",
    dependencies: "tracing = \"0.1\"\ntracing-subscriber = \"0.3\"\n",
    source: "#[tracing::instrument]
fn work(number: usize) -> usize { number + 1 }
fn main() { tracing_subscriber::fmt::init(); println!(\"{}\", work(std::env::args().count())); }
",
};

/// Cargo's options for each profile, and the profile's folder.
const PROFILES: [(&[&str], &str); 2] = [(&[], "debug"), (&["--release"], "release")];

/// The most rounds of cold builds for the guard. One is enough if its ratios are within their bounds.
const MAX_ROUNDS: usize = 5;

/// Parts of names that only readers have.
const READERS: [&str; 8] = [
    "XraySource",
    "HephSource",
    "HtdumpSource",
    "EntraceSource",
    "TcstateSource",
    "CtfSource",
    "fdr_formats6source",
    "ring6reader",
];

/// What a cold build took and made.
struct Built {
    took: RunCost,
    crates: usize,
    program: PathBuf,
}

/// Builds every program in both profiles, and prints the table.
///
/// # Errors
/// If one can't be built.
pub(crate) fn run() -> Result<()> {
    let folder = work_folder("bench/lean")?;
    program::build()?;
    let heads = "library | dev: s | CPU s | release: s | CPU s | stripped, kB | more, kB | crates";
    let mut table = table(heads);
    let mut least = None;
    for lean in PROGRAMS {
        eprintln!("{}", lean.name);
        let package = lean.generate(&folder)?;
        let [dev, release] = PROFILES.map(|profile| build(&package, profile));
        let (dev, release) = (dev?, release?);
        let bytes = stripped_bytes(&release.program)?;
        let more = bytes.saturating_sub(*least.get_or_insert(bytes));
        let seconds = [&dev, &release].map(|built| [built.took.seconds, built.took.cpu_seconds]);
        let seconds = seconds
            .concat()
            .into_iter()
            .map(|value| format!("{value:.1}"));
        let rest =
            [bytes / 1000, more / 1000, release.crates as u64].map(|value| value.to_string());
        table.add_row(
            [lean.name.to_owned()]
                .into_iter()
                .chain(seconds)
                .chain(rest),
        );
    }
    println!(
        "{}; cold builds of a program of one function, one each\n\n{table}",
        machine()
    );
    Ok(fs::remove_dir_all(&folder)?)
}

/// What the guard holds of a program that has the recorder as it is by default.
pub(crate) struct Guarded {
    /// Of the stripped release program.
    pub(crate) bytes: u64,
    /// Beyond those of the bare program.
    pub(crate) more_bytes: u64,
    /// CPU time of a cold build over that of `tracing`'s program: dev and release.
    pub(crate) ratios: [f64; 2],
}

/// Builds the programs in turn. What else runs on the machine changes the CPU time of a build, also of two builds in a row.
/// So more rounds follow while a ratio is above its bound, and the least ratio of a round counts.
///
/// # Errors
/// If one can't be built, or the recorder's has a symbol of a reader.
pub(crate) fn guarded(bounds: [f64; 2]) -> Result<Guarded> {
    let folder = work_folder("bench/lean-guard")?;
    let bare = BARE.generate(&folder)?;
    let bare = stripped_bytes(&build(&bare, PROFILES[1])?.program)?;
    let packages = [FDR.generate(&folder)?, TRACING.generate(&folder)?];
    let mut ratios = [f64::INFINITY; 2];
    let mut bytes = 0;
    for round in 0..MAX_ROUNDS {
        if (0..2).all(|profile| ratios[profile] <= bounds[profile]) {
            break;
        }
        for (profile, options) in PROFILES.into_iter().enumerate() {
            let mut seconds = [0.0; 2];
            // The other one is first in the next round.
            for which in [round % 2, 1 - round % 2] {
                let built = build(&packages[which], options)?;
                seconds[which] = built.took.cpu_seconds;
                if which == 0 && options == PROFILES[1] {
                    bytes = without_readers(&built.program)?;
                }
            }
            ratios[profile] = ratios[profile].min(seconds[0] / seconds[1]);
        }
    }
    fs::remove_dir_all(&folder)?;
    Ok(Guarded {
        bytes,
        more_bytes: bytes.saturating_sub(bare),
        ratios,
    })
}

/// Bytes of the stripped program.
///
/// # Errors
/// If it has a symbol of a reader.
fn without_readers(program: &Path) -> Result<u64> {
    let found = readers(&fs::read(program)?);
    if !found.is_empty() {
        let program = program.display();
        let found = found.join(", ");
        return Err(format!("{program}: a traced program has readers' symbols: {found}").into());
    }
    stripped_bytes(program)
}

/// The readers that the program's table of symbols has.
fn readers(program: &[u8]) -> Vec<&'static str> {
    let holds = |name: &&str| {
        let mut windows = program.windows(name.len());
        windows.any(|bytes| bytes == name.as_bytes())
    };
    READERS.into_iter().filter(holds).collect()
}

impl Lean {
    /// Writes the package, with what it depends on fetched.
    fn generate(&self, folder: &Path) -> Result<PathBuf> {
        let package = folder.join(self.name);
        fs::create_dir_all(package.join("src"))?;
        let runtime = root().join("runtime");
        let runtime = runtime.to_str().ok_or("the folder's name is no text")?;
        let dependencies = self.dependencies.replace("RUNTIME", runtime);
        let manifest = format!(
            "[package]\nname = \"lean\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n[workspace]\n"
        );
        fs::write(package.join("Cargo.toml"), manifest)?;
        fs::write(package.join("src/main.rs"), self.source)?;
        // The versions that the peers are measured with.
        fs::copy(
            root().join("bench/peers/Cargo.lock"),
            package.join("Cargo.lock"),
        )?;
        let sh = shell_in(&package)?;
        output(cmd!(sh, "cargo fetch --quiet"))?;
        Ok(package)
    }
}

/// A cold build. The bytes do not depend on where the sources are.
fn build(package: &Path, (options, folder): (&[&str], &str)) -> Result<Built> {
    let target = package.join("target").join(folder);
    remove(&target);
    let sh = shell_in(package)?;
    let cargo = measured(&sh)?.args(["cargo", "build", "--offline"]);
    let paths = format!("--remap-path-prefix={}=", root().display());
    let build = cargo.args(options).env("CARGO_TARGET_DIR", &target);
    let build = build.env("CARGO_ENCODED_RUSTFLAGS", paths);
    let (_, said) = output(build)?;
    let crates = said
        .lines()
        .filter(|line| line.trim_start().starts_with("Compiling "));
    Ok(Built {
        took: RunCost::parse(&said)?,
        // The program itself is not counted as a crate.
        crates: crates.count().saturating_sub(1),
        program: target.join(folder).join("lean"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readers_symbol_is_found() {
        let table = b"\0_ZN11fdr_formats4xray6reader10XraySource4openE\0main\0";
        assert_eq!(readers(table), ["XraySource"]);
        assert!(readers(b"\0_ZN11fdr_formats4xray5chunk12ChunkDecoder6decodeE\0").is_empty());
    }
}
