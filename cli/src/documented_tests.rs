//! Each `fdr …` in the documentation is a command line that the tool takes: in the pages, in the help, in the README.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::{EXIT_CODES, command_line, list};

/// What a word in capitals stands for.
const PLACEHOLDERS: [(&str, &str); 12] = [
    ("TRACE", "app.fdr"),
    ("BEFORE", "before.fdr"),
    ("AFTER", "after.fdr"),
    ("RING", "app.1.5f0c9a.fdr-ring"),
    ("FOLDER", "traces/"),
    ("FILE", "app.fdr"),
    ("PID", "1234"),
    ("FUNCTION", "app::handle"),
    ("FORMAT", "heph"),
    ("TIME", "+1s"),
    ("ADDR", "tcp://127.0.0.1:7000"),
    ("N", "3"),
];

/// The pages of a folder and of those below it.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        let is_source = !["target", "node_modules", ".git"].contains(&name.as_ref());
        if path.is_dir() && is_source {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The commands of a page: in spans of code, and in lines of blocks of code.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
            continue;
        }
        if is_block {
            let line = line.trim_start().trim_start_matches("$ ");
            found.push(line.split(" #").next().unwrap_or(line));
        } else {
            // The text between each second pair of backquotes is code.
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    // Lines of a manifest are none.
    let is_command = |text: &&str| text.starts_with("fdr ") && !text.starts_with("fdr =");
    found
        .into_iter()
        .filter(is_command)
        .map(str::to_owned)
        .collect()
}

/// The commands of the help: behind two spaces, and followed by two or by the end of the line.
fn examples() -> Vec<String> {
    let lines = EXIT_CODES.lines().filter(|line| line.starts_with("  fdr "));
    lines
        .map(|line| line.trim_start().split("  ").next().unwrap_or(line))
        .map(str::to_owned)
        .collect()
}

/// The words of the command, up to a pipe.
fn words(command: &str) -> Vec<OsString> {
    let words = shlex::split(command).unwrap_or_else(|| panic!("quotes: {command}"));
    let ends = |word: &String| ["|", ">", "&&", "&", ";", "…"].contains(&word.as_str());
    let words = words.into_iter().take_while(|word| !ends(word));
    words
        .map(|word| {
            let name = word.trim_matches(['[', ']']).trim_end_matches('…');
            let known = PLACEHOLDERS
                .iter()
                .find(|(placeholder, _)| *placeholder == name);
            known.map_or(word.clone(), |(_, value)| (*value).to_owned())
        })
        .map(OsString::from)
        .collect()
}

/// Whoever has the tool alone has no file of the repository.
#[test]
fn no_message_names_a_page_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for room in [
        "cli/src",
        "runtime/src",
        "formats/src",
        "tracing/src",
        "tower/src",
    ] {
        sources(&root.join(room), &mut files);
    }
    assert!(files.len() > 300, "{} files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a text");
        for line in text.lines() {
            let is_message = line.contains('"') && !line.trim_start().starts_with(['/', '#']);
            if is_message && (line.contains("docs/") || line.contains(".md:")) {
                wrong.push(format!("{}: {line}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sources of a folder, without those of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.contains("tests") {
            found.push(path);
        }
    }
}

#[test]
fn every_documented_command_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    pages(&root, &mut files);
    let mut all = examples();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a text");
        all.extend(commands(&text));
    }
    assert!(all.len() > 200, "{} commands", all.len());
    let mut wrong = Vec::new();
    for command in &all {
        let words = words(command);
        // About all commands; and a trace that is not there is no command.
        let first = words.get(1).map(|word| word.to_string_lossy());
        if first.is_some_and(|word| word == "COMMAND" || word.ends_with(".fdr")) {
            continue;
        }
        let result = command_line().try_get_matches_from(list::complete(words));
        let Err(error) = result else { continue };
        // A command may be named without what it needs, and an option without its value.
        let is_part = match error.kind() {
            ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand => true,
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
            ErrorKind::InvalidValue => error.to_string().contains("a value is required"),
            _ => false,
        };
        if !is_part {
            wrong.push(format!("{command}\n{error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
