//! `cargo xtask bench peers`: what a traced call costs with other people's recorders, beside ours and beside
//! two bare clock reads. Every peer is a program of the workspace `bench/peers`, built on its own and run in
//! every round; all of them do the same work. What cannot be measured is a row that says why; it must never
//! be missing.

mod list;
mod plot;
mod sample;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use list::{Mode, Peer, Version};
use sample::{Cell, Probe, Sample};

use super::code::{self, Twins};
use super::folder::Private;
use super::marks;
use super::options::Words;
use crate::Result;
use crate::process::{self, command, output, root, work_folder};
use crate::readers;

/// Fewer would not bear the word median.
const LEAST_ROUNDS: usize = 7;
/// For a first look, which is never kept.
const QUICK_ROUNDS: usize = 2;

/// The target folder of their workspace, within ours.
const TARGET: &str = "peers";

/// A process that takes longer than this many seconds hangs: most take one.
const LIMIT: &str = "90";

/// What is measured: label, the programs' word for it, threads.
pub(crate) const BODIES: [(&str, &str, &str); 4] = [
    ("leaf", "leaf", "1"),
    ("fib", "fib", "1"),
    ("index builder", "mix", "1"),
    ("leaf, 2 threads", "leaf", "2"),
];

struct Options {
    rounds: usize,
    install: bool,
    /// Whether the figures go into the documentation.
    bless: bool,
    /// Folders of peers; empty: all.
    only: Vec<String>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            rounds: LEAST_ROUNDS,
            install: false,
            bless: false,
            only: Vec::new(),
        };
        let mut words = Words::new(words);
        while let Some(option) = words.option() {
            match option {
                "--quick" => options.rounds = QUICK_ROUNDS,
                "--rounds" => {
                    options.rounds = LEAST_ROUNDS.max(words.number("a number", 0)?);
                }
                "--install" => options.install = true,
                "--bless" => options.bless = true,
                "--only" => options.only = words.value()?.split(',').map(str::to_owned).collect(),
                _ => return Err(words.unknown()),
            }
        }
        if options.bless && (options.rounds < LEAST_ROUNDS || !options.only.is_empty()) {
            return Err("--bless needs all peers and at least 7 rounds".to_owned());
        }
        let known = |name: &String| list::PEERS.iter().any(|peer| peer.folder == name);
        if let Some(name) = options.only.iter().find(|name| !known(name)) {
            return Err(format!("{name} is no peer: see bench/peers"));
        }
        Ok(options)
    }

    /// Whether the peer is measured; the floor always is.
    fn wants(&self, peer: &Peer) -> bool {
        self.only.is_empty()
            || peer.folder == "floor"
            || self.only.iter().any(|name| name == peer.folder)
    }
}

/// All that is found out about one row.
pub(crate) struct Row {
    pub(crate) peer: &'static Peer,
    pub(crate) mode: &'static Mode,
    pub(crate) version: String,
    /// As `BODIES`.
    pub(crate) cells: [Cell; BODIES.len()],
    pub(crate) probe: Result<Probe>,
    /// Code bytes of the leaf.
    pub(crate) code: Result<Twins>,
    program: Result<PathBuf>,
}

/// Measures, prints the table, and writes it in all forms.
///
/// # Errors
///
/// If the floor cannot be measured, or a result cannot be written. What is wrong with a peer is told in its
/// row.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    if options.install {
        install()?;
    }
    let mut rows = prepared(&options)?;
    if let Some(Err(error)) = rows.first().map(|row| &row.program) {
        return Err(format!("the floor cannot be built: {error}"));
    }
    let folder = Private::in_memory(&work_folder("bench-peers")?)?;
    let cells = rows.len() * BODIES.len();
    let before = super::load();
    for round in 0..options.rounds {
        eprint!("\rround {} of {} ", round + 1, options.rounds);
        for at in 0..cells {
            // Each round starts elsewhere, so that nothing is always measured after the same thing.
            let at = (at + round * (cells / options.rounds + 1)) % cells;
            rows[at / BODIES.len()].measure(at % BODIES.len(), &folder);
        }
    }
    eprintln!();
    drop(folder);
    let findings = table::Findings {
        date: said(&["date", "-u", "+%Y-%m-%d"]),
        machine: format!("{}, Linux {}", super::machine(), said(&["uname", "-r"])),
        compiler: said(&["rustc", "--version"]),
        load: [before, super::load()],
        rounds: options.rounds,
        rows: table::sorted(rows),
    };
    print!("{}", findings.text());
    let results = work_folder("bench-peers")?;
    write(&results, &findings)?;
    eprintln!("as JSON, Markdown and SVG: {}", results.display());
    if options.bless {
        bless(&root().join("docs"), &findings)?;
    }
    Ok(())
}

