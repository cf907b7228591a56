//! LLVM's XRay in FDR mode: clang compiles the C code with sleds, and XRay patches them at the start. Modes: `clock`
//! (XRay unchanged: if sysfs has no file with the counter's rate, it reads the slow clock) and `tsc` (the program runs
//! in a namespace where sysfs has that file; this needs root).

use std::env;
use std::ffi::{CStr, c_char};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use peer_harness::{
    Peer, RecordedSize, Result, bytes_below, folder, myself, native, with_environment,
};

native!(untraced, native_untraced_batch);
native!(traced, native_traced_batch);

unsafe extern "C" {
    fn __xray_log_select_mode(mode: *const c_char) -> i32;
    fn __xray_log_init_mode(mode: *const c_char, configuration: *const c_char) -> i32;
    fn __xray_patch() -> i32;
    fn __xray_log_finalize() -> i32;
    fn __xray_log_flushLog() -> i32;
}

const MODE: &CStr = c"xray-fdr";
/// Every call is to be kept (the default leaves out those below 5 µs), in buffers of 4 MiB together.
const CONFIGURATION: &CStr =
    c"buffer_size=16384:buffer_max=256:func_duration_threshold_us=0:grace_period_ms=0";

/// Values of LLVM's XRayLogInitStatus, XRayLogFlushStatus and XRayPatchingStatus.
const INITIALIZED: i32 = 2;
const FINALIZED: i32 = 4;
const FLUSHED: i32 = 2;
const PATCHED: i32 = 1;

/// Where XRay looks for the rate of the counter.
const RATE: &str = "/sys/devices/system/cpu/cpu0/tsc_freq_khz";

struct Xray;

impl Peer for Xray {
    fn finish(&self) -> Result<RecordedSize> {
        // SAFETY: no arguments; the mode was selected in `start`.
        let (finalized, flushed) = unsafe { (__xray_log_finalize(), __xray_log_flushLog()) };
        if (finalized, flushed) != (FINALIZED, FLUSHED) {
            return Err(format!("XRay does not write: {finalized}, {flushed}"));
        }
        Ok(RecordedSize {
            bytes: Some(bytes_below(&folder()?)?),
            calls: None,
        })
    }
}

fn start(mode: &str) -> Result<Xray> {
    match mode {
        "clock" => {}
        "tsc" => where_the_rate_is_told()?,
        _ => return Err(format!("unknown mode {mode}: clock or tsc")),
    }
    let base = folder()?.join("xray.");
    let options = format!("patch_premain=false xray_logfile_base={}", base.display());
    with_environment(&[("XRAY_OPTIONS", &options)])?;
    // SAFETY: all arguments are strings that end with a zero and live for ever.
    let status = unsafe {
        __xray_log_select_mode(MODE.as_ptr());
        __xray_log_init_mode(MODE.as_ptr(), CONFIGURATION.as_ptr())
    };
    if status != INITIALIZED {
        return Err(format!("XRay's FDR mode does not begin: {status}"));
    }
    // SAFETY: no arguments; no other thread runs instrumented code yet.
    let status = unsafe { __xray_patch() };
    if status != PATCHED {
        return Err(format!("XRay cannot patch: {status}"));
    }
    Ok(Xray)
}

/// Starts this program again in a mount namespace of its own. There a tmpfs covers the first core's folder in
/// sysfs, and has the file that XRay looks for.
fn where_the_rate_is_told() -> Result<()> {
    if Path::new(RATE).exists() {
        return Ok(());
    }
    let script = format!(
        "mount -t tmpfs none \"$(dirname {RATE})\" && echo {} > {RATE} && exec \"$0\" \"$@\"",
        khz()?
    );
    let myself = myself()?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--", "sh", "-c", &script]);
    unshare.arg(myself.get_program()).args(myself.get_args());
    Err(format!("cannot run unshare: {}", unshare.exec()))
}

/// About the counter's rate: the kernel's figure for the first core. XRay's costs do not depend on the rate.
fn khz() -> Result<u64> {
    let text = fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
    let mhz = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu MHz")?.split_once(": "))
        .and_then(|(_, mhz)| mhz.parse::<f64>().ok());
    Ok((mhz.ok_or("no rate in /proc/cpuinfo")? * 1e3) as u64)
}

fn main() -> ExitCode {
    if env::consts::ARCH != "x86_64" {
        eprintln!("the runtime is linked for x86-64");
        return ExitCode::FAILURE;
    }
    peer_harness::main([untraced::batch, traced::batch], start)
}
