//! `cargo xtask deny`: `cargo deny` holds the licences and the sources of our dependencies against `deny.toml`. It is
//! installed if it is not there. It does not check for known vulnerabilities, because their list comes from the
//! network.

use std::collections::BTreeSet;

use crate::test::Tally;
use xshell::cmd;
use xtask::Result;
use xtask::process::{run as run_command, shell};
use xtask::readers;

/// Checks the workspaces whose programs or crates others use.
///
/// # Errors
///
/// If the log of an installation can't be written, or a check fails.
pub(crate) fn run() -> Result<()> {
    let mut tally = Tally::default();
    count(&mut tally, "deny", "Cargo.toml")?;
    count(&mut tally, "fleet: deny", "fleet/Cargo.toml")?;
    tally.close()
}

/// Adds the check of a workspace to the tally. If `cargo deny` can't be installed, a line says so, and CI fails.
///
/// # Errors
///
/// If the log of an installation can't be written.
pub(crate) fn count(tally: &mut Tally, name: &str, manifest: &str) -> Result<()> {
    if !readers::provide("cargo-deny")? {
        let skipped = format!("SKIPPED: {name}: cargo-deny is not installed");
        tally.print_skips(&BTreeSet::from([skipped]), None);
        return Ok(());
    }
    let sh = shell()?;
    let deny = cmd!(
        sh,
        "cargo-deny --locked --workspace --manifest-path {manifest} --config deny.toml check licenses sources bans"
    );
    tally.count(name, run_command(deny));
    Ok(())
}
