//! `cargo xtask bench peers`: what a traced call costs with other people's recorders, beside ours and beside two bare
//! clock reads. Every peer is a program of the workspace `bench/peers` (`peers.toml` there lists them), built on its
//! own and run in every round; all of them do the same work. A peer that can't be measured still has a row, which says
//! why.

mod plot;
mod results;
mod sample;
mod symbols;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use xshell::{Shell, cmd};
use xtask::process::{output, root, run as run_command, shell, work_folder};
use xtask::readers;

use crate::Result;
use crate::figures::{Cell, MIN_ROUNDS, in_rounds};
use crate::program::{line_of, load, machine};
use crate::table::{bless, last_line};
use results::Findings;
pub(crate) use results::spread_cell;
use sample::{Probe, Sample};
use symbols::{Twins, code_bytes};

/// Where recordings go: in memory, so that no disk is measured.
const PLACE: &str = "/dev/shm";
/// The target folder of their workspace, within ours.
const TARGET: &str = "peers";
const MANIFEST: &str = "bench/peers/Cargo.toml";
/// A process that takes longer than this many seconds hangs: most take one.
const LIMIT: &str = "90";
/// The labels of the floors that everything is divided by.
const FLOORS: [&str; 2] = ["floor, rdtsc", "floor, rdtscp"];
/// What is measured: label, the programs' word for it, threads.
pub(crate) type Body = (&'static str, &'static str, &'static str);

const BODIES: [Body; 4] = [
    ("leaf", "leaf", "1"),
    ("fib", "fib", "1"),
    ("index builder", "mix", "1"),
    ("leaf, 2 threads", "leaf", "2"),
];

/// What a traced call costs with other people's recorders, beside ours
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fewer than seven are a first look, which is never kept
    #[arg(long, value_name = "N", default_value_t = MIN_ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// These alone, and the floor
    #[arg(
        long,
        value_name = "PEER,…",
        value_delimiter = ',',
        conflicts_with = "bless"
    )]
    only: Vec<String>,
    /// Debian's packages that they need, as root
    #[arg(long)]
    install: bool,
    /// The figures go into docs/peers.md
    #[arg(long)]
    bless: bool,
    /// Lints those that can be built in some seconds, without the C++ sources that some crates bring
    #[arg(long, hide = true)]
    lint: bool,
}

#[derive(Deserialize)]
struct List {
    peer: Vec<Peer>,
}

/// A program of `bench/peers`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Peer {
    /// Its folder; the program is `peer-FOLDER`.
    folder: String,
    /// Whose version is in the lock file.
    #[serde(rename = "crate")]
    of_crate: Option<String>,
    /// The first number in what this prints is the version.
    program: Option<String>,
    /// What must be installed: the name of a reader.
    needs: Option<String>,
    #[serde(rename = "mode")]
    modes: Vec<Mode>,
}

/// One way to use it: a row of the table.
#[derive(Clone, Debug, Deserialize)]
struct Mode {
    /// The program's word for it.
    word: String,
    label: String,
    kind: Kind,
    /// Which data of a call the recorder keeps, and which it loses.
    keeps: String,
}

/// Which rows can be compared with each other. `peers.toml` explains the kinds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Floor,
    Records,
    Order,
    Sums,
    Off,
}

/// All measurements of one row.
pub(crate) struct Row {
    folder: String,
    mode: Mode,
    version: String,
    /// One for each body.
    pub(crate) cells: Vec<Cell<Sample>>,
    probe: std::result::Result<Probe, String>,
    /// Code bytes of the leaf.
    pub(crate) code: Option<Twins>,
    program: std::result::Result<PathBuf, String>,
}

fn list() -> Result<Vec<Peer>> {
    let list: List = toml::from_str(include_str!("../../peers/peers.toml"))?;
    Ok(list.peer)
}

/// Measures, prints the table, and writes it in all forms.
///
/// # Errors
/// If the floor can't be measured, or a result can't be written. A peer's error is in its row.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut peers = list()?;
    if options.lint {
        return lint(&peers);
    }
    if options.bless && options.rounds < MIN_ROUNDS {
        return Err(format!("--bless needs {MIN_ROUNDS} rounds").into());
    }
    if options.install {
        for needed in peers.iter().filter_map(|peer| peer.needs.as_ref()) {
            readers::provide(needed)?;
        }
    }
    if !options.only.is_empty() {
        let floor = ["floor".to_owned()];
        peers = choose(&[&floor, &options.only[..]].concat())?;
    }
    let before = load();
    let rows = measure(&peers, &BODIES, options.rounds)?;
    let findings = Findings {
        date: line_of("date -u +%Y-%m-%d"),
        machine: format!("{}, Linux {}", machine(), line_of("uname -r")),
        compiler: line_of("rustc --version"),
        load: [before, load()],
        rounds: options.rounds,
        rows: results::sorted(rows),
    };
    println!("{}{}", findings.markdown(), results::LEGEND);
    let folder = match options.bless {
        true => root().join("docs"),
        false => work_folder("bench-peers")?,
    };
    if options.bless {
        bless(&folder.join("peers.md"), "peers", &findings.markdown())?;
    }
    plot::svg(&findings, &folder.join("peers.svg"))?;
    eprintln!("the plot: {}", folder.join("peers.svg").display());
    Ok(())
}

