//! `cargo xtask bench formats`: how fast every format is written and read, and a large XRay trace is converted
//! into each, with how much memory; beside it the real tools that read the same files. All are processes of their
//! own; nothing here knows a format.

use xtask::process::{cargo, command, on_path, output, run as run_command, target};

use crate::Result;
use crate::figures::{Words, median};
use crate::program::{Program, Trace, machine, remove};
use crate::table::Table;

/// Calls of the trace that other people's tools take: they need minutes for more.
const SMALL: u64 = 1_000_000;

/// How fast each format is written, read, and converted into; beside other tools
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Of the conversions
    #[arg(long, value_name = "MILLIONS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    calls: u64,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

/// Foreign tools, their arguments, the format of the file, and our command. A tool that writes is compared with a
/// conversion; a tool that only reads is compared with a command that only reads.
const OTHERS: [(&str, &str, &str, &str); 3] = [
    (
        "llvm-xray-19",
        "convert -f yaml -o OUT IN",
        "xray",
        "convert --quiet --force --to htdump -o OUT IN",
    ),
    (
        "hawktracer-converter-rs",
        "--format chrome-tracing --source IN --output-file OUT",
        "htdump",
        "convert --quiet --force --to xray -o OUT IN",
    ),
    ("babeltrace2", "IN -o dummy", "ctf", "verify IN"),
];

/// Measures and prints the tables.
///
/// # Errors
/// If something can't be built, or one of our own programs fails. A missing tool of others is told.
pub(crate) fn run(options: &Options) -> Result<()> {
    let bench = Program::build()?;
    run_command(&mut cargo(
        "build --release --package fdr-cli --bin fdr --example generate_trace --example measure_formats",
    ))?;
    let release = target()?.join("release");
    let (tool, measure) = (
        release.join("fdr"),
        release.join("examples/measure_formats"),
    );
    let rounds = usize::from(options.rounds);
    let calls = options.calls as f64;
    let (targets, _) = output(command(&measure).arg("targets"))?;
    let small = Trace::generate(2 * SMALL, 4)?;
    let large = Trace::generate(2 * options.calls * 1_000_000, 4)?;
    let heads = "format | bytes/call | write Mcalls/s | read Mcalls/s | convert s | conv. Mcalls/s | peak MiB";
    let mut table = Table::new(heads);
    for line in targets.lines() {
        let (name, extension) = line.split_once(' ').unwrap_or((line, "trace"));
        eprintln!("{name}");
        let out = small.beside(&format!("{name}.{extension}"));
        let (mut written, mut read, mut said) = (Vec::new(), Vec::new(), Words::default());
        for _ in 0..rounds {
            remove(&out);
            let mut write = command(&measure);
            said = Words::parse(&output(write.args(["write", name]).arg(&out).arg(&small.path))?.0);
            written.push(said.get("seconds")?);
            let back = Words::parse(&output(command(&measure).arg("read").arg(&out))?.0);
            if back.get("calls")? != said.get("calls")? {
                return Err(format!("{name}: written {said:?}, but read {back:?}").into());
            }
            read.push(back.get("seconds")?);
        }
        remove(&out);
        let words = format!("convert --quiet --force --to {name} -o OUT IN");
        let took = bench.took(rounds, &tool, &words, [&large.path, &out])?;
        remove(&out);
        let of_small = said.get("calls")?;
        let figures = [
            of_small / median(written) / 1e6,
            of_small / median(read) / 1e6,
            took.seconds,
            calls / took.seconds,
            took.peak_mib,
        ];
        let bytes = format!("{:.1}", said.get("bytes")? / of_small);
        let figures = figures.map(|figure| format!("{figure:.2}"));
        table.add([name.to_owned(), bytes].into_iter().chain(figures));
    }
    println!(
        "{}; medians of {rounds} rounds, files in the page cache\n\nwriting and reading alone, one thread; and fdr \
         convert of {calls:.1} M calls from XRay\n\n{}",
        machine(),
        table.text()
    );
    println!("other programs, and fdr with the same file (1 M calls) and as much to do\n");
    for (name, words, from, ours) in OTHERS {
        let Some(program) = on_path(name) else {
            println!("{name} {words}: not installed (cargo xtask test installs it)");
            continue;
        };
        let (input, out) = (small.beside("in"), small.beside("out"));
        let make = format!("convert --quiet --force --to {from} -o OUT IN");
        bench.took(1, &tool, &make, [&small.path, &input])?;
        match bench.took(rounds, &program, words, [&input, &out]) {
            Ok(theirs) => {
                remove(&out);
                let mine = bench.took(rounds, &tool, ours, [&input, &out])?;
                println!(
                    "{from}: {name} {words}: {:.2} s, {:.0} MiB; fdr {ours}: {:.3} s, {:.0} MiB; {:.1} times as fast",
                    theirs.seconds,
                    theirs.peak_mib,
                    mine.seconds,
                    mine.peak_mib,
                    theirs.seconds / mine.seconds
                );
            }
            Err(error) => println!("{name} {words}: not measured: {error}"),
        }
        remove(&input);
        remove(&out);
    }
    Ok(())
}
