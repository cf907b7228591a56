//! `cargo xtask bench lean`: the cost of a library for a program of one function. It measures a cold build, the size of
//! the stripped program, and the crates that are built. The guard asks for the recorder's size and symbols. Every build
//! has a target folder of its own. Must never count the time in which sources are fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use xtask::process::{cargo, command, output, root, work_folder};

use crate::Result;
use crate::compile::childrens_seconds;
use crate::program::machine;
use crate::table::Table;

/// Cold builds, programs and crates, beside tracing and fastrace; some minutes
#[derive(clap::Args)]
pub(crate) struct Options {}

/// A program that has one function, which a library records.
struct Lean {
    name: &'static str,
    /// Lines of its manifest. `RUNTIME` is the recorder's folder.
    dependencies: &'static str,
    source: &'static str,
}

const PROGRAMS: [Lean; 4] = [
    Lean {
        name: "none",
        dependencies: "",
        source: "fn work(number: usize) -> usize { number + 1 }
fn main() { println!(\"{}\", work(std::env::args().count())); }
",
    },
    FDR,
    Lean {
        name: "tracing",
        dependencies: "tracing = \"0.1\"\ntracing-subscriber = \"0.3\"\n",
        source: "#[tracing::instrument]
fn work(number: usize) -> usize { number + 1 }
fn main() { tracing_subscriber::fmt::init(); println!(\"{}\", work(std::env::args().count())); }
",
    },
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
    seconds: f64,
    cpu_seconds: f64,
    crates: usize,
    program: PathBuf,
}

/// Builds every program in both profiles, and prints the table.
///
/// # Errors
/// If one can't be built.
pub(crate) fn run(_: &Options) -> Result<()> {
    let folder = work_folder("bench/lean")?;
    let heads = "library | dev: s | CPU s | release: s | CPU s | stripped, kB | more, kB | crates";
    let mut table = Table::new(heads);
    let mut least = None;
    for lean in PROGRAMS {
        eprintln!("{}", lean.name);
        let package = lean.generate(&folder)?;
        let dev = build(&package, &[])?;
        let release = build(&package, &["--release"])?;
        let bytes = stripped_bytes(&release.program)?;
        let more = bytes.saturating_sub(*least.get_or_insert(bytes));
        let seconds = [&dev, &release].map(|built| [built.seconds, built.cpu_seconds]);
        let seconds = seconds
            .concat()
            .into_iter()
            .map(|value| format!("{value:.1}"));
        let rest =
            [bytes / 1000, more / 1000, release.crates as u64].map(|value| value.to_string());
        table.add(
            [lean.name.to_owned()]
                .into_iter()
                .chain(seconds)
                .chain(rest),
        );
    }
    println!(
        "{}; cold builds of a program of one function, one each\n\n{}",
        machine(),
        table.text()
    );
    Ok(fs::remove_dir_all(&folder)?)
}

/// Bytes of a stripped release program that has the recorder as it is by default.
///
/// # Errors
/// If it can't be built, or has a symbol of a reader.
pub(crate) fn recorders_bytes() -> Result<u64> {
    let folder = work_folder("bench/lean-guard")?;
    let built = build(&FDR.generate(&folder)?, &["--release"])?;
    let found = readers(&fs::read(&built.program)?);
    if !found.is_empty() {
        let program = built.program.display();
        let found = found.join(", ");
        return Err(format!("{program}: a traced program has readers' symbols: {found}").into());
    }
    let bytes = stripped_bytes(&built.program)?;
    fs::remove_dir_all(&folder)?;
    Ok(bytes)
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
        output(cargo("fetch --quiet").current_dir(&package))?;
        Ok(package)
    }
}

fn build(package: &Path, arguments: &[&str]) -> Result<Built> {
    let target = package.join("target");
    let (since, before) = (Instant::now(), childrens_seconds()?);
    let mut build = cargo("build --offline");
    build.args(arguments).current_dir(package);
    let (_, said) = output(build.env("CARGO_TARGET_DIR", &target))?;
    let crates = said
        .lines()
        .filter(|line| line.trim_start().starts_with("Compiling "));
    let profile = if arguments.is_empty() {
        "debug"
    } else {
        "release"
    };
    Ok(Built {
        seconds: since.elapsed().as_secs_f64(),
        cpu_seconds: childrens_seconds()? - before,
        // The program itself is none.
        crates: crates.count().saturating_sub(1),
        program: target.join(profile).join("lean"),
    })
}

fn stripped_bytes(program: &Path) -> Result<u64> {
    let stripped = program.with_extension("stripped");
    output(command("strip").arg("-o").arg(&stripped).arg(program))?;
    Ok(fs::metadata(stripped)?.len())
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