/// The peers of these folders, in the order of the list.
///
/// # Errors
/// If there is no such peer.
pub(crate) fn choose(folders: &[impl AsRef<str>]) -> Result<Vec<Peer>> {
    let mut peers = list()?;
    for name in folders {
        let name = name.as_ref();
        if !peers.iter().any(|peer| peer.folder == name) {
            return Err(format!("{name} is no peer: see bench/peers").into());
        }
    }
    peers.retain(|peer| folders.iter().any(|name| peer.folder == name.as_ref()));
    Ok(peers)
}

/// Builds the peers, of which the first is the floor, and measures each body of each in all rounds.
///
/// # Errors
/// If the floor can't be built. Another error is in its row.
pub(crate) fn measure(peers: &[Peer], bodies: &[Body], rounds: u64) -> Result<Vec<Row>> {
    let mut rows = prepared(peers, bodies.len())?;
    if let Some(Err(error)) = rows.first().map(|row| &row.program) {
        return Err(format!("the floor cannot be built: {error}").into());
    }
    in_rounds(rounds, rows.len() * bodies.len(), |at| {
        let body = at % bodies.len();
        rows[at / bodies.len()].measure(body, bodies[body]);
    });
    Ok(rows)
}

fn lint(peers: &[Peer]) -> Result<()> {
    let light = |peer: &&Peer| match peer.program {
        Some(_) => peer.lacks().is_none(),
        None => peer.needs.is_none(),
    };
    let folders = peers.iter().filter(light).map(|peer| peer.folder.as_str());
    let sh = peers_shell()?;
    let packages = SHARED.into_iter().chain(folders);
    let packages = packages.map(|folder| format!("--package=peer-{folder}"));
    Ok(run_command(cmd!(
        sh,
        "cargo clippy --locked --manifest-path {MANIFEST} {packages...} --all-targets --quiet -- -D warnings"
    ))?)
}

/// Crates of the workspace that are no peers: what those share.
const SHARED: [&str; 2] = ["harness", "native"];

/// Builds every peer, and has it make its one call of a probe. Each peer is built alone, because otherwise its features
/// would be united with another peer's.
fn prepared(peers: &[Peer], bodies: usize) -> Result<Vec<Row>> {
    let lock = fs::read_to_string(root().join("bench/peers/Cargo.lock"))?;
    let mut rows = Vec::new();
    for peer in peers {
        let program = peer.build().map_err(|error| error.to_string());
        for mode in &peer.modes {
            let probe = program.clone().and_then(|program| {
                let said = ask(&program, &[&mode.word, "probe"]);
                said.and_then(|said| Probe::parse(&said))
                    .map_err(|error| error.to_string())
            });
            let of_mode = format!("::{}::leaf", mode.word);
            let twins: [&[&str]; 2] = [
                &["::untraced::leaf", "native_untraced_leaf"],
                &[&of_mode, "::traced::leaf", "native_traced_leaf"],
            ];
            rows.push(Row {
                folder: peer.folder.clone(),
                mode: mode.clone(),
                version: peer.version(&lock),
                cells: vec![Cell::default(); bodies],
                probe,
                code: program
                    .as_ref()
                    .ok()
                    .and_then(|program| code_bytes(program, twins).ok()),
                program: program.clone(),
            });
        }
    }
    Ok(rows)
}

impl Peer {
    /// What a person types to install what it needs, if that is not installed.
    fn lacks(&self) -> Option<String> {
        self.needs.as_deref().and_then(readers::lacking)
    }

    fn build(&self) -> Result<PathBuf> {
        if let Some(advice) = self.lacks() {
            return Err(format!("not installed ({advice})").into());
        }
        let name = format!("peer-{}", self.folder);
        eprintln!("building {name}");
        let sh = peers_shell()?;
        // Functions start at a cache line, so that where they happen to lie decides nothing.
        sh.set_var("RUSTFLAGS", "-C llvm-args=-align-all-functions=6");
        // HawkTracer's sources rely on a header that newer C++ libraries do not include by themselves.
        sh.set_var("CXXFLAGS", "-include new");
        let build = cmd!(
            sh,
            "cargo build --quiet --release --locked --manifest-path {MANIFEST} --package {name}"
        );
        output(build).map_err(|error| format!("cannot be built: {error}"))?;
        Ok(work_folder(TARGET)?.join("release").join(name))
    }

