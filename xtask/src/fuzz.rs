//! `cargo xtask fuzz`: libFuzzer on every reader of the registry, one after the other. The
//! coverage is of the whole library. Memory is limited. A finding is printed with the command that repeats it.
//! `fuzz/src/check.rs` decides what a finding is, and this file must never do so. Works with a stable
//! compiler.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use xshell::cmd;
use xtask::Result;
use xtask::process::{host, into_files, output, root, run as run_command, shell, work_folder};

/// What libFuzzer needs to see where an input leads. These are options of LLVM's, not of a nightly
/// compiler.
const COVERAGE: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Limits of one input: MiB of memory, seconds, bytes. The program's own allocator is as strict.
const LIMITS: [&str; 3] = ["-rss_limit_mb=512", "-timeout=10", "-max_len=16384"];

/// libFuzzer on the readers of all formats
///
/// Needs a C++ compiler.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// None: all of them
    #[arg(value_name = "FORMAT")]
    formats: Vec<String>,
    /// For each format
    #[arg(long, value_name = "N", default_value = "10", value_parser = crate::minutes)]
    minutes: f64,
    /// One input of one format again; FILE as a finding names it
    #[arg(long, value_name = "FILE", requires = "formats")]
    input: Option<PathBuf>,
    /// Writes the seeds in fuzz/corpus anew, and does nothing else
    #[arg(long)]
    seeds: bool,
}

/// Fuzzes, and says what was found.
///
/// # Errors
///
/// If the program cannot be built (it needs a C++ compiler), a format is unknown, or something was
/// found.
pub(crate) fn run(options: Options) -> Result<()> {
    if options.input.is_some() && options.formats.len() != 1 {
        return Err("--input needs one format: cargo xtask fuzz FORMAT --input FILE".into());
    }
    let (program, sh) = (build()?, shell()?);
    if options.seeds {
        let seeds = root().join("fuzz/corpus");
        return run_command(cmd!(sh, "{program}").env("FUZZ_SEEDS", seeds));
    }
    let known = output(cmd!(sh, "{program}"))?.0;
    let known: Vec<&str> = known.lines().collect();
    let formats: Vec<&str> = options.formats.iter().map(String::as_str).collect();
    if let Some(other) = formats.iter().find(|name| !known.contains(name)) {
        let known = known.join(", ");
        return Err(format!("{other} is no format (formats: {known})"));
    }
    if let (Some(input), [format]) = (&options.input, formats.as_slice()) {
        let input = fs::canonicalize(input)
            .map_err(|error| format!("cannot read {}: {error}", input.display()))?;
        let again = cmd!(sh, "{program} {LIMITS...} {input}").env("FUZZ_FORMAT", format);
        return run_command(again.env("FUZZ_ALL_TARGETS", "1"));
    }
    let formats = if formats.is_empty() { known } else { formats };
    let mut failed = 0;
    for format in formats {
        match fuzz(&program, format, options.minutes) {
            Ok(outcome) => println!("{format}: {outcome}"),
            Err(found) => {
                println!("{format}: FOUND {found}");
                failed += 1;
            }
        }
    }
    match failed {
        0 => Ok(()),
        count => Err(format!("{count} formats with findings")),
    }
}

/// Builds the fuzzing program, and returns it.
fn build() -> Result<PathBuf> {
    let host = &host()?;
    let folder = work_folder("fuzz")?;
    let sh = shell()?;
    sh.set_var("RUSTC_BOOTSTRAP", "1");
    sh.set_var("RUSTFLAGS", COVERAGE.join(" "));
    sh.set_var("CARGO_TARGET_DIR", &folder);
    // With a target of its own, the flags are not for build scripts.
    run_command(cmd!(
        sh,
        "cargo build --release --locked --manifest-path fuzz/Cargo.toml --target {host}"
    ))?;
    Ok(folder.join(host).join("release/fdr-fuzz"))
}

/// Fuzzes one format; says what was done, or as an error what was found.
fn fuzz(program: &Path, format: &str, minutes: f64) -> Result<String> {
    let work = |name: &str| work_folder(&format!("fuzz/{name}/{format}"));
    let (corpus, found, log) = (work("corpus")?, work("found")?, work("log")?.join("log"));
    let seconds = format!("{:.0}", (minutes * 60.0).ceil());
    // The first folder is written to, the others are read only.
    let (sh, seeds) = (shell()?, seeds(format));
    let fuzzer = cmd!(
        sh,
        "{program} {LIMITS...} -max_total_time={seconds} -artifact_prefix={found}/ -print_final_stats=1
         {corpus} {seeds...}"
    );
    eprintln!(
        "fuzzing {format} for {minutes} minutes (log: {})",
        log.display()
    );
    let bad = |error| format!("cannot write {}: {error}", log.display());
    let out = File::create(&log).map_err(bad)?;
    let err = out.try_clone().map_err(bad)?;
    let status = into_files(fuzzer.env("FUZZ_FORMAT", format), out, err)?;
    let text = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let text = String::from_utf8_lossy(&text);
    if status.success() {
        return Ok(summary(&text));
    }
    let input = artifact(&text).ok_or_else(|| format!("nothing to keep; see {}", log.display()))?;
    let reason = reason(&text);
    Err(format!(
        "{reason}\n  again: cargo xtask fuzz {format} --input {input}\n  \
         when mended: keep the input in fuzz/regressions/{format}/, where a test reads it"
    ))
}

