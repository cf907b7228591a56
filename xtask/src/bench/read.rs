//! `cargo xtask bench read`: how fast the tool reads a large trace, and in how much memory: figures,
//! verdict, folded stacks, other formats; of one thread and of several, on all cores and on one. Beside
//! it other people's readers, where they are installed, on the same calls, fewer of them.

mod trace;

use std::path::{Path, PathBuf};

use self::trace::Form;
pub(crate) use self::trace::Trace;
use super::options::Words;
use super::{Program, machine};
use crate::Result;
use crate::process::{cargo, on_path, run as run_command, target};

/// llvm-xray keeps every record in memory, 200 bytes each, and uftrace takes a second for a million.
const PEERS_MILLIONS: u32 = 5;
const ROUNDS: usize = 3;
/// Threads of the traces.
const THREADS: [u32; 2] = [1, 4];
/// Converting is measured on so many at most: what is written is as large as the trace.
const CONVERTED_MILLIONS: u32 = 50;
/// Formats that it is converted to beside its own: with a record per edge, with one per call, and states.
const FORMATS: [&str; 5] = ["ctf", "heph", "htdump", "et", "tcstate"];

/// What a reader is asked, and what that is called in the table. In arguments `IN` is the trace, and `OUT`
/// a file or folder that is removed afterwards.
type Question = (&'static str, &'static str);

const OURS: [Question; 8] = [
    ("fdr report", "report --limit 5 IN"),
    ("fdr report -j 1", "report --limit 5 -j 1 IN"),
    ("fdr verify", "verify IN"),
    ("fdr info", "info IN"),
    ("fdr flame", "flame IN"),
    ("fdr flame -j 1", "flame -j 1 IN"),
    (
        "fdr convert --to xray",
        "convert --quiet --force --to xray -o OUT IN",
    ),
    (
        "fdr convert --to xray -j 1",
        "convert --quiet --force -j 1 --to xray -o OUT IN",
    ),
];

/// A reader of other people's: its programs, the best first, what its trace is like, and what it is asked.
struct Peer {
    programs: &'static [&'static str],
    /// Where it comes from.
    package: &'static str,
    form: Form,
    questions: &'static [Question],
}

const PEERS: [Peer; 3] = [
    Peer {
        programs: &["llvm-xray-19", "llvm-xray"],
        package: "Debian's llvm-19",
        form: Form::Xray,
        questions: &[
            ("account", "account IN"),
            (
                "stack",
                "stack --all-stacks --per-thread-stacks --stack-format=flame \
                 --aggregation-type=time IN",
            ),
            (
                "convert",
                "convert --output-format=trace_event --output=OUT IN",
            ),
        ],
    },
    Peer {
        programs: &["uftrace"],
        package: "Debian's uftrace",
        form: Form::Uftrace,
        questions: &[
            ("report", "report --no-pager -d IN"),
            ("dump as flame", "dump --no-pager --flame-graph -d IN"),
        ],
    },
    Peer {
        programs: &["hawktracer-converter", "hawktracer-converter-rs"],
        package: "HawkTracer, or the crate hawktracer-converter",
        form: Form::Htdump,
        questions: &[(
            "to Chrome's",
            "--format chrome-tracing --source IN --output-file OUT",
        )],
    },
];

struct Options {
    millions: u32,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options { millions: 100 };
        let mut words = Words::new(words);
        while let Some(option) = words.option() {
            match option {
                "--records" => options.millions = words.number("a number of millions", 1)?,
                _ => return Err(words.unknown()),
            }
        }
        Ok(options)
    }
}

/// Generates the traces, reads them, prints a table, and removes the traces.
///
/// # Errors
///
/// If something cannot be built, or one of our own readings fails. Other readers that are missing, or that
/// fail, are told.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let program = Program::build()?;
    run_command(&mut cargo(
        "build --release --package fdr-cli --bin fdr --example generate_trace --example uftrace_folder",
    ))?;
    let tool = target()?.join("release/fdr");
    println!(
        "{}; medians of {ROUNDS} readings of a file in the page cache\n",
        machine()
    );
    let bench = Bench { program, tool };
    for threads in THREADS {
        let large = Trace::generate(options.millions, threads)?;
        for (label, words) in OURS.iter().filter(|(label, _)| !label.contains("convert")) {
            bench.ours(&large, label, words)?;
        }
    }
    let millions = CONVERTED_MILLIONS.min(options.millions);
    for threads in THREADS {
        let large = Trace::generate(millions, threads)?;
        for (label, words) in OURS.iter().filter(|(label, _)| label.contains("convert")) {
            bench.ours(&large, label, words)?;
        }
        for format in FORMATS.iter().filter(|_| threads > 1) {
            let label = format!("fdr convert --to {format}");
            let words = format!("convert --quiet --force --to {format} -o OUT IN");
            bench.ours(&large, &label, &words)?;
        }
    }
    let small = Trace::generate(PEERS_MILLIONS.min(options.millions), 4)?;
    for (label, words) in OURS.iter().filter(|(label, _)| !label.contains("-j")) {
        bench.ours(&small, label, words)?;
    }
    for peer in &PEERS {
        bench.peer(&small, peer)?;
    }
    Ok(())
}

struct Bench {
    program: Program,
    tool: PathBuf,
}

impl Bench {
    /// One question to our tool.
    fn ours(&self, trace: &Trace, label: &str, words: &str) -> Result<()> {
        let reading = trace.read(&self.program, label, &self.tool, words, ROUNDS)?;
        print!("{}", reading.text());
        Ok(())
    }

    /// All questions to somebody else's reader.
    fn peer(&self, trace: &Trace, peer: &Peer) -> Result<()> {
        let name = peer.programs.iter().find(|name| on_path(name).is_some());
        let Some((name, path)) = name.and_then(|name| Some((name, on_path(name)?))) else {
            println!("{}: not installed ({})", peer.programs[0], peer.package);
            return Ok(());
        };
        let as_theirs = trace.as_form(peer.form, &self.tool)?;
        for (what, words) in peer.questions {
            let label = format!("{name} {what}");
            match as_theirs.read(&self.program, &label, Path::new(&path), words, ROUNDS) {
                Ok(reading) => print!("{}", reading.text()),
                Err(error) => println!("{label}: {}", error.lines().last().unwrap_or_default()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        assert_eq!(Options::parse(&[]).map(|options| options.millions), Ok(100));
        assert_eq!(
            Options::parse(&["--records", "7"]).map(|options| options.millions),
            Ok(7)
        );
        assert!(Options::parse(&["--records", "0"]).is_err());
        assert!(Options::parse(&["--records"]).is_err());
    }

    #[test]
    fn every_question_names_its_trace() {
        let peers = PEERS.iter().flat_map(|peer| peer.questions);
        for (label, words) in OURS.iter().chain(peers) {
            assert!(words.split_whitespace().any(|word| word == "IN"), "{label}");
        }
    }
}
