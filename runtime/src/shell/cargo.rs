//! What cargo does with this process. It says so in the environment.

use core::ffi::CStr;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::sys::process::variable;

fn has(name: &CStr) -> bool {
    variable(name).is_some()
}

/// Whether cargo has this process build or check a program: it is the compiler with a traced procedural macro, a build
/// script, or an example of the documentation. `FDR=1 cargo run` is about the program alone.
pub(super) fn is_part_of_a_build() -> bool {
    let program = std::env::current_exe().unwrap_or_default();
    let name = program.file_name().and_then(OsStr::to_str);
    match name.unwrap_or_default() {
        "rustc" | "rustdoc" | "clippy-driver" => has(c"CARGO"),
        "rust_out" => {
            let folder = program.parent().and_then(Path::file_name);
            let folder = folder.and_then(OsStr::to_str).unwrap_or_default();
            folder.starts_with("rustdoctest")
        }
        // Cargo sets these for a build script only.
        _ => [c"OUT_DIR", c"NUM_JOBS", c"HOST", c"TARGET", c"RUSTC"]
            .into_iter()
            .all(has),
    }
}

/// The folder for traces, if a trace in the folder `start` could make cargo build the program anew. That is so where cargo
/// runs the program of a package with a build script, in the folder of the package. A script that does not say which
/// files it reads is run again for each new file of the package. `get` gives the variables of the environment.
pub(super) fn folder_for_traces(
    get: &dyn Fn(&str) -> Option<OsString>,
    start: &Path,
) -> Option<PathBuf> {
    let package = get("CARGO_MANIFEST_DIR")?;
    // Cargo sets it for programs of such packages.
    get("OUT_DIR")?;
    let below = start.as_os_str().as_bytes();
    let below = below.strip_prefix(package.as_bytes())?;
    if below.first().is_some_and(|&byte| byte != b'/') {
        return None;
    }
    let mut folder = std::env::current_exe().ok()?;
    // Cargo marks its target folder so.
    while folder.pop() {
        if folder.join("CACHEDIR.TAG").exists() {
            folder.push("fdr");
            return Some(folder);
        }
    }
    None
}
