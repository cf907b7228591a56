//! The same source is compiled with the attribute and without, and the compiler's and clippy's messages are compared:
//! message, code, places, labels, notes and suggestions.

use crate::package::{Package, text_of};
use serde_json::Value;

/// A message, without what depends on which one of its lint comes first.
fn describe(message: &Value) -> String {
    let code = &message["code"]["code"];
    let mut text = format!("{} [{code}]: {}\n", message["level"], message["message"]);
    for span in message["spans"].as_array().into_iter().flatten() {
        text += &format!("  at {}: {}", place(span), span["label"]);
        text += &format!(" suggests {}\n", span["suggested_replacement"]);
    }
    for child in message["children"].as_array().into_iter().flatten() {
        let note = child["message"].as_str().unwrap_or_default();
        if !note.starts_with("`#[") && !note.starts_with("the lint level is defined here") {
            text += &describe(child);
        }
    }
    text
}

fn place(span: &Value) -> String {
    let file = span["file_name"].as_str().unwrap_or_default();
    let [line, column, end_line, end_column] =
        ["line_start", "column_start", "line_end", "column_end"].map(|field| &span[field]);
    format!("{file}:{line}:{column}-{end_line}:{end_column}")
}

/// Only what kind of mistake it is, and where.
fn kind_and_place(message: &Value) -> String {
    let spans = message["spans"].as_array().into_iter().flatten();
    let primary = spans.filter(|span| span["is_primary"] == true).map(place);
    format!(
        "{} {:?}",
        message["code"]["code"],
        primary.collect::<Vec<_>>()
    )
}

/// What the command says of an example, in an order that does not depend on the compiler's.
fn messages(
    package: &Package,
    command: &str,
    example: &str,
    features: &str,
    text: fn(&Value) -> String,
) -> Vec<String> {
    let arguments = [
        "--message-format=json",
        "--example",
        example,
        "--features",
        features,
    ];
    let output = package.cargo(command, &arguments);
    let mut texts = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let line: Value = serde_json::from_str(line).expect("cargo writes JSON");
        let message = &line["message"];
        // Without a place: how many there were.
        if line["reason"] == "compiler-message" && message["spans"] != Value::Array(Vec::new()) {
            assert_eq!(line["target"]["name"], example, "{}", message["rendered"]);
            texts.push(text(message));
        }
    }
    assert!(
        !texts.is_empty(),
        "{command} says nothing of {example}:\n{}",
        text_of(&output)
    );
    texts.sort();
    texts
}

fn assert_same(command: &str, example: &str, at_least: usize, text: fn(&Value) -> String) {
    let package = Package::copy_of("diagnostics", "");
    let without = messages(&package, command, example, "", text);
    let with = messages(&package, command, example, "traced", text);
    assert!(without.len() >= at_least, "{example}: {without:#?}");
    let only = |these: &[String], those: &[String]| {
        these
            .iter()
            .filter(|text| !those.contains(text))
            .cloned()
            .collect::<String>()
    };
    let (lost, new) = (only(&without, &with), only(&with, &without));
    assert_eq!(
        with, without,
        "lost with the attribute:\n{lost}\nnew with it:\n{new}"
    );
}

// One test: the packages share a folder, and cargo works on one at a time anyway.
#[test]
fn messages_are_as_without_the_attribute() {
    assert_same("check", "types", 15, describe);
    assert_same("check", "borrows", 9, describe);
    // A body that waits is an `async` block of its own, and some messages say so.
    assert_same("check", "types_in_async", 4, kind_and_place);
    assert_same("check", "borrows_in_async", 9, kind_and_place);
    assert_same("check", "lints", 40, describe);
    if fdr_tests::reader("cargo-clippy", "clippy's messages about traced functions").is_some() {
        assert_same("clippy", "lints", 100, describe);
    }
    let package = Package::copy_of("diagnostics", "");
    let places = messages(&package, "check", "wrong_crate", "traced", kind_and_place);
    let path = |place: &String| place.contains("src/wrong_crate.rs:3:52-3:59");
    assert!(
        places.iter().all(path),
        "not where the path is written: {places:?}"
    );
}
