//! `cargo xtask sanitize`, `model` and `miri`: the recorder under programs that watch memory. The first two sanitizers
//! come with the stable compiler, behind a switch; std is not built for them. So code that only std's own
//! synchronisation makes safe is listed in [`SUPPRESSED`]. No result counts before a fault that was made on purpose has
//! been found.

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use xshell::{Cmd, Shell, cmd};

use crate::test::PLAIN_FORMATS;
use xtask::Result;
use xtask::process::{host, output, run as run_command, shell, shell_in, work_folder};

/// False reports of ThreadSanitizer. The delivered standard library has no calls into the sanitizer's runtime.
const SUPPRESSED: &str = "\
# The last owner of an Arc looks at its count behind a fence, which ThreadSanitizer does not know.
race:alloc::sync::Arc<
# libtest hands over results by std's channel, whose orderings are inside std.
race:core::mem::maybe_uninit::MaybeUninit<test::
# Standard output is behind a lock of std's.
race:std::io::buffered::
";

/// A sanitizer, and the words of its report.
struct Sanitizer {
    name: &'static str,
    /// The fault of the program `faulty` that it must find.
    fault: &'static str,
    message: &'static str,
    /// Configuration for the compiler.
    flags: &'static str,
    /// The lines of arguments for `cargo test`.
    suites: &'static [&'static str],
}

/// ThreadSanitizer does not see assembly, so this build has the writer of other architectures. A thread that stands in
/// for another one is the same assembly as in every build. The sanitizer takes these two threads for one.
const THREAD: Sanitizer = Sanitizer {
    name: "thread",
    fault: "race",
    message: "ThreadSanitizer: data race",
    flags: "--cfg miri --cfg tsan",
    // The standard library is built without the sanitizer. So the sanitizer reports waits for its conditions as races.
    suites: &["test --package fdr --lib -- --skip ::conditions"],
};

const ADDRESS: Sanitizer = Sanitizer {
    name: "address",
    fault: "overflow",
    message: "AddressSanitizer: heap-buffer-overflow",
    flags: "",
    suites: &[
        "test --package fdr --lib",
        "test --package fdr-formats --lib",
        "test --package fdr-formats --test main -- golden:: limits:: ring:: regressions::",
    ],
};

/// Whole programs, with recording on: threads that begin and end, and a dump from a handler.
const PROGRAMS: [&[&str]; 3] = [
    &[
        "exact",
        "a:1:60000,b:2:60000,c:3:60000",
        "d:4:60000,e:5:60000",
    ],
    &["handlers", "first-records"],
    &["handlers", "after-and-next"],
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// None: both
    #[arg(value_parser = PossibleValuesParser::new([THREAD.name, ADDRESS.name]))]
    sanitizers: Vec<String>,
}

/// Runs the sanitizers that are named, else all.
///
/// # Errors
///
/// If something was found, or a sanitizer does not find what it must.
pub(crate) fn run(options: &Options) -> Result<()> {
    let named = &options.sanitizers;
    for sanitizer in [THREAD, ADDRESS] {
        if named.is_empty() || named.iter().any(|name| name == sanitizer.name) {
            sanitizer.run()?;
        }
    }
    Ok(())
}

impl Sanitizer {
    fn run(&self) -> Result<()> {
        let (sh, host) = (shell()?, host()?);
        let programs = self.build_programs(&host)?;
        self.finds_the_fault(&programs)?;
        for suite in self.suites {
            run_command(self.cargo(&sh, suite, &host)?)?;
        }
        for arguments in PROGRAMS {
            self.runs_clean(&programs, arguments)?;
        }
        println!("{}: nothing found", self.name);
        Ok(())
    }

