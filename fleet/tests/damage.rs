//! Bad input is named, and the rest is exported or queried.

use std::fs;

use crate::support::{Folder, Process, export, file_of, files, fleet, number, texts, trace};

/// A store with two hosts of 200 and 300 calls.
fn two() -> Folder {
    let folder = Folder::new();
    let one = trace(
        &folder,
        "1.fdr",
        &Process::new("api", "alpha", 100),
        1,
        1,
        200,
    );
    let two = trace(
        &folder,
        "2.fdr",
        &Process::new("db", "beta", 200),
        2,
        1,
        300,
    );
    export(&folder, &[one, two]);
    folder
}

/// A query must name this file, say this of it, and count the calls of the other host.
fn others_are_queried(folder: &Folder, sql: &str, file: &str, what: &str, left: &str) {
    let done = fleet(&["query", &folder.place(), sql, "--format", "csv"]);
    let (out, error) = texts(&done);
    assert_eq!(done.status.code(), Some(1), "{out}{error}");
    assert!(error.contains(file) && error.contains(what), "{error}");
    assert!(error.contains("left out"), "{error}");
    assert_eq!(out.lines().nth(1), Some(left), "{error}");
}

const COUNT: &str = "SELECT COUNT(*) FROM spans";

#[test]
fn a_file_that_is_cut_short() {
    let folder = two();
    let file = file_of(&folder, "spans", "host=alpha");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    others_are_queried(&folder, COUNT, file.to_str().unwrap(), "cut short", "300");
    fs::remove_file(&file).unwrap();
    others_are_queried(
        &folder,
        COUNT,
        file.to_str().unwrap(),
        "no such file",
        "300",
    );
}

#[test]
fn a_file_with_damage_in_its_middle() {
    let folder = two();
    let file = file_of(&folder, "spans", "host=beta");
    let mut bytes = fs::read(&file).unwrap();
    // The pages of the first columns.
    bytes[4..400].fill(0xa5);
    fs::write(&file, &bytes).unwrap();
    let sql = "SELECT COUNT(*), COUNT(DISTINCT trace_key), SUM(seq) > 0 FROM raw_spans";
    let file = file.to_str().unwrap();
    others_are_queried(&folder, sql, file, "damaged", "200,1,true");
}

#[test]
fn a_file_of_another_schema_version() {
    let folder = two();
    let file = file_of(&folder, "spans", "host=alpha");
    // The version stands in the file's end as a pair of texts.
    let mut bytes = fs::read(&file).unwrap();
    let key = b"fdr.schema";
    let at = bytes
        .windows(key.len())
        .rposition(|part| part == key)
        .unwrap()
        + key.len();
    let digit = bytes[at..].iter().position(|byte| *byte == b'1').unwrap();
    bytes[at + digit] = b'7';
    fs::write(&file, &bytes).unwrap();
    others_are_queried(
        &folder,
        COUNT,
        file.to_str().unwrap(),
        "schema version 7",
        "300",
    );
}

#[test]
fn a_folder_of_another_schema_version() {
    let folder = two();
    let other = folder.path("store/v2/spans/date=2026-03-01/host=gamma");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("x.parquet"), b"PAR1").unwrap();
    others_are_queried(&folder, COUNT, "store/v2", "schema version 2", "500");
    // A commit of one.
    let folder = two();
    let commits = files(&folder.path("store/v1/_commits"));
    let (commit, _) = commits
        .iter()
        .find(|(path, _)| path.to_str().unwrap().contains("detail"))
        .unwrap();
    let text = fs::read_to_string(commit).unwrap();
    fs::write(commit, text.replace("\"schema\":1", "\"schema\":3")).unwrap();
    let left = if text.contains("host=alpha") {
        "300"
    } else {
        "200"
    };
    others_are_queried(
        &folder,
        COUNT,
        commit.to_str().unwrap(),
        "schema version 3",
        left,
    );
    fs::write(commit, "{\"schema\":1").unwrap();
    others_are_queried(&folder, COUNT, commit.to_str().unwrap(), "damaged", left);
}

#[test]
fn files_that_no_commit_lists_do_not_count() {
    let folder = two();
    let file = file_of(&folder, "spans", "host=alpha");
    fs::copy(&file, file.with_file_name("copy.parquet")).unwrap();
    fs::write(file.with_file_name("junk.parquet"), b"junk").unwrap();
    assert_eq!(number(&folder, COUNT), 500);
}

#[test]
fn hostile_traces_are_named_and_the_others_exported() {
    let folder = Folder::new();
    let good = trace(
        &folder,
        "good.fdr",
        &Process::new("api", "alpha", 100),
        1,
        2,
        300,
    );
    let bytes = fs::read(&good).unwrap();
    let cut = folder.path("cut.fdr");
    fs::write(&cut, &bytes[..bytes.len() * 3 / 5]).unwrap();
    let noise = folder.path("noise.fdr");
    fs::write(&noise, [0x5a; 4096]).unwrap();
    let words = [
        "export",
        noise.to_str().unwrap(),
        cut.to_str().unwrap(),
        good.to_str().unwrap(),
        "/no/such.fdr",
        "--to",
    ];
    let place = folder.place();
    let done = fleet(&[&words[..], &[&place]].concat());
    let (out, error) = texts(&done);
    assert_eq!(done.status.code(), Some(1), "{out}{error}");
    assert_eq!(
        out, "2 exported, 0 were there already, 2 failed\n",
        "{error}"
    );
    for (file, what) in [
        ("noise.fdr", "not a trace"),
        ("cut.fdr", "damaged"),
        ("/no/such.fdr", "No such file"),
    ] {
        let line = error.lines().find(|line| line.contains(file));
        assert!(
            line.is_some_and(|line| line.contains(what)),
            "{file}: {error}"
        );
    }
    assert_eq!(
        number(
            &folder,
            "SELECT COUNT(*) FROM traces WHERE damage IS NOT NULL"
        ),
        1
    );
    // Each byte may be wrong: nothing but an error or a trace comes of it.
    let one = folder.path("one.fdr");
    let all = fs::read(trace(
        &folder,
        "small.fdr",
        &Process::new("api", "alpha", 7),
        4,
        1,
        20,
    ))
    .unwrap();
    for at in (0..all.len()).step_by(37) {
        let mut bytes = all.clone();
        bytes[at] ^= 0x41;
        fs::write(&one, &bytes).unwrap();
        let done = fleet(&["export", one.to_str().unwrap(), "--to", &place]);
        assert!(
            done.status.code().is_some_and(|code| code <= 2),
            "byte {at}: {}",
            texts(&done).1
        );
    }
    let (_, error) = texts(&fleet(&["query", &place, COUNT]));
    assert_eq!(error, "");
}
