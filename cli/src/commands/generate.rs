//! `fdr generate`, hidden: what a package of the tool has beside it, completions for shells and man pages,
//! made of the command line itself. For `cargo xtask dist`. Must never be needed to use the tool.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Command, ValueHint};
use clap_complete::{Shell, generate_to};

use super::Status;
use crate::ui;

/// Write completions for bash, zsh and fish, and man pages
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder to write to; it is made
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

/// Runs the command, for that command line.
pub(crate) fn run(options: &Options, mut tool: Command) -> anyhow::Result<Status> {
    // Completions add a command `help`, and one below it for each other.
    let pages = tool.clone().disable_help_subcommand(true);
    let (completions, man) = (
        options.folder.join("completions"),
        options.folder.join("man"),
    );
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        make(&completions)?;
        generate_to(shell, &mut tool, "fdr", &completions)
            .with_context(|| ui::path(&completions))?;
    }
    make(&man)?;
    clap_mangen::generate_to(pages, &man).with_context(|| ui::path(&man))?;
    Ok(Status::Done)
}

fn make(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| ui::path(folder))
}