    /// Cargo with the sanitizer on, in a target folder of its own.
    fn cargo<'a>(&self, sh: &'a Shell, words: &str, host: &str) -> Result<Cmd<'a>> {
        let (words, filters) = words.split_at(words.find(" -- ").unwrap_or(words.len()));
        let (words, filters) = (words.split(' '), filters.split_whitespace());
        let flags = format!(
            "-Zsanitizer={} -Cunsafe-allow-abi-mismatch=sanitizer {}",
            self.name, self.flags
        );
        // With a target of its own, the flags are not for build scripts and macros.
        let build = cmd!(sh, "cargo {words...} --target {host} {filters...}")
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", flags.trim_end())
            // SUPPRESSED names functions that are inlined: they are found by line tables.
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .env("CARGO_TARGET_DIR", self.folder()?);
        self.with_options(build)
    }

    fn folder(&self) -> Result<PathBuf> {
        work_folder(&format!("sanitize-{}", self.name))
    }

    fn with_options<'a>(&self, command: Cmd<'a>) -> Result<Cmd<'a>> {
        let path = self.folder()?.join("suppressions");
        fs::write(&path, SUPPRESSED)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(command
            .env("TSAN_OPTIONS", format!("suppressions={}", path.display()))
            // The standard library caches data for backtraces behind its own lock, which the sanitizer does not see.
            .env("RUST_BACKTRACE", "0")
            // Memory that a program still holds at its end is no fault of this kind.
            .env("ASAN_OPTIONS", "detect_leaks=0"))
    }

    fn build_programs(&self, host: &str) -> Result<PathBuf> {
        let words = "build --quiet --package fdr-tests --bin programs";
        run_command(self.cargo(&shell()?, words, host)?)?;
        Ok(self.folder()?.join(host).join("debug/programs"))
    }

    fn finds_the_fault(&self, programs: &Path) -> Result<()> {
        let (succeeded, said) = self.outcome(programs, &["faulty", self.fault], &self.folder()?)?;
        if succeeded || !said.contains(self.message) {
            return Err(format!(
                "{} sanitizer is off: no {} in\n{said}",
                self.name, self.message
            ));
        }
        println!("{}: the fault that was made on purpose is found", self.name);
        Ok(())
    }

    fn runs_clean(&self, programs: &Path, arguments: &[&str]) -> Result<()> {
        let work = self.folder()?.join("programs");
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        let (succeeded, said) = self.outcome(programs, arguments, &work)?;
        if !succeeded || said.contains("Sanitizer") {
            return Err(format!("{arguments:?}, {} sanitizer:\n{said}", self.name));
        }
        let traces = fs::read_dir(&work).map_or(0, |entries| entries.flatten().count());
        if traces == 0 {
            return Err(format!("{arguments:?} recorded nothing:\n{said}"));
        }
        println!("{}: clean", arguments.join(" "));
        Ok(())
    }

    /// Whether the program succeeded, and its stderr.
    fn outcome(&self, program: &Path, arguments: &[&str], folder: &Path) -> Result<(bool, String)> {
        let sh = shell_in(folder)?;
        let run = self.with_options(cmd!(sh, "{program} {arguments...}"))?;
        let output = run.env("FDR", "1").ignore_status().output();
        let output = output.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output.status.success(), said))
    }
}

/// The recorder's protocol in every order that the memory model allows: `recorder/tests/model`. The build has no
/// assembly, because loom can't model it, and has a target folder of its own.
pub(crate) fn models(sh: &Shell) -> Result<Cmd<'_>> {
    // The search is loom's, in generator's coroutines. It takes six times as long if they are not optimized.
    let [loom, generator] =
        ["loom", "generator"].map(|name| format!("profile.dev.package.{name}.opt-level=2"));
    let tests = cmd!(
        sh,
        "cargo test --package fdr --lib --config {loom} --config {generator} --config {PLAIN_FORMATS}
         recorder::tests::model -- --nocapture"
    );
    let tests = tests.env("RUSTFLAGS", "--cfg loom --cfg miri");
    Ok(tests.env("CARGO_TARGET_DIR", work_folder("model")?))
}

