//! `fdr generate`, a hidden command for `cargo xtask dist`: it makes completions for shells and man pages from the
//! command line's own description.

use std::path::PathBuf;

use clap::ValueHint;

use super::Status;
use crate::completions;

/// Write completions for bash, zsh and fish, and man pages
#[derive(clap::Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// The folder to write to; it is made
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    completions::write(&crate::command_line(), "fdr", |_| "", &options.folder)?;
    Ok(Status::Done)
}
