//! What a package of the tool holds: the programs, completions for bash, zsh and fish, and man pages, below the target
//! folder.

use std::fs;

use xshell::cmd;
use xtask::Result;
use xtask::process::{run, shell, target};

/// Builds the tool and writes all that.
///
/// # Errors
/// Where it can't be built, or a file not be written.
pub(crate) fn run_all() -> Result<()> {
    let sh = shell()?;
    run(cmd!(sh, "cargo build --quiet --release --package fdr-cli"))?;
    let dist = target()?.join("dist");
    let named = |error: std::io::Error| format!("{}: {error}", dist.display());
    // What an earlier version had, and this one has not, is not left behind.
    match fs::remove_dir_all(&dist) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(named(error)),
        _ => {}
    }
    let bin = dist.join("bin");
    fs::create_dir_all(&bin).map_err(named)?;
    for name in ["fdr", "cargo-fdr"] {
        let tool = bin.join(name);
        fs::copy(target()?.join("release").join(name), &tool).map_err(named)?;
        run(cmd!(sh, "{tool} generate {dist}"))?;
    }
    println!(
        "{}: bin/fdr, bin/cargo-fdr, completions/, man/",
        dist.display()
    );
    Ok(())
}