/// What runs under Miri: code with unsafe blocks, and memory that threads share. The formats have neither.
/// Sites are not among them, because Miri knows no sections of a linker.
const INTERPRETED: [&str; 5] = [
    "recorder::",
    "ring::slots::",
    "ring::space::",
    "sys::handover::",
    "sys::lock::",
];

/// The tests that Miri does not run. It needs minutes for nearly all of them, because they fill several chunks, the
/// stack of open calls or its area of notes. The models check these cases in every order. One subtracts from the time
/// of a clock, and the clock that the tests read is 0 under Miri.
const NOT_INTERPRETED: [&str; 18] = [
    "clocks::time_goes_on_whatever_the_clock_does",
    "open_calls::functions_without_a_row_share_one",
    "open_calls::making_records_is_not_the_callers_time",
    "tests::the_ring_keeps_the_newest_records",
    "tests::chunks_of_zeros_count_as_overwritten",
    "tests::a_full_ring_keeps_the_oldest_records",
    "tests::a_full_ring_takes_nothing_more",
    "tests::counts_are_exact_with_metadata_in_between",
    "arguments::too_many_arguments_publish_all",
    "arguments::a_moved_entry_keeps_its_note",
    "notes::a_note_without_room_opens_a_chunk",
    "notes::a_dropped_note_ends_a_full_ring",
    "open_calls::too_deep_calls_are_counted_untimed",
    "open_calls::summaries_fill_and_overwrite_chunks",
    "open_calls::the_threshold_follows_what_the_ring_holds",
    "untimed::a_full_ring_takes_none_and_counts_all",
    "untimed::counts_are_exact_whatever_comes_in_between",
    "recorder::tests::tail::",
];

/// Runs the tests of [`INTERPRETED`] under Miri, where a toolchain has it.
///
/// # Errors
///
/// If Miri finds something.
pub(crate) fn miri() -> Result<()> {
    if let Some(why) = no_miri() {
        println!("SKIPPED: tests under Miri: {why}");
        return Ok(());
    }
    run_command(interpreted(&shell()?)?)
}

/// The tests under Miri.
///
/// # Errors
///
/// If there is no Miri.
pub(crate) fn interpreted(sh: &Shell) -> Result<Cmd<'_>> {
    let skipped = NOT_INTERPRETED.map(|name| ["--skip", name]);
    Ok(with_miri(sh)?
        .args(["test", "--package", "fdr", "--lib", "--"])
        .args(INTERPRETED)
        .args(skipped.as_flattened())
        .env("CARGO_TARGET_DIR", work_folder("miri")?)
        // Smaller chunks, and what stands in for system calls that Miri does not know.
        .env("RUSTFLAGS", "--cfg interpreted")
        // The recorder's cursors are addresses, its slots are found by exposed provenance.
        .env(
            "MIRIFLAGS",
            "-Zmiri-permissive-provenance -Zmiri-disable-isolation",
        ))
}

/// `cargo miri` of the toolchain in use, or of rustup's nightly.
///
/// # Errors
///
/// Why there is none.
fn with_miri(sh: &Shell) -> Result<Cmd<'_>> {
    if output(cmd!(sh, "cargo miri --version")).is_ok() {
        return Ok(cmd!(sh, "cargo miri"));
    }
    let known = "rustup component add miri rust-src --toolchain nightly";
    output(cmd!(sh, "rustup run nightly cargo miri --version"))
        .map_err(|_| format!("no toolchain has it: {known}"))?;
    Ok(cmd!(sh, "rustup run nightly cargo miri"))
}

/// Why Miri can't be run; `None` where it can.
pub(crate) fn no_miri() -> Option<String> {
    shell().and_then(|sh| with_miri(&sh).map(drop)).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_suppression_has_its_reason() {
        let lines: Vec<&str> = SUPPRESSED.lines().collect();
        for pair in lines.chunks(2) {
            assert!(
                pair[0].starts_with("# ") && pair[1].starts_with("race:"),
                "{pair:?}"
            );
        }
    }
}
