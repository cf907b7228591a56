//! Completions for bash, zsh and fish, and man pages, made of a command line. The programs `fdr` and `cargo-fdr` both
//! have this file. Must never offer what the help hides.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_complete::{Generator, Shell, generate};

/// Writes `completions/` and `man/` below a folder. `more` is what a shell's file has behind its completions.
///
/// # Errors
/// Where a file cannot be written.
pub(crate) fn write(
    tool: &Command,
    name: &'static str,
    more: impl Fn(Shell) -> &'static str,
    folder: &Path,
) -> anyhow::Result<()> {
    let tool = without_hidden(tool, name);
    // Completions add a command `help`, and one below it for each other.
    let pages = tool.clone().disable_help_subcommand(true);
    let (completions, man) = (folder.join("completions"), folder.join("man"));
    make(&completions)?;
    // In bash's functions, a name with a `-` is written in two different ways.
    let plain = name.replace('-', "_");
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let of = if shell == Shell::Bash { &plain } else { name };
        let mut text = Vec::new();
        generate(shell, &mut tool.clone(), of, &mut text);
        let mut text = String::from_utf8_lossy(&text).into_owned();
        for (command, nth, words) in words_of_arguments(&tool) {
            text += &match shell {
                Shell::Bash => bash_words(&plain, name, &command, nth, &words),
                Shell::Fish => fish_words(name, &command, nth, &words),
                _ => String::new(),
            };
        }
        if shell == Shell::Bash {
            let of_program = format!(" {name}\n");
            text = files_first(&text, &plain).replace(&format!(" {plain}\n"), &of_program);
        }
        text += more(shell);
        let file = completions.join(shell.file_name(name));
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    make(&man)?;
    clap_mangen::generate_to(pages, &man).with_context(|| man.display().to_string())?;
    for page in fs::read_dir(&man)? {
        let page = page?.path();
        let named = || page.display().to_string();
        let text = fs::read_to_string(&page).with_context(named)?;
        fs::write(&page, as_it_stands(&text)).with_context(named)?;
    }
    Ok(())
}

/// A man page with the text below the options in its own lines. Without the change its tables are filled like prose.
fn as_it_stands(page: &str) -> String {
    let Some((before, text)) = page.split_once("\n.SH EXTRA\n") else {
        return page.to_owned();
    };
    let (text, rest) = match text.split_once("\n.SH ") {
        Some((text, rest)) => (text, format!("\n.SH {rest}")),
        None => (text.trim_end(), "\n".to_owned()),
    };
    // Lines have up to 80 columns, so there is no margin.
    format!("{before}\n.SH NOTES\n.nf\n.in 0\n{text}\n.in\n.fi{rest}")
}

/// The words that commands take as arguments: command, place of the argument among its words, from 1, and the words.
fn words_of_arguments(tool: &Command) -> Vec<(String, usize, String)> {
    let mut all = Vec::new();
    for command in tool.get_subcommands() {
        for (nth, argument) in command.get_positionals().enumerate() {
            let words = argument.get_possible_values();
            let words: Vec<&str> = words.iter().map(|word| word.get_name()).collect();
            if !words.is_empty() {
                all.push((command.get_name().to_owned(), nth + 1, words.join(" ")));
            }
        }
    }
    all
}

/// Bash offers the words if no option stands before them.
fn bash_words(plain: &str, name: &str, command: &str, nth: usize, words: &str) -> String {
    format!(
        r#"
_{plain}_{command}() {{
    _{plain} "$@"
    if [[ ${{COMP_WORDS[1]}} == {command} && ${{COMP_CWORD}} -eq {place} ]]; then
        COMPREPLY=( $(compgen -W "{words}" -- "${{COMP_WORDS[COMP_CWORD]}}") )
    fi
}}
complete -F _{plain}_{command} -o bashdefault -o default {name}
"#,
        place = nth + 1,
    )
}

/// The same of fish.
fn fish_words(name: &str, command: &str, nth: usize, words: &str) -> String {
    let place = nth + 1;
    format!(
        "complete -c {name} -n '__fish_seen_subcommand_from {command}; and test (count (commandline -opc)) -eq {place}' \
         -f -a '{words}'\n"
    )
}

/// The command line without its hidden commands. Completions would offer these, too.
fn without_hidden(tool: &Command, name: &'static str) -> Command {
    let shown = tool
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let mut rest = Command::new(name).args(tool.get_arguments());
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

/// Changes bash's completions: the first word after a command is a file unless it begins with `-`. Without the change
/// only options are offered there. `cases` is the beginning of the names of commands in the text.
fn files_first(text: &str, cases: &str) -> String {
    let all = r#"COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )"#;
    let command = format!("{cases}__");
    // Whether the lines are of a command that takes files, and whether they are behind the values of options.
    let (mut is_file, mut is_behind) = (false, false);
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        if line.ends_with(')') && line.trim_start().starts_with(&command) {
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
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}
