//! Part of `cargo xtask test --rest`. The recorder is tested with musl, built by the oldest compiler that we promise,
//! and run on aarch64 under emulation. Traced programs are checked for systems without a recorder. The old compiler and
//! all standard libraries come from rustup.

use std::env::consts::ARCH;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use xshell::{Cmd, Shell, cmd};

use crate::test::{PLAIN_FORMATS, Tally, copy_manifest, once, suites};
use crate::torture;
use xtask::Result;
use xtask::process::{
    build_tested, on_path, output, root, run as run_command, shell, target, work_folder,
};

/// The oldest compiler for runtime, macros and formats.
const RUST: &str = "1.85.0";
/// What chooses it on a command line of rustup's, and what chooses the compiler in use.
const OLD: &[&str] = &["+1.85.0"];
pub(crate) const IN_USE: &[&str] = &[];

/// Where a compiler's folder has the libraries of targets.
const LIBRARIES: &str = "lib/rustlib";

const AARCH64: &str = "aarch64-unknown-linux-gnu";
const AARCH64_MUSL: &str = "aarch64-unknown-linux-musl";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// What a trace of that architecture calls its clock.
const CLOCK: &str = "cntvct_el0";

/// Systems without a recorder. A program that is traced compiles for them, and is not run.
const ELSEWHERE: [&str; 6] = [
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-gnu",
    "x86_64-unknown-freebsd",
    "aarch64-linux-android",
    "wasm32-unknown-unknown",
];

/// A target without std. A library that needs none compiles for it.
const BARE: &str = "x86_64-unknown-none";

/// How programs with musl are linked: at any address or at the one that the linker chose.
const MUSL_FLAGS: [&str; 2] = ["", "-C relocation-model=static"];

/// What runs on aarch64 and with musl: the recorder's own tests, with those of its clock, and the ring's.
const SUITES: [&str; 2] = [
    "test --package fdr --lib",
    "test --package fdr-formats --lib ring::",
];

/// Tests of the recorder that ask the kernel for what the emulator does not pass on, with the reason.
const NOT_EMULATED: [(&str, &str); 4] = [
    (
        "clock::rseq::tests::rseq_can_be_switched_off_in_glibc",
        "the kernel can't execute a program of another architecture",
    ),
    (
        "ring::lost::tests::a_cut_file_is_noticed_before_it_grows",
        "the emulator ignores which pages the kernel is to touch, so a cut file is noticed by the signal alone",
    ),
    (
        "ring::space::tests::parts_without_space_are_out_of_reach",
        "the emulator ignores which pages stay out of a core file",
    ),
    (
        "shell::last_thread::tests::a_thread_of_the_program_is_somebody",
        "the emulator makes /proc/self/stat itself, with zeros",
    ),
];

/// Programs whose trace is verified, with their arguments.
const PROGRAMS: [(&str, &[&str]); 2] = [
    ("quickstart", &[]),
    ("index_builder", &["--threads", "2", "--documents", "400"]),
];

/// Runs all of it; each program and each build counts as one test. Where the compiler can't be had, that is a line in
/// the list of skips.
///
/// # Errors
///
/// If cargo cannot be started, or a file of ours cannot be written.
pub(crate) fn run(install: bool, skips: &Path) -> Result<Tally> {
    let mut tally = elsewhere(install, skips)?;
    // The tool verifies the traces of all programs.
    let sh = shell()?;
    run_command(once(build_tested(&sh)))?;
    tally.add(with_musl(install, skips)?);
    let what = format!("Rust {RUST}, and aarch64");
    if is_missing(skips, &what, add_old_compiler(install))? {
        return Ok(tally);
    }
    let old = old_compiler()?;
    let checked = run_command(once(cmd!(
        old,
        "cargo check --quiet --config {PLAIN_FORMATS} --package fdr --package fdr-macros --package fdr-marks
         --package fdr-formats --package fdr-tracing --package fdr-tower --package fdr-parking-lot"
    )));
    tally.count(&format!("Rust {RUST}"), checked);
    let installed = |name| {
        let found = on_path(name).map(drop);
        found.ok_or_else(|| format!("{name} is not installed"))
    };
    let needed = add_target(AARCH64, OLD, install)
        .and_then(|()| installed(LINKER))
        .and_then(|()| installed(EMULATOR));
    if is_missing(skips, "aarch64", needed)? {
        return Ok(tally);
    }
    for (name, why) in NOT_EMULATED {
        println!("not run on aarch64: {name}: {why}");
    }
    for suite in SUITES {
        let suite = suite.split(' ');
        let left_out = NOT_EMULATED.map(|(name, _)| ["--skip", name]);
        let left_out = left_out.as_flattened();
        let tests = cmd!(
            old,
            "cargo --config {PLAIN_FORMATS} {suite...} --target {AARCH64} -- {left_out...}"
        );
        tally.add(suites(once(tests), &mut std::io::stdout())?);
    }
    let examples = examples();
    let outcome = run_command(once(cmd!(
        old,
        "cargo build --quiet --config {PLAIN_FORMATS} --package fdr-examples --no-default-features
         --ignore-rust-version {examples...} --target {AARCH64}"
    )));
    for (program, arguments) in PROGRAMS {
        let outcome = outcome.clone().and_then(|()| {
            let program = built()?.join(AARCH64).join("debug/examples").join(program);
            let said = records(cmd!(sh, "{EMULATOR} {program} {arguments...}"))?;
            let is_right = said.contains(CLOCK).then_some(());
            is_right.ok_or_else(|| format!("its clock is not {CLOCK}: {said}"))
        });
        tally.count(&format!("{program} on aarch64"), outcome);
    }
    if !is_missing(
        skips,
        AARCH64_MUSL,
        add_target(AARCH64_MUSL, IN_USE, install),
    )? {
        tally.add(torture::built_for(AARCH64_MUSL, skips)?);
    }
    Ok(tally)
}

