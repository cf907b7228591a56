//! The interactive prompt: statements that end with `;`, and a history that is kept.

use std::path::PathBuf;

use anyhow::Context;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::output::Format;
use super::{Engine, reports};
use crate::complain;

const HELP: &str = "\
End a statement with ';'. Also:
  \\d          the tables        \\d TABLE    its columns
  \\r          the reports       \\r NAME [NAME=VALUE…]
  \\q          the end
";

/// Reads statements until the end.
pub(crate) fn run(engine: &Engine, format: Format) -> anyhow::Result<()> {
    let mut editor = DefaultEditor::new().context("the prompt")?;
    let history = history();
    if let Some(path) = &history {
        // There is none the first time.
        let _ = editor.load_history(path);
    }
    println!("{} \u{2014} \\? for help, \\q for the end", engine.name());
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { "fdr> " } else { "...> " };
        match editor.readline(prompt) {
            Ok(line) => {
                text += &line;
                let statement = text.trim().to_owned();
                if statement.is_empty() {
                    text.clear();
                    continue;
                }
                if !statement.starts_with('\\') && !statement.ends_with(';') {
                    text.push('\n');
                    continue;
                }
                text.clear();
                let _ = editor.add_history_entry(&statement);
                if statement == "\\q" {
                    break;
                }
                if let Err(error) = obey(engine, format, &statement) {
                    complain(&format!("{error:#}"));
                }
            }
            Err(ReadlineError::Interrupted) => text.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("the prompt"),
        }
    }
    if let Some(path) = &history {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        editor
            .save_history(path)
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn obey(engine: &Engine, format: Format, statement: &str) -> anyhow::Result<()> {
    let words: Vec<&str> = statement.split_whitespace().collect();
    match words.as_slice() {
        ["\\?", ..] => print!("{HELP}"),
        ["\\d"] => {
            for (name, _) in reports::VIEWS {
                println!("{name}");
            }
        }
        ["\\d", table] => engine.answer(
            &format!("DESCRIBE {}", table.trim_end_matches(';')),
            format,
            None,
        )?,
        ["\\r"] => print!("{}", reports::list()),
        ["\\r", name, values @ ..] => {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            engine.answer(&reports::query(name, &values)?, format, None)?;
        }
        [word, ..] if word.starts_with('\\') => print!("{HELP}"),
        _ => engine.answer(statement.trim_end_matches(';'), format, None)?,
    }
    Ok(())
}

/// Where the history is kept. `None`: there is no home.
fn history() -> Option<PathBuf> {
    let folder = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    Some(state?.join("fdr/fleet-history"))
}