/// Installs what peers need, by Debian's packages.
fn install() -> Result<()> {
    let missing = list::PEERS.iter().filter_map(lacking);
    let mut packages: Vec<&str> = missing.flat_map(|need| need.packages).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    readers::install_debian(&packages)
}

/// What the peer needs, if it is not there.
fn lacking(peer: &'static Peer) -> Option<&'static list::Need> {
    let there = |sign: &str| output(command("sh").args(["-c", sign])).is_ok();
    peer.needs.as_ref().filter(|need| !there(need.sign))
}

/// Packages that are linted with everything else: what all peers share, and the peers that can be built here
/// in some seconds, without the C++ sources that some crates bring.
pub(crate) fn linted() -> Vec<String> {
    let light = |peer: &&'static Peer| match peer.version {
        Version::Program(_) => lacking(peer).is_none(),
        Version::Ours | Version::Crate(_) => peer.needs.is_none(),
    };
    let peers = list::PEERS.iter().filter(light).map(|peer| peer.folder);
    let folders = list::SHARED.into_iter().chain(peers);
    folders.map(|folder| format!("peer-{folder}")).collect()
}

/// Builds every peer, each on its own so that one does not choose the features of another's dependencies,
/// and makes its one call of a probe.
fn prepared(options: &Options) -> Result<Vec<Row>> {
    let lock = root().join("bench/peers/Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let folder = Private::in_memory(&work_folder("bench-peers")?)?;
    let mut rows = Vec::new();
    for peer in list::PEERS.iter().filter(|peer| options.wants(peer)) {
        let program = build(peer);
        let version = version(peer, &lock);
        for mode in peer.modes {
            let probe = program
                .clone()
                .and_then(|program| Probe::parse(&ask(&folder, &program, &[mode.word, "probe"])?));
            rows.push(Row {
                peer,
                mode,
                version: version.clone(),
                cells: Default::default(),
                probe,
                code: program
                    .clone()
                    .and_then(|program| leaf_bytes(&program, mode)),
                program: program.clone(),
            });
        }
    }
    Ok(rows)
}

fn build(peer: &'static Peer) -> Result<PathBuf> {
    if let Some(need) = lacking(peer) {
        let packages = need.packages.join(" ");
        return Err(format!(
            "not installed (Debian: apt-get install {packages})"
        ));
    }
    let name = format!("peer-{}", peer.folder);
    eprintln!("building {name}");
    let mut build = cargo("build --quiet --release", &[&name])?;
    // Functions start at a cache line, so that where they happen to lie decides nothing.
    build.env("RUSTFLAGS", "-C llvm-args=-align-all-functions=6");
    // HawkTracer's sources rely on a header that newer C++ libraries do not include by themselves.
    build.env("CXXFLAGS", "-include new");
    output(&mut build).map_err(|error| format!("cannot be built: {error}"))?;
    Ok(work_folder(TARGET)?.join("release").join(name))
}

/// Cargo, for some packages of the peers' workspace.
///
/// # Errors
///
/// If their target folder can't be made.
pub(crate) fn cargo(words: &str, packages: &[impl AsRef<str>]) -> Result<Command> {
    let mut cargo = process::cargo(words);
    cargo.args(["--locked", "--manifest-path", "bench/peers/Cargo.toml"]);
    for package in packages {
        cargo.args(["--package", package.as_ref()]);
    }
    cargo.env("CARGO_TARGET_DIR", work_folder(TARGET)?);
    Ok(cargo)
}

/// Code bytes of the leaf, of the untraced twin and of the traced one: in the module that is named as the
/// mode, or in `traced`, or in the C sources.
fn leaf_bytes(program: &Path, mode: &Mode) -> Result<Twins> {
    let mut nm = command("nm");
    let (symbols, _) = output(
        nm.args(["--print-size", "--demangle", "--defined-only"])
            .arg(program),
    )?;
    let bytes = |names: &[&str]| {
        let found = names
            .iter()
            .find_map(|name| code::code_bytes(&symbols, name));
        found.ok_or_else(|| format!("no leaf among the symbols of {}", program.display()))
    };
    let of_mode = format!("::{}::leaf", mode.word);
    Ok(Twins {
        untraced: bytes(&["::untraced::leaf", "native_untraced_leaf"])?,
        traced: bytes(&[&of_mode, "::traced::leaf", "native_traced_leaf"])?,
    })
}

fn version(peer: &Peer, lock: &str) -> String {
    match peer.version {
        Version::Ours => String::new(),
        Version::Crate(name) => locked(lock, name).unwrap_or_default().to_owned(),
        Version::Program(words) => first_number(&said(words)),
    }
}

/// The crate's version in a lock file.
fn locked<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    Some(rest.split_once('"')?.0)
}