/// The folder of a compiler.
fn sysroot(toolchain: &[&str]) -> Result<PathBuf> {
    let sh = shell()?;
    let (sysroot, _) = output(cmd!(sh, "rustc {toolchain...} --print sysroot"))?;
    Ok(PathBuf::from(sysroot.trim()))
}

/// Has rustup do something, if `install`.
fn with_rustup(words: &[&str], install: bool) -> Result<()> {
    match install && on_path("rustup").is_some() {
        true => run_command(shell()?.cmd("rustup").args(words)),
        false => Err(format!("rustup {}", words.join(" "))),
    }
}

/// Has rustup bring the standard library of a target for a compiler, if it is not there and `install`.
pub(crate) fn add_target(target: &str, toolchain: &[&str], install: bool) -> Result<()> {
    let libraries = sysroot(toolchain)?.join(LIBRARIES);
    if libraries.join(target).exists() {
        return Ok(());
    }
    with_rustup(&[toolchain, &["target", "add", target]].concat(), install)
        .map_err(|why| format!("its standard library is missing: {why}"))
}

/// Has rustup bring the oldest compiler, if it is not there and `install`.
fn add_old_compiler(install: bool) -> Result<()> {
    match sysroot(OLD) {
        Ok(_) => Ok(()),
        Err(_) => with_rustup(
            &["toolchain", "install", RUST, "--profile", "minimal"],
            install,
        ),
    }
}

/// Checks the crates, and a program with each form of the attribute, for systems without a recorder.
fn elsewhere(install: bool, skips: &Path) -> Result<Tally> {
    let mut tally = Tally::default();
    let manifest = copy_of("portable", "main.rs")?;
    let sh = shell()?;
    sh.set_var("RUSTFLAGS", "-D warnings");
    sh.set_var(
        "CARGO_TARGET_DIR",
        work_folder("platforms")?.join("elsewhere"),
    );
    for target in ELSEWHERE {
        if is_missing(skips, target, add_target(target, IN_USE, install))? {
            continue;
        }
        let crates = cmd!(
            sh,
            "cargo check --quiet --target {target} --package fdr --package fdr-tracing --package fdr-tower --package fdr-parking-lot"
        );
        let program = cmd!(
            sh,
            "cargo check --quiet --target {target} --manifest-path {manifest}"
        );
        let checked = run_command(once(crates)).and_then(|()| run_command(once(program)));
        tally.count(&format!("a traced program for {target}"), checked);
    }
    if !is_missing(skips, BARE, add_target(BARE, IN_USE, install))? {
        let manifest = copy_of("no_std", "lib.rs")?;
        for features in [None, Some("--no-default-features")] {
            let library = cmd!(
                sh,
                "cargo check --quiet --target {BARE} --manifest-path {manifest} {features...}"
            );
            let features = features.unwrap_or("all features");
            let checked = run_command(once(library));
            tally.count(&format!("a traced library for {BARE}, {features}"), checked);
        }
    }
    Ok(tally)
}

/// The manifest of a copy of a package in `tests/programs`, whose lock file is not in the tree.
fn copy_of(name: &str, main: &str) -> Result<PathBuf> {
    let original = root().join("tests/programs").join(name);
    let copy = copy_manifest(&original, &work_folder("platforms")?.join(name))?;
    let main = Path::new("src").join(main);
    fs::copy(original.join(&main), copy.join(&main))
        .map_err(|error| format!("{}: {error}", copy.display()))?;
    Ok(copy.join("Cargo.toml"))
}

