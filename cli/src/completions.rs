//! Completions for bash, zsh and fish, and man pages, made of a command line. The programs `fdr` and `cargo-fdr` both
//! have this file. What `clap_complete` and `clap_mangen` make stays as it is. What they lack stands behind it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap::builder::Resettable;
use clap_complete::{Generator, Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

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
    let (completions, man) = (folder.join("completions"), folder.join("man"));
    make(&completions)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let words = words_of_arguments(&tool);
        let mut text = Vec::new();
        if shell == Shell::Bash {
            let options = bash_options(name);
            generate(shell, &mut tool.clone(), options, &mut text);
            text.extend(bash_words(&tool, name, &words).bytes());
        } else {
            generate(shell, &mut tool.clone(), name, &mut text);
        }
        if shell == Shell::Fish {
            text.extend(fish_words(name, &words).bytes());
        }
        text.extend(more(shell).bytes());
        let file = completions.join(shell.file_name(name));
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    make(&man)?;
    // Completions add a command `help`, and one below it for each other.
    let mut pages = tool.disable_help_subcommand(true);
    pages.build();
    page(&pages, &man).with_context(|| man.display().to_string())
}

/// Writes the man page of a command, and those of its own commands. The text below the options keeps its lines, which
/// have up to 80 columns. Filled like prose, its tables could not be read.
fn page(command: &Command, folder: &Path) -> std::io::Result<()> {
    for command in command.get_subcommands() {
        page(command, folder)?;
    }
    let man = Man::new(command.clone().after_help(Resettable::Reset));
    let mut text = Vec::new();
    man.render(&mut text)?;
    if let Some(notes) = command.get_after_help() {
        let mut roff = Roff::new();
        roff.control("SH", ["NOTES"]);
        roff.control("nf", []);
        roff.control("in", ["0"]);
        roff.text([roman(notes.to_string())]);
        roff.control("in", []);
        roff.control("fi", []);
        roff.to_writer(&mut text)?;
    }
    fs::write(folder.join(man.get_filename()), text)
}

/// Words that a command takes as an argument.
struct Words {
    command: String,
    /// The place of the argument, from 1.
    place: usize,
    words: String,
}

fn words_of_arguments(tool: &Command) -> Vec<Words> {
    let mut all = Vec::new();
    for command in tool.get_subcommands() {
        for (nth, argument) in command.get_positionals().enumerate() {
            let words = argument.get_possible_values();
            let words: Vec<&str> = words.iter().map(|word| word.get_name()).collect();
            if !words.is_empty() {
                all.push(Words {
                    command: command.get_name().to_owned(),
                    place: nth + 1,
                    words: words.join(" "),
                });
            }
        }
    }
    all
}

/// In bash, `clap_complete`'s function for a program. A name with a `-` would be written in two different ways.
fn bash_options(name: &str) -> String {
    format!("{}_options", name.replace('-', "_"))
}

/// Bash's own function calls `clap_complete`'s. Behind a command, it offers options only once their `-` is typed.
/// Otherwise it offers the values of the option before, or the words that stand for the argument. If there are none,
/// bash offers files.
fn bash_words(tool: &Command, name: &str, all: &[Words]) -> String {
    let (plain, options) = (name.replace('-', "_"), bash_options(name));
    let mut cases = String::new();
    for Words {
        command,
        place,
        words,
    } in all
    {
        cases += &format!("        {command},{place}) words='{words}' ;;\n");
    }
    let commands: Vec<&str> = tool.get_subcommands().map(Command::get_name).collect();
    let commands = commands.join(" | ");
    format!(
        r#"
_{plain}() {{
    _{options} "$@"
    local word="${{COMP_WORDS[COMP_CWORD]}}" words='' at other
    for (( at = 1; at < COMP_CWORD; at++ )); do
        case "${{COMP_WORDS[at]}}" in
            {commands}) break ;;
        esac
    done
    if [[ ${{at}} -ge ${{COMP_CWORD}} || ${{word}} == -* ]]; then
        return
    fi
    case "${{COMP_WORDS[at]}},$(( COMP_CWORD - at ))" in
{cases}    esac
    local offered=("${{COMPREPLY[@]}}")
    COMPREPLY=( $(compgen -W "${{words}}" -- "${{word}}") )
    if [[ ${{COMP_WORDS[COMP_CWORD - 1]}} == -* ]]; then
        for other in "${{offered[@]}}"; do
            case "${{other}}" in
                -* | '<'* | '['*) ;;
                *) COMPREPLY+=("${{other}}") ;;
            esac
        done
    fi
}}
complete -F _{plain} -o bashdefault -o default {name}
"#
    )
}

/// Fish offers the words if no option stands before them.
fn fish_words(name: &str, all: &[Words]) -> String {
    let mut lines = String::new();
    for Words {
        command,
        place,
        words,
    } in all
    {
        lines += &format!(
            "complete -c {name} -n '__fish_seen_subcommand_from {command}; and test (count (commandline -opc)) -eq {}' -f -a '{words}'\n",
            place + 1,
        );
    }
    lines
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

fn make(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}
