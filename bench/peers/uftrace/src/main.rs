//! uftrace: C that gcc has compiled with `-pg`, run by `uftrace record`, whose process takes the records from
//! shared memory and writes them. Mode: `on`. The program starts itself below uftrace, and then prints how
//! many bytes are in the folder.

use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::{Command, ExitCode};

use peer_harness::{Peer, Result, bytes_below, main_below, native, run, sys};

native!(untraced, native_untraced_batch);
native!(traced, native_traced_batch);

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

/// Runs the program below uftrace.
fn record(folder: &Path, program: Command) -> Result<String> {
    let data = folder.join("data");
    let mut uftrace = Command::new("uftrace");
    uftrace.args(["record", "--no-libcall", "-d"]).arg(&data);
    uftrace.arg(program.get_program()).args(program.get_args());
    let variables = program.get_envs();
    uftrace.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    run(&mut uftrace)?;
    Ok(format!("bytes={}\n", bytes_below(&data)?))
}

fn main() -> ExitCode {
    main_below([untraced::batch, traced::batch], record, start)
}