    fn version(&self, lock: &str) -> String {
        match (&self.of_crate, &self.program) {
            (Some(name), _) => locked(lock, name).unwrap_or_default().to_owned(),
            (None, Some(program)) => first_number(&line_of(program)),
            (None, None) => String::new(),
        }
    }
}

/// A shell that builds the peers' workspace where its target folder is.
fn peers_shell() -> Result<Shell> {
    let sh = shell()?;
    sh.set_var("CARGO_TARGET_DIR", work_folder(TARGET)?);
    Ok(sh)
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

impl Row {
    pub(crate) fn label(&self) -> &str {
        &self.mode.label
    }

    /// Whether the other one is the floor of this one's clock.
    pub(crate) fn is_above(&self, floor: &Row) -> bool {
        let [is_floor, other] = [floor, self].map(|row| row.mode.kind == Kind::Floor);
        let word = self.mode.word.as_str();
        let clock = word.strip_prefix("default-").unwrap_or(word);
        is_floor && !other && floor.mode.word == clock
    }

    /// Why it was not measured.
    pub(crate) fn failures(&self) -> Vec<&str> {
        let failures = self.cells.iter().filter_map(|cell| cell.failure.as_ref());
        let failures = failures.chain(self.probe.as_ref().err());
        let mut failures: Vec<&str> = failures.map(|why| last_line(why)).collect();
        failures.dedup();
        failures
    }

    fn measure(&mut self, at: usize, (_, word, threads): Body) {
        self.cells[at].add(|| {
            let program = self.program.as_ref().map_err(Clone::clone)?;
            Sample::parse(&ask(program, &[&self.mode.word, "measure", word, threads])?)
        });
    }
}

/// Runs a peer's program with an empty folder to record into, and returns its output.
fn ask(program: &Path, words: &[&str]) -> Result<String> {
    let folder = tempfile::Builder::new()
        .prefix("fdr-bench-")
        .tempdir_in(PLACE)?;
    let sh = shell()?;
    let limited = cmd!(sh, "timeout --kill-after=5 {LIMIT} {program} {words...}");
    Ok(output(limited.env("PEER_FOLDER", folder.path()))?.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Every row of these peers, at 10 ns for the first and 10 ns more for each.
    pub(crate) fn rows(folders: &[&str]) -> Vec<Row> {
        let peers = choose(folders).expect("peers");
        let modes = peers
            .iter()
            .flat_map(|peer| peer.modes.iter().map(move |mode| (peer, mode)));
        let row = |(at, (peer, mode)): (usize, (&Peer, &Mode))| {
            let sample = |more: f64| Sample {
                untraced: 1.5,
                thread: 10.0 * (at as f64 + 1.0) + more,
                process: 10.0 * (at as f64 + 1.0) + 5.0,
            };
            let cell = Cell {
                samples: [0.0, 1.0, 2.0].map(sample).to_vec(),
                failure: None,
            };
            Row {
                folder: peer.folder.clone(),
                mode: mode.clone(),
                version: "1.2".to_owned(),
                cells: vec![cell; BODIES.len()],
                probe: Ok(Probe {
                    bytes: Some(16.0),
                    kept: (at == 2).then_some(0.5),
                }),
                code: Some([30.0, 71.0]),
                program: Err("not built".to_owned()),
            }
        };
        modes.enumerate().map(row).collect()
    }

    fn manifest(path: &str) -> String {
        let path = root().join("bench/peers").join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn peers_match_the_workspace_and_stay_independent() {
        let workspace: toml::Table = toml::from_str(&manifest("Cargo.toml")).expect("TOML");
        let members = workspace["workspace"]["members"]
            .as_array()
            .expect("members");
        let mut members: Vec<&str> = members.iter().filter_map(toml::Value::as_str).collect();
        members.sort_unstable();
        let peers = list().expect("a list");
        let listed = peers.iter().map(|peer| peer.folder.as_str()).chain(SHARED);
        let mut listed: Vec<&str> = listed.collect();
        listed.sort_unstable();
        assert_eq!(members, listed);
        for folder in listed {
            let ours = manifest(&format!("{folder}/Cargo.toml")).contains("path = \"../../..");
            // Beside ours: what the crate `fdr-tracing` costs is measured with the peer's own subscribers.
            let may = matches!(folder, "fdr" | "tracing");
            assert_eq!(ours, may, "{folder}");
        }
    }

    #[test]
    fn labels_are_unique_and_the_floors_come_first() {
        let peers = list().expect("a list");
        let modes = || peers.iter().flat_map(|peer| &peer.modes);
        let mut labels: Vec<&str> = modes().map(|mode| mode.label.as_str()).collect();
        assert_eq!(labels[..2], FLOORS);
        labels.sort_unstable();
        let count = labels.len();
        labels.dedup();
        assert_eq!(labels.len(), count);
        for mode in modes() {
            assert_eq!(
                mode.keeps.is_empty(),
                mode.kind == Kind::Off,
                "{}",
                mode.label
            );
        }
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
