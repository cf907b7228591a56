//! The tool `fdr`, and the JSON that it prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs the tool with these words, and behind them these files: `fdr("convert --to ctf -o", &[&made, &trace])`. It must
/// succeed. Returns its output.
///
/// # Panics
///
/// If it does not succeed.
#[must_use]
pub fn fdr(words: &str, files: &[&Path]) -> String {
    let output = Command::new(crate::tool())
        .args(words.split_whitespace())
        .args(files)
        .output()
        .expect("fdr runs");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "fdr {words} {files:?}: {}\n{stdout}{stderr}",
        output.status
    );
    stdout
}

/// The same with `--json`.
///
/// # Panics
///
/// If it does not succeed, or prints something else.
#[must_use]
pub fn json(words: &str, files: &[&Path]) -> Value {
    serde_json::from_str(&fdr(&format!("{words} --json"), files)).expect("JSON")
}

/// Has the tool look over a trace, which must be whole.
///
/// # Panics
///
/// If it is not.
pub fn verify(trace: &Path) {
    let output = fdr("verify", &[trace]);
    assert!(output.contains(": OK: "), "{output}");
}

/// A number.
///
/// # Panics
///
/// If it is none.
#[must_use]
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// The rows of a list.
///
/// # Panics
///
/// If it is no list.
#[must_use]
pub fn rows(list: &Value) -> &[Value] {
    list.as_array().unwrap_or_else(|| panic!("{list}"))
}

/// The row with that name.
#[must_use]
pub fn row<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    rows(list).iter().find(|row| row["name"] == name)
}

/// A row's name.
///
/// # Panics
///
/// If it has none.
#[must_use]
pub fn name(row: &Value) -> String {
    row["name"].as_str().expect("a name").to_owned()
}

/// The rows of a list by their names.
#[must_use]
pub fn by_name(list: &Value) -> BTreeMap<String, Value> {
    let rows = rows(list).iter();
    rows.map(|row| (name(row), row.clone())).collect()
}

/// How often each function of a list was called.
#[must_use]
pub fn calls(functions: &Value) -> BTreeMap<String, u64> {
    let rows = rows(functions).iter();
    rows.map(|row| (name(row), number(&row["calls"]))).collect()
}

/// The sum of a field over a list.
#[must_use]
pub fn sum(list: &Value, field: &str) -> u64 {
    rows(list).iter().map(|row| number(&row[field])).sum()
}
