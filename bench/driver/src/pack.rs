//! `cargo xtask bench pack`: how small a real trace becomes, how fast it is packed and unpacked,
//! and what a packed one costs a reader; beside it the `zstd` that is installed. The trace is of a program that
//! does real work (`index_builder`), for made ones are packed too well or too badly.

use std::fs;
use std::path::{Path, PathBuf};

use xtask::process::{cargo, command, on_path, output, run as run_command, target};

use crate::Result;
use crate::program::{Program, machine};
use crate::table::{NONE, Table};

const ROUNDS: usize = 3;
/// A record of XRay's.
const RECORD_BYTES: f64 = 8.0;
const REPORT: &str = "report --limit 1 IN";

/// How small a real trace is packed, and how fast it is packed, unpacked and read
#[derive(clap::Args)]
pub(crate) struct Options {}

/// Records, packs, unpacks, reads, and prints a table.
///
/// # Errors
/// If something can't be built or does not run, or a trace does not come back as it was.
pub(crate) fn run(_: &Options) -> Result<()> {
    let bench = Program::build()?;
    run_command(&mut cargo("build --release --package fdr-cli --bin fdr"))?;
    run_command(&mut cargo(
        "build --release --package fdr-examples --example index_builder",
    ))?;
    let tool = target()?.join("release/fdr");
    let folder = bench.folder()?;
    let [trace, packed, again] =
        ["real.fdr", "real.fdr.zst", "real.again"].map(|name| folder.path().join(name));
    let mut program = command(target()?.join("release/examples/index_builder"));
    program.args(["--threads", "2", "--passes", "3"]);
    program.env("FDR", "1").env("FDR_KEEP", "0");
    program.env("FDR_BUFFER", "128M");
    output(program.env("FDR_OUT", &trace))?;
    let bytes = fs::metadata(&trace)?.len() as f64;
    let both = |seconds: f64| {
        let (mega, records) = (bytes / 1e6, bytes / RECORD_BYTES / 1e6);
        format!(
            "{:.0} MB/s {:.1} M records/s",
            mega / seconds,
            records / seconds
        )
    };
    let took = |program: &Path, words: &str, paths| -> Result<String> {
        Ok(both(bench.took(ROUNDS, program, words, paths)?.seconds))
    };
    let heads = "tool | level | ratio | bytes/record | packing | unpacking | fdr report of it";
    let mut table = Table::new(heads);
    let plain = took(&tool, REPORT, [&trace, &again])?;
    table.add([NONE, NONE, "1.00", "8.00", NONE, NONE, &plain].map(str::to_owned));
    let unpack = "unpack -q --force IN -o OUT";
    let mut tools: Vec<(&str, PathBuf, &str, &str)> = vec![(
        "fdr",
        tool.clone(),
        "pack -q --force IN -o OUT --level ",
        unpack,
    )];
    let theirs = ["-q -f -T0 IN -o OUT -", "-q -f -d IN -o OUT"];
    tools.extend(on_path("zstd").map(|zstd| ("zstd -T0", zstd, theirs[0], theirs[1])));
    for level in [1, 3, 9] {
        for (name, program, pack, unpack) in &tools {
            let packing = took(program, &format!("{pack}{level}"), [&trace, &packed])?;
            let unpacking = took(program, unpack, [&packed, &again])?;
            output(command("cmp").arg(&trace).arg(&again))?;
            let ratio = bytes / fs::metadata(&packed)?.len() as f64;
            table.add([
                (*name).to_owned(),
                level.to_string(),
                format!("{ratio:.2}"),
                format!("{:.2}", RECORD_BYTES / ratio),
                packing,
                unpacking,
                took(&tool, REPORT, [&packed, &again])?,
            ]);
        }
    }
    println!(
        "{}; medians of {ROUNDS}; XRay trace of index_builder, {:.1} MB, about {:.1} M records\n\n{}",
        machine(),
        bytes / 1e6,
        bytes / RECORD_BYTES / 1e6,
        table.text()
    );
    if on_path("zstd").is_none() {
        println!("zstd is not installed (Debian package zstd): nothing to compare with");
    }
    Ok(())
}
