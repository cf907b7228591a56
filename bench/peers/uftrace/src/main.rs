//! uftrace: C that gcc has compiled with `-pg`, run by `uftrace record`, whose process takes the records from
//! shared memory and writes them. Mode: `on`. The program starts itself below uftrace, and tells afterwards
//! how much lies in the folder.

use std::env;
use std::os::unix::process::parent_id;
use std::process::{Command, ExitCode};

use peer_harness::{Peer, Result, bytes_below, folder, myself, native, sys};

native!(untraced, native_untraced_batch);
native!(traced, native_traced_batch);

/// Set for the program that uftrace runs.
const BELOW: &str = "PEER_BELOW_UFTRACE";

struct Uftrace;

impl Peer for Uftrace {
    fn helpers_cpu_ns(&self) -> Result<u64> {
        sys::cpu_ns_of(parent_id())
    }
}

fn start(mode: &str) -> Result<Uftrace> {
    match mode {
        "on" => Ok(Uftrace),
        _ => Err(format!("unknown mode {mode}: on")),
    }
}

/// Runs this program below uftrace.
fn recorded() -> Result<()> {
    let data = folder()?.join("data");
    let myself = myself()?;
    let mut uftrace = Command::new("uftrace");
    uftrace.args(["record", "--no-libcall", "-d"]).arg(&data);
    uftrace.arg(myself.get_program()).args(myself.get_args());
    let status = uftrace.env(BELOW, "1").status();
    let status = status.map_err(|error| format!("cannot run uftrace: {error}"))?;
    if !status.success() {
        return Err(format!("uftrace: {status}"));
    }
    // After the last line of the program itself, and part of it.
    println!("bytes={}", bytes_below(&data)?);
    Ok(())
}

fn main() -> ExitCode {
    if env::var_os(BELOW).is_some() {
        return peer_harness::main([untraced::batch, traced::batch], start);
    }
    match recorded() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
