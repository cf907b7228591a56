//! `cargo xtask bench flush`: a dump of full rings, to memory and to disk: how fast, and in how much memory;
//! beside a plain file of the same size.

use std::path::PathBuf;

use super::figures::{Spread, get, words};
use super::folder::Private;
use super::options::Words;
use super::{Program, machine};
use crate::Result;
use crate::process::{command, output, work_folder};

/// Calls that surely fill a thread's ring of the default size, 4 MiB.
const CALLS: &str = "300000";
const RING_MIB: u32 = 4;

struct Options {
    mib: u32,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options { mib: 1024 };
        let mut words = Words::new(words);
        while let Some(option) = words.option() {
            match option {
                "--mib" => options.mib = words.number("a number, 4 at least", RING_MIB)?,
                _ => return Err(words.unknown()),
            }
        }
        Ok(options)
    }
}

/// Medians over the dumps of one process.
struct Row {
    place: &'static str,
    gib: f64,
    /// GB/s by the clock on the wall, and by the CPU that the dumping thread took.
    speed: f64,
    speed_of_cpu: f64,
    plain: f64,
    plain_of_cpu: f64,
    /// The most of all dumps, MiB.
    more_mib: f64,
}

impl Row {
    fn of(place: &'static str, lines: &str) -> Result<Row> {
        let dumps: Vec<Vec<(String, f64)>> = lines.lines().map(words).collect();
        let all = |word: &str| -> Result<Spread> {
            let values = dumps.iter().map(|dump| get(dump, word));
            let values = values.collect::<Result<Vec<f64>>>()?;
            Spread::of(values).ok_or_else(|| "the bench program made no dump".to_owned())
        };
        let bytes = all("bytes")?.median;
        let speed = |word: &str| Ok::<f64, String>(bytes / 1e9 / all(word)?.median.max(1e-9));
        Ok(Row {
            place,
            gib: bytes / f64::from(1 << 30),
            speed: speed("seconds")?,
            speed_of_cpu: speed("cpu")?,
            plain: speed("plain_seconds")?,
            plain_of_cpu: speed("plain_cpu")?,
            more_mib: all("more_kib")?.max / 1024.0,
        })
    }

    fn text(&self) -> String {
        let Row {
            place,
            gib,
            speed,
            speed_of_cpu,
            plain,
            plain_of_cpu,
            more_mib,
        } = self;
        format!(
            "{place:<8} {gib:>6.2} {speed:>10.2} {speed_of_cpu:>10.2} {plain:>10.2} \
             {plain_of_cpu:>10.2} {more_mib:>10.1}\n"
        )
    }
}

/// Measures and prints the table.
///
/// # Errors
///
/// If the bench program cannot be built or fails: there is no room, say.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let program = Program::build()?;
    let threads = options.mib.div_ceil(RING_MIB).to_string();
    let mut rows = Vec::new();
    for (place, parent) in places()? {
        eprintln!("{place}");
        let folder = Private::new(&parent)?;
        rows.push(Row::of(place, &dumps(&program, &threads, &folder)?)?);
    }
    println!(
        "{}; dumps of {threads} threads' rings, medians of 5; GB/s\n\n{:<8} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10}",
        machine(),
        "to",
        "GiB",
        "dump",
        "of CPU",
        "plain file",
        "of CPU",
        "more MiB"
    );
    rows.iter().for_each(|row| print!("{}", row.text()));
    println!(
        "\nof CPU: of the writing thread's; more: memory beyond what the process had, at most"
    );
    Ok(())
}

/// Where files are in memory, and where they are on disk.
fn places() -> Result<[(&'static str, PathBuf); 2]> {
    Ok([
        ("memory", PathBuf::from("/dev/shm")),
        ("disk", work_folder("bench")?),
    ])
}

fn dumps(program: &Program, threads: &str, folder: &Private) -> Result<String> {
    let out = folder.fresh()?.join("");
    let mut bench = command(&program.path);
    bench.args(["flush", threads, CALLS]);
    for (name, value) in [("FDR", "1"), ("FDR_LOG", "quiet"), ("FDR_MEMORY", "16G")] {
        bench.env(name, value);
    }
    Ok(output(bench.env("FDR_OUT", out))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_become_medians_and_the_most_memory() {
        let line = |seconds: f64, more: u32| {
            format!(
                "bytes=2000000000 seconds={seconds} cpu=0.5 plain_seconds=1 plain_cpu=0.25 more_kib={more}\n"
            )
        };
        let lines = line(1.0, 1024) + &line(2.0, 4096) + &line(4.0, 0);
        let row = Row::of("memory", &lines).expect("a row");
        assert_eq!((row.speed, row.speed_of_cpu), (1.0, 4.0));
        assert_eq!((row.plain, row.plain_of_cpu, row.more_mib), (2.0, 8.0, 4.0));
        assert!(Row::of("memory", "").is_err());
        assert!(Options::parse(&["--mib", "3"]).is_err());
    }

    #[test]
    fn dumps_go_to_folders_of_their_own() {
        let places = places().expect("places");
        for (_, parent) in places.iter().filter(|(_, parent)| parent.is_dir()) {
            let [one, other] = [(); 2].map(|()| Private::new(parent).expect("a folder"));
            let [one, other] = [one, other].map(|folder| folder.fresh().expect("a folder"));
            assert!(one != other && one.starts_with(parent));
        }
    }
}
