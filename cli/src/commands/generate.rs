//! `fdr generate`, hidden: what a package of the tool has beside it, completions for shells and man pages,
//! made of the command line itself. For `cargo xtask dist`. Must never be needed to use the tool.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Command, ValueHint};
use clap_complete::{Generator, Shell, generate};

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
pub(crate) fn run(options: &Options, tool: Command) -> anyhow::Result<Status> {
    let mut tool = without_hidden(&tool);
    // Completions add a command `help`, and one below it for each other.
    let pages = tool.clone().disable_help_subcommand(true);
    let (completions, man) = (
        options.folder.join("completions"),
        options.folder.join("man"),
    );
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        make(&completions)?;
        let mut text = Vec::new();
        generate(shell, &mut tool, "fdr", &mut text);
        let text = match shell {
            Shell::Bash => files_first(&String::from_utf8_lossy(&text)).into_bytes(),
            _ => text,
        };
        let file = completions.join(shell.file_name("fdr"));
        fs::write(&file, text).with_context(|| ui::path(&file))?;
    }
    make(&man)?;
    clap_mangen::generate_to(pages, &man).with_context(|| ui::path(&man))?;
    Ok(Status::Done)
}

/// The command line without what its help does not list. Completions would offer that, too.
fn without_hidden(tool: &Command) -> Command {
    let shown = tool
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let mut rest = Command::new("fdr").args(tool.get_arguments());
    if tool.get_version().is_some() {
        rest = rest.version(env!("CARGO_PKG_VERSION"));
    }
    if let Some(about) = tool.get_about() {
        rest = rest.about(about.clone());
    }
    if let Some(more) = tool.get_after_help() {
        rest = rest.after_help(more.clone());
    }
    rest.subcommands(shown)
}

/// Bash's completions, where the first word after a command is a file unless it begins with `-`. As they are made,
/// options alone are offered there.
fn files_first(text: &str) -> String {
    let all = r#"COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )"#;
    // Of which command the lines are, and whether they are behind the values of options.
    let (mut is_file, mut is_behind) = (false, false);
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        if line.ends_with(')') && line.trim_start().starts_with("fdr__") {
            (is_file, is_behind) = (!line.contains("__help"), false);
        }
        is_behind |= line.trim() == "esac";
        let line = match (is_file, is_behind) {
            (true, true) => line.replace(all, "COMPREPLY=()"),
            (true, false) => line.replace(" || ${COMP_CWORD} -eq 2 ", " "),
            (false, _) => line.to_owned(),
        };
        lines += &line;
        lines.push('\n');
    }
    lines
}

fn make(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| ui::path(folder))
}
