//! `fdr generate`, a hidden command for `cargo xtask dist`: it makes completions for shells and man pages from the
//! command line's own description. Must never be needed to use the tool.

use std::path::PathBuf;

use clap::{Command, ValueHint};

use super::Status;
use crate::completions;

/// Write completions for bash, zsh and fish, and man pages
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder to write to; it is made
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

/// Runs the command, for that command line.
pub(crate) fn run(options: &Options, tool: &Command) -> anyhow::Result<Status> {
    completions::write(tool, "fdr", |_| "", &options.folder)?;
    Ok(Status::Done)
}
