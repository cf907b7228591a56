//! `cargo xtask bench flush`: a dump of full rings, to memory and to disk: how fast, and in how much memory;
//! beside a plain file of the same size.

use std::path::PathBuf;

use xtask::process::work_folder;

use crate::Result;
use crate::figures::{Spread, Words};
use crate::program::{Program, machine, said};
use crate::table::Table;

/// Calls that surely fill a thread's ring of the default size, 4 MiB.
const CALLS: &str = "300000";
const RING_MIB: u32 = 4;

/// Dumps of full rings to memory and to disk: speed, and memory beside the rings
#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(4..))]
    mib: u32,
}

/// Measures and prints the table.
///
/// # Errors
/// If the bench program can't be built or fails: there is no room, say.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut program = Program::build()?;
    let threads = options.mib.div_ceil(RING_MIB).to_string();
    let heads = "to | GiB | dump GB/s | of CPU | plain file GB/s | of CPU | more MiB";
    let mut table = Table::new(heads);
    for (label, place) in [
        ("memory", PathBuf::from("/dev/shm")),
        ("disk", work_folder("bench")?),
    ] {
        eprintln!("{label}");
        program.place = place;
        let folder = program.folder()?;
        let mut dumps = program.command(Some("rdtscp"), &folder);
        dumps.env("FDR_LOG", "quiet").env("FDR_MEMORY", "16G");
        let said = said(dumps.args(["flush", &threads, CALLS]))?;
        table.add([label.to_owned()].into_iter().chain(row(&said.stdout)?));
    }
    println!(
        "{}; dumps of {threads} threads' rings, medians of 5\n",
        machine()
    );
    print!("{}", table.text());
    println!(
        "\nof CPU: of the writing thread's; more: memory beyond what the process had, at most"
    );
    Ok(())
}

/// Medians over the dumps of one process, a line for each; and the most memory of all.
fn row(lines: &str) -> Result<[String; 6]> {
    let dumps: Vec<Words> = lines.lines().map(Words::parse).collect();
    let all = |word: &str| -> Result<Spread> {
        let values: Result<Vec<f64>> = dumps.iter().map(|dump| dump.get(word)).collect();
        Ok(Spread::of(values?).ok_or("the bench program made no dump")?)
    };
    let bytes = all("bytes")?.median;
    let speed = |word: &str| -> Result<String> {
        Ok(format!("{:.2}", bytes / 1e9 / all(word)?.median.max(1e-9)))
    };
    Ok([
        format!("{:.2}", bytes / f64::from(1 << 30)),
        speed("seconds")?,
        speed("cpu")?,
        speed("plain_seconds")?,
        speed("plain_cpu")?,
        format!("{:.1}", all("more_kib")?.max / 1024.0),
    ])
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
        assert_eq!(
            row(&lines).expect("a row"),
            ["1.86", "1.00", "4.00", "2.00", "8.00", "4.0"]
        );
        assert!(row("").is_err());
    }
}
