//! Completions and man pages, made of the command line: what shells offer, and what pages have.

use std::process::Command;

use crate::common::{Folder, answer, assert_contains, assert_lacks, stdout};
use crate::terminal::commands;

fn bash(script: &str) -> String {
    let output = Command::new("bash").args(["-c", script]).output();
    stdout(&output.expect("bash is there")).trim().to_owned()
}

#[test]
fn completions_and_man_pages_follow_the_options() {
    let folder = Folder::new("generate");
    let out = folder.file("out");
    answer(&["generate", &out]);
    let read = |name: &str| std::fs::read_to_string(format!("{out}/{name}")).expect(name);
    for shell in ["fdr.bash", "_fdr", "fdr.fish"] {
        let text = read(&format!("completions/{shell}"));
        for word in ["report", "rings", "since", "tcstate"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
        assert!(
            !text.contains("generate"),
            "{shell} offers a hidden command"
        );
    }
    // What a shell is offered where the next word is a trace, and where it is an option.
    let offered = |word: &str| {
        let script = format!(
            "source {out}/completions/fdr.bash; COMP_WORDS=(fdr report '{word}'); COMP_CWORD=2; \
             _fdr fdr '{word}' report; echo \"${{COMPREPLY[*]}}\""
        );
        bash(&script)
    };
    assert_eq!(offered(""), "", "else bash offers no files");
    assert_eq!(offered("--per"), "--per-thread");
    let of_ctl = |words: &str, place: u32| {
        let script = format!(
            "source {out}/completions/fdr.bash; complete -p fdr; COMP_WORDS=(fdr ctl {words}); COMP_CWORD={place}; \
             _fdr fdr; echo \"${{COMPREPLY[*]}}\""
        );
        bash(&script)
    };
    assert!(of_ctl("7 ''", 3).ends_with("\non off filter keep trigger mark dump status -"));
    assert!(of_ctl("7 ma", 3).ends_with("\nmark"));
    assert!(of_ctl("7 ma", 3).starts_with("complete "));
    assert_contains(of_ctl("7 ma", 3), " _fdr ");
    assert!(
        of_ctl("ma", 2).ends_with("\nmark"),
        "the process may be left out"
    );
    // The values of an option, and nothing but files behind a flag.
    let third = |words: &str| {
        let script = format!(
            "source {out}/completions/fdr.bash; COMP_WORDS=(fdr report {words} ''); COMP_CWORD=3; \
             _fdr fdr '' {words}; echo \"${{COMPREPLY[*]}}\""
        );
        bash(&script)
    };
    assert_eq!(third("--color"), "auto always never");
    assert_eq!(third("--json"), "");
    let fish = read("completions/fdr.fish");
    assert_contains(
        &fish,
        "-f -a 'on off filter keep trigger mark dump status -'",
    );
    for command in commands() {
        let page = read(&format!("man/fdr-{command}.1"));
        assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
        // The text below the options is not filled.
        let notes = page
            .split_once("\n.SH NOTES\n.nf\n.in 0\n")
            .expect("notes")
            .1;
        assert!(notes.contains("\n.in\n.fi\n"), "{page}");
    }
    assert_contains(read("man/fdr.1"), "max\\-memory");
    assert_lacks(answer(&["--help"]), "generate");
}

#[test]
fn completions_of_cargo_fdr_leave_cargos_own_alone() {
    let folder = Folder::new("generate-cargo");
    let out = folder.file("out");
    let made = Command::new(env!("CARGO_BIN_EXE_cargo-fdr"))
        .args(["generate", &out])
        .status();
    assert!(made.expect("it runs").success());
    // What bash offers for the last of these words, where cargo's own function offers `of-cargo`.
    let offered = |words: &[&str]| {
        let (last, before) = words.split_last().expect("words");
        let script = format!(
            "_cargo() {{ COMPREPLY=(of-cargo); }}; source {out}/completions/cargo-fdr.bash; \
             COMP_WORDS=({}); COMP_CWORD={}; _cargo_with_fdr cargo '{last}' '{}'; echo \"${{COMPREPLY[*]}}\"",
            words
                .iter()
                .map(|word| format!("'{word}' "))
                .collect::<String>(),
            words.len() - 1,
            before.last().expect("cargo"),
        );
        bash(&script)
    };
    assert_eq!(offered(&["cargo", "bu"]), "of-cargo");
    assert_eq!(offered(&["cargo", "build", "--re"]), "of-cargo");
    assert_eq!(offered(&["cargo", "fdr", "inst"]), "instrument");
    assert_eq!(offered(&["cargo", "fdr", "gen"]), "", "it is hidden");
    assert_eq!(
        offered(&["cargo", "fdr", "instrument", "--same"]),
        "--same-line"
    );
    assert_eq!(
        offered(&["cargo", "fdr", "instrument", ""]),
        "",
        "else bash offers no files"
    );
    for page in ["cargo-fdr.1", "cargo-fdr-instrument.1"] {
        let text = std::fs::read_to_string(format!("{out}/man/{page}")).expect(page);
        assert_contains(&text, ".TH");
    }
}