/// The recorder's tests, and programs, with musl as their C library, which is linked into them.
fn with_musl(install: bool, skips: &Path) -> Result<Tally> {
    let mut tally = Tally::default();
    let musl = &format!("{ARCH}-unknown-linux-musl");
    if is_missing(skips, "musl", add_target(musl, IN_USE, install))? {
        return Ok(tally);
    }
    let libraries = sysroot(IN_USE)?.join(LIBRARIES);
    let built = built()?;
    let sh = shell()?;
    let build = |words: &str, flags: &str| {
        let words = words.split(' ');
        let build = cmd!(
            sh,
            "cargo --config {PLAIN_FORMATS} {words...} --target {musl}"
        );
        once(build)
            .env("CARGO_TARGET_DIR", &built)
            .env("RUSTFLAGS", flags)
    };
    for suite in SUITES {
        tally.add(suites(build(suite, ""), &mut std::io::stdout())?);
    }
    tally.add(torture::built_for(musl, skips)?);
    // Where the compiler has LLVM's linker for C compilers.
    let host = format!("{ARCH}-unknown-linux-gnu/bin/gcc-ld");
    let lld = libraries.join(host);
    let lld = format!("-C link-arg=-B{} -C link-arg=-fuse-ld=lld", lld.display());
    for linker in ["", &lld] {
        for kind in MUSL_FLAGS {
            let flags = format!("{kind} {linker}");
            let words = "build --quiet --package fdr-examples --no-default-features";
            let outcome = run_command(build(words, &flags).args(examples()));
            for (program, arguments) in PROGRAMS {
                let path = built.join(musl).join("debug/examples").join(program);
                let outcome = outcome
                    .clone()
                    .and_then(|()| records(cmd!(sh, "{path} {arguments...}")).map(drop));
                tally.count(&format!("{program} with musl, {flags}"), outcome);
            }
        }
    }
    Ok(tally)
}

/// The target folder of what runs on other platforms.
fn built() -> Result<PathBuf> {
    Ok(work_folder("platforms")?.join("build"))
}

/// The options that have cargo build the programs.
fn examples() -> impl Iterator<Item = &'static str> {
    PROGRAMS
        .into_iter()
        .flat_map(|(program, _)| ["--example", program])
}

/// A shell whose cargo uses the old compiler.
fn old_compiler() -> Result<Shell> {
    let sh = shell()?;
    sh.set_var("RUSTC", sysroot(OLD)?.join("bin/rustc"));
    sh.set_var("CARGO_TARGET_DIR", built()?);
    for (name, value) in for_aarch64() {
        sh.set_var(name, value);
    }
    Ok(sh)
}

/// The variables with which cargo builds and runs programs for aarch64. They are static: with the dynamic C library this
/// emulator hangs in the first thread of any program.
fn for_aarch64() -> impl Iterator<Item = (String, &'static str)> {
    [AARCH64, AARCH64_MUSL].into_iter().flat_map(|target| {
        let target = target.to_uppercase().replace('-', "_");
        [
            ("LINKER", LINKER),
            ("RUNNER", EMULATOR),
            ("RUSTFLAGS", "-C target-feature=+crt-static"),
        ]
        .map(|(what, value)| (format!("CARGO_TARGET_{target}_{what}"), value))
    })
}

/// Has cargo's command build those programs for a target. Returns a folder that has each, or a script that runs it under
/// the emulator, if it is for another processor.
///
/// # Errors
///
/// If the target's standard library or linker can't be had, or a program can't be built.
pub(crate) fn build_for(
    target: &str,
    profile: &str,
    build: Cmd<'_>,
    programs: &[&str],
) -> Result<PathBuf> {
    add_target(target, IN_USE, true)?;
    let build = build
        .envs(for_aarch64())
        .env("CARGO_TARGET_DIR", built()?)
        .args(["--target", target]);
    run_command(build)?;
    let folder = built()?.join(target).join(profile);
    if target.starts_with(ARCH) {
        return Ok(folder);
    }
    let emulated = folder.join("emulated").join(profile);
    let error = |error: xshell::Error| error.to_string();
    let sh = shell()?;
    for name in programs {
        let program = folder.join(name);
        let text = format!(
            "#!/bin/sh\nexec {EMULATOR} '{}' \"$@\"\n",
            program.display()
        );
        let script = emulated.join(name);
        sh.write_file(&script, text).map_err(error)?;
        output(cmd!(sh, "chmod +x {script}"))?;
    }
    Ok(emulated)
}

/// Runs an example that records; its trace must be whole. Gives what `fdr info` says of it.
fn records(program: Cmd<'_>) -> Result<String> {
    let trace = work_folder("platforms")?.join("trace.fdr");
    output(program.env("FDR", "1").env("FDR_OUT", &trace))?;
    let (sh, tool) = (shell()?, target()?.join("debug/fdr"));
    let (verified, _) = output(cmd!(sh, "{tool} verify {trace}"))?;
    let (information, _) = output(cmd!(sh, "{tool} info {trace}"))?;
    fs::remove_file(&trace).map_err(|error| format!("{}: {error}", trace.display()))?;
    let is_whole = verified.contains(": OK: ").then_some(information);
    is_whole.ok_or_else(|| format!("not whole: {verified}"))
}

/// Whether that could not be had: then there is a line in the list of skips, in the words of the tests' own.
fn is_missing(skips: &Path, what: &str, had: Result<()>) -> Result<bool> {
    let Err(why) = had else { return Ok(false) };
    let line = format!("SKIPPED: {what}: {why}\n");
    let file = OpenOptions::new().append(true).create(true).open(skips);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|error| format!("cannot append to {}: {error}", skips.display()))?;
    Ok(true)
}
