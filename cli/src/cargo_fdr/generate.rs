//! `cargo fdr generate`, hidden: completions for shells and man pages of `cargo fdr`, for `cargo xtask dist`.

use std::path::PathBuf;

use clap::{Command, ValueHint};
use clap_complete::Shell;

use crate::completions;

/// Write completions for bash, zsh and fish, and man pages
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder to write to; it is made
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

/// Bash knows one function for all words behind `cargo`.
const BASH: &str = r#"
# cargo fdr: the words behind it are those of cargo-fdr. All others go to cargo's own completions.
_cargo_with_fdr() {
    if [[ ${COMP_WORDS[1]} == fdr && ${COMP_CWORD} -gt 1 ]]; then
        COMP_WORDS=(cargo-fdr "${COMP_WORDS[@]:2}")
        COMP_CWORD=$((COMP_CWORD - 1))
        _cargo_fdr cargo-fdr "$2" "$3"
    elif declare -F _cargo > /dev/null; then
        _cargo "$@"
    elif [[ ${COMP_CWORD} -eq 1 ]]; then
        COMPREPLY=($(compgen -W "fdr $(cargo --list | awk 'NR > 1 { print $1 }')" -- "$2"))
    fi
}
complete -F _cargo_with_fdr -o bashdefault -o default cargo
"#;

/// Fish asks all that is known of `cargo`.
const FISH: &str = r#"
# cargo fdr: the words behind it are those of cargo-fdr.
function __fish_cargo_fdr_words
    set -l words (commandline -opc) (commandline -ct)
    complete -C "cargo-fdr $(string join ' ' -- $words[3..])"
end
complete -c cargo -n '__fish_seen_subcommand_from fdr' -f -a '(__fish_cargo_fdr_words)'
"#;

/// Writes it all, for that command line.
///
/// # Errors
/// Where a file cannot be written.
pub(crate) fn run(options: &Options, tool: &Command) -> anyhow::Result<()> {
    // Zsh's completions of cargo call the function of that name by themselves.
    let more = |shell| match shell {
        Shell::Bash => BASH,
        Shell::Fish => FISH,
        _ => "",
    };
    completions::write(tool, "cargo-fdr", more, &options.folder)
}
