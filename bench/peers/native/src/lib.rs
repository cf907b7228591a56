//! Compiles `work.c` for a build script: once without and once with the recorder's flags. Both go into one library,
//! which is linked to the peer's program. Both must be compiled with the same optimisation.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/work.c");

/// Functions start at a cache line, as the harness's do: where they happen to lie must decide nothing.
const BOTH: [&str; 4] = ["-O2", "-g1", "-fPIC", "-falign-functions=64"];

/// Compiles the untraced twin and the traced one, the latter with `flags`.
///
/// # Panics
///
/// If that fails: a build script ends so.
pub fn compile(compiler: &str, flags: &[&str]) {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names OUT_DIR"));
    let objects = ["untraced", "traced"].map(|twin| out.join(format!("{twin}.o")));
    object(compiler, "untraced", &[], &objects[0]);
    object(compiler, "traced", flags, &objects[1]);
    let mut archive = Command::new("ar");
    archive.arg("crs").arg(out.join("libnative.a"));
    run(archive.args(&objects));
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=native");
}

fn object(compiler: &str, twin: &str, flags: &[&str], object: &Path) {
    let mut compile = Command::new(compiler);
    compile.args(BOTH).args(flags).arg(format!("-DTWIN={twin}"));
    run(compile.args(["-c", SOURCE, "-o"]).arg(object));
}

fn run(command: &mut Command) {
    let status = command.status();
    let status = status.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
