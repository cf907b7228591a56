//! Spark gives the same rows as the embedded engine, in worker processes of its own.

use std::fs;
use std::process::{Command, Output};

use crate::support::{FLEET, Folder, Process, edges, export, file_of, fleet_ok, texts, write};
use crate::support::{MORNING, Random, trace};

/// Runs a script on Spark. `None`: there is no Spark.
fn spark(cores: &str, words: &[&str]) -> Option<Output> {
    let mut command = Command::new("spark-submit");
    command.args(["--master", cores, "--conf", "spark.ui.enabled=false"]);
    command.args(["--conf", "spark.sql.shuffle.partitions=4"]);
    command.args(["--conf", "spark.driver.bindAddress=127.0.0.1"]);
    command.args(words).env("SPARK_LOCAL_IP", "127.0.0.1");
    match command.output() {
        Ok(done) => Some(done),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "spark-submit: {error}");
            eprintln!("skipped: spark-submit: {error}: cargo xtask fleet says how to get it");
            None
        }
    }
}

fn file(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn both_engines_give_the_same_rows() {
    let folder = Folder::new();
    let mut traces = Vec::new();
    for nth in 0..6 {
        let program = ["api", "db", "app"][nth as usize % 3];
        let mut process = Process::new(program, ["alpha", "beta"][nth as usize % 2], 100 + nth);
        process.start = MORNING + nth / 3 * 86_400_000_000_000;
        traces.push(trace(
            &folder,
            &format!("{nth}.fdr"),
            &process,
            5 + nth,
            2,
            300,
        ));
    }
    // Two dumps of a process that have half of their records in common.
    let process = Process::new("api", "gamma", 900);
    let all = edges(&mut Random(91), 400);
    let (third, rest) = (all.len() / 3, all.len() / 3 * 2);
    for (dump, first, part) in [(1, 0, &all[..rest]), (2, third as u64, &all[third..])] {
        let path = folder.path(&format!("overlap-{dump}.fdr"));
        write(&path, &process, dump, &[(901, first, part)]);
        traces.push(path);
    }
    // Some in a manifest, the others in commits.
    export(&folder, &traces[..4]);
    fleet_ok(&["compact", &folder.place()]);
    export(&folder, &traces[4..]);
    let script = file("tests/engines.py");
    let words = [&script, &folder.place(), FLEET, "2026-03-01", "2026-03-02"];
    let Some(done) = spark("local-cluster[2,1,1024]", &words) else {
        return;
    };
    let (out, error) = texts(&done);
    assert!(done.status.success(), "{out}{error}");
    print!("{out}");
    let of = |name: &str| out.lines().find(|line| line.starts_with(name));
    for name in [
        "report regressions: ",
        "report top: ",
        "spans: ",
        "raw_losses: ",
    ] {
        let line = of(name).unwrap_or_else(|| panic!("{name} is not in {out}"));
        assert!(!line.contains(": 0 rows"), "{line}");
    }
    assert_eq!(out.lines().count(), 26, "{out}");
}

#[test]
fn spark_names_a_file_that_is_cut_short() {
    let folder = Folder::new();
    let one = trace(
        &folder,
        "1.fdr",
        &Process::new("api", "alpha", 1),
        1,
        1,
        200,
    );
    let two = trace(&folder, "2.fdr", &Process::new("db", "beta", 2), 2, 1, 300);
    export(&folder, &[one, two]);
    let short = file_of(&folder, "spans", "host=alpha");
    let bytes = fs::read(&short).unwrap();
    fs::write(&short, &bytes[..bytes.len() / 2]).unwrap();
    let sql = "SELECT host, COUNT(*) AS calls FROM spans GROUP BY host";
    let script = file("spark/fdr_report.py");
    let Some(done) = spark("local[1]", &[&script, &folder.place(), "--sql", sql]) else {
        return;
    };
    let (out, error) = texts(&done);
    assert_eq!(out, "host,calls\nbeta,300\n", "{error}");
    assert!(error.contains(short.to_str().unwrap()), "{error}");
    assert!(error.contains("cut short"), "{error}");
    assert_eq!(done.status.code(), Some(1), "{error}");
}