/// The first word that begins with a digit, maybe after a `v`.
fn first_number(text: &str) -> String {
    let bare = |word: &str| word.trim_start_matches('v').to_owned();
    let mut words = text.split_whitespace().map(bare);
    let number = words.find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
    number.unwrap_or_default()
}

/// What a command prints, or nothing.
fn said(words: &[&str]) -> String {
    let said = output(command(words[0]).args(&words[1..]));
    said.map_or_else(|_| String::new(), |(stdout, _)| stdout.trim().to_owned())
}

impl Row {
    /// Adds one sample to the cell, or the reason why there is none; the first reason stays.
    fn measure(&mut self, body: usize, folder: &Private) {
        let cell = &mut self.cells[body];
        if cell.failure.is_some() {
            return;
        }
        let (_, word, threads) = BODIES[body];
        let measured = self
            .program
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|program| {
                let words = [self.mode.word, "measure", word, threads];
                Sample::parse(&ask(folder, program, &words)?)
            });
        match measured {
            Ok(sample) => cell.samples.push(sample),
            Err(failure) => cell.failure = Some(failure),
        }
    }
}

/// Runs a peer's program with an empty folder to record into, and returns what it says.
fn ask(folder: &Private, program: &Path, words: &[&str]) -> Result<String> {
    let run = folder.fresh()?;
    let mut limited = command("timeout");
    limited
        .args(["--kill-after=5", LIMIT])
        .arg(program)
        .args(words);
    let said = output(limited.env("PEER_FOLDER", &run));
    folder.empty();
    said.map(|(stdout, _)| stdout)
}

/// Writes the results as files.
fn write(folder: &Path, findings: &table::Findings) -> Result<()> {
    super::write(&folder.join("peers.json"), &findings.json())?;
    super::write(&folder.join("peers.md"), &findings.markdown())?;
    super::write(&folder.join("peers.svg"), &plot::svg(findings))
}

/// Puts the results into the documentation: the tables between their marks, JSON and plot beside it.
fn bless(docs: &Path, findings: &table::Findings) -> Result<()> {
    marks::bless(&docs.join("peers.md"), "peers", &findings.markdown())?;
    super::write(&docs.join("peers.json"), &findings.json())?;
    super::write(&docs.join("peers.svg"), &plot::svg(findings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_runs_are_kept() {
        let rounds = |words: &[&str]| Options::parse(words).map(|options| options.rounds);
        assert_eq!(rounds(&[]), Ok(7));
        assert_eq!(rounds(&["--rounds", "3"]), Ok(7));
        assert_eq!(rounds(&["--rounds", "9", "--bless"]), Ok(9));
        assert_eq!(rounds(&["--quick"]), Ok(2));
        assert!(rounds(&["--quick", "--bless"]).is_err());
        assert!(rounds(&["--bless", "--only", "puffin"]).is_err());
        assert!(rounds(&["--only", "no-such-peer"]).is_err());
        assert!(rounds(&["--faster"]).is_err());
    }

    #[test]
    fn the_floor_is_always_measured() {
        let options = Options::parse(&["--only", "puffin"]).expect("options");
        let wanted = list::PEERS.iter().filter(|peer| options.wants(peer));
        let wanted: Vec<&str> = wanted.map(|peer| peer.folder).collect();
        assert_eq!(wanted, ["floor", "puffin"]);
    }

    #[test]
    fn what_all_share_is_linted_and_what_brings_cpp_is_not() {
        let linted = linted();
        for package in ["peer-harness", "peer-floor", "peer-fdr", "peer-tracing"] {
            assert!(linted.iter().any(|name| name == package), "{package}");
        }
        assert!(!linted.iter().any(|name| name == "peer-tracy"));
    }

    #[test]
    fn versions_are_found() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";
        assert_eq!(locked(lock, "b"), Some("0.1.0"));
        assert_eq!(locked(lock, "c"), None);
        assert_eq!(
            first_number("Debian clang version 19.1.7 (3~deb)"),
            "19.1.7"
        );
        assert_eq!(first_number("uftrace v0.13 ( x86_64 )"), "0.13");
        assert_eq!(first_number(""), "");
    }
}