/// Folders of inputs to begin with.
fn seeds(format: &str) -> Vec<PathBuf> {
    let folders = ["fuzz/corpus", "fuzz/regressions", "tests/golden"];
    let folders = folders.map(|folder| root().join(folder).join(format));
    folders.into_iter().filter(|path| path.is_dir()).collect()
}

/// What libFuzzer counted: its lines `stat::NAME: 123`.
fn summary(log: &str) -> String {
    let stats = log.lines().filter_map(|line| line.strip_prefix("stat::"));
    let stats = stats.map(|stat| stat.split_whitespace().collect::<Vec<_>>().join(" "));
    format!("nothing found; {}", stats.collect::<Vec<_>>().join(", "))
}

/// The file that libFuzzer kept.
fn artifact(log: &str) -> Option<&str> {
    log.lines()
        .find_map(|line| line.split_once("Test unit written to "))
        .map(|(_, path)| path.trim())
}

/// What was wrong: the panic with its message, or libFuzzer's word for it.
fn reason(log: &str) -> String {
    let mut lines = log.lines();
    if let Some(at) = lines.find(|line| line.contains("panicked at ")) {
        let message: Vec<&str> = lines.take(3).take_while(|line| !is_note(line)).collect();
        return format!("{at} {}", message.join(" "));
    }
    let error = log
        .lines()
        .find_map(|line| line.split_once("ERROR: libFuzzer: "));
    let what = error.map_or("an end without a word", |(_, what)| what.trim());
    match what {
        "deadly signal" => "more than 512 MiB held at a time, or a crash".to_owned(),
        _ => what.to_owned(),
    }
}

fn is_note(line: &str) -> bool {
    line.starts_with("note: ") || line.starts_with("==")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Task, tests::task};

    #[test]
    fn options() {
        let Ok(Task::Fuzz(options)) = task("fuzz xray heph --minutes 0.5") else {
            panic!("not understood");
        };
        assert_eq!(options.formats, ["xray", "heph"]);
        assert!(options.minutes == 0.5 && !options.seeds);
        for bad in ["--minutes", "--minutes 0", "--input x", "--hours 1"] {
            assert!(task(&format!("fuzz {bad}")).is_err(), "{bad:?}");
        }
        let Ok(Task::Fuzz(two)) = task("fuzz xray heph --input x") else {
            panic!("not understood");
        };
        assert!(run(two).is_err_and(|error| error.contains("one format")));
    }

    #[test]
    fn a_quiet_log_is_summed_up() {
        let log = "Done 125776 runs in 31 second(s)\nstat::number_of_executed_units: 125776\n\
                   stat::average_exec_per_sec:     4057\nstat::new_units_added:          2031\n\
                   stat::peak_rss_mb:              35WARNING: and so on\n";
        assert_eq!(
            summary(log),
            "nothing found; number_of_executed_units: 125776, average_exec_per_sec: 4057, new_units_added: 2031, \
             peak_rss_mb: 35WARNING: and so on"
        );
    }

    #[test]
    fn a_finding_is_reported() {
        let log = "INFO: Seed: 1\nthread 'main' (7) panicked at formats/src/bytes.rs:12:5:\n\
                   index out of bounds\nnote: run with RUST_BACKTRACE=1\n==7== ERROR: libFuzzer: deadly signal\n\
                   artifact_prefix='x/'; Test unit written to x/crash-ab\nBase64: AA==\n";
        assert_eq!(artifact(log), Some("x/crash-ab"));
        let told = reason(log);
        assert!(
            told.ends_with("formats/src/bytes.rs:12:5: index out of bounds"),
            "{told}"
        );
        let slow = "==7== ERROR: libFuzzer: timeout after 11 seconds\n";
        assert_eq!(reason(slow), "timeout after 11 seconds");
        assert!(reason("==7== ERROR: libFuzzer: deadly signal\n").contains("512 MiB"));
    }
}
