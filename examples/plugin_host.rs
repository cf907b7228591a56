//! A program that loads a plug-in with dlopen while it runs. Host and plug-in are both traced, and
//! the plug-in's functions get their ids when it is loaded.
//!
//! ```text
//! cargo build --release -p fdr-examples --examples
//! FDR=1 target/release/examples/plugin_host [PATH OF THE PLUG-IN]
//! ```
#![allow(unsafe_code)]

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

use fdr::traced;
use libloading::{Library, Symbol};

type DigitalRoot = extern "C" fn(u64) -> u64;

/// The first argument, or the library that cargo built beside this program.
fn plugin_path() -> Result<PathBuf, Box<dyn Error>> {
    let beside = || -> Result<OsString, Box<dyn Error>> {
        let name = libloading::library_filename("plugin");
        Ok(env::current_exe()?.with_file_name(name).into_os_string())
    };
    Ok(PathBuf::from(
        env::args_os().nth(1).map_or_else(beside, Ok)?,
    ))
}

#[traced]
fn load(path: &PathBuf) -> Result<Library, libloading::Error> {
    // SAFETY: the library is ours: it has no initialisers beyond the recorder's own.
    unsafe { Library::new(path) }
}

#[traced]
fn sum_of_roots(root: &Symbol<'_, DigitalRoot>, upto: u64) -> u64 {
    (1..=upto).map(|number| root(number * 7_919)).sum()
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = plugin_path()?;
    let plugin =
        load(&path).map_err(|error| format!("cannot load the plug-in {path:?}: {error}"))?;
    // SAFETY: plugin.rs defines the function with exactly this signature, and `plugin` outlives it.
    let root: Symbol<'_, DigitalRoot> = unsafe { plugin.get(b"plugin_digital_root\0")? };
    println!("sum of digital roots: {}", sum_of_roots(&root, 10_000));
    Ok(())
}
