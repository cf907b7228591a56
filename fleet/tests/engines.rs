//! Spark gives the same rows as the embedded engine, in worker processes of its own, and names a file that is cut
//! short. One session of Spark answers everything, because its start takes longer than its queries.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use crate::support::{FLEET, Folder, Process, edges, export, file_of, fleet_ok, texts, write};
use crate::support::{MORNING, Random, skip, trace};

/// Six traces of three programs on two hosts and two days, and two that overlap: some in a manifest, others in commits.
fn store() -> Folder {
    let folder = Folder::new();
    let mut traces = Vec::new();
    for nth in 0..6 {
        let program = ["api", "db", "app"][nth as usize % 3];
        let mut process = Process::new(program, ["alpha", "beta"][nth as usize % 2], 100 + nth);
        process.start = MORNING + nth / 3 * 86_400_000_000_000;
        let name = format!("{nth}.fdr");
        traces.push(trace(&folder, &name, &process, 5 + nth, 2, 300));
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
    export(&folder, &traces[..4]);
    fleet_ok(&["compact", &folder.place()]);
    export(&folder, &traces[4..]);
    folder
}

/// Two hosts of 200 and 300 calls. The file of the first is cut short. Also returns its name.
fn damaged_store() -> (Folder, String) {
    let folder = Folder::new();
    let (one, two) = (
        Process::new("api", "alpha", 1),
        Process::new("db", "beta", 2),
    );
    let traces = [
        trace(&folder, "1.fdr", &one, 1, 1, 200),
        trace(&folder, "2.fdr", &two, 2, 1, 300),
    ];
    export(&folder, &traces);
    let short = file_of(&folder, "spans", "host=alpha");
    let bytes = fs::read(&short).unwrap();
    fs::write(&short, &bytes[..bytes.len() / 2]).unwrap();
    let name = short.to_str().unwrap().to_owned();
    (folder, name)
}

#[test]
fn both_engines_give_the_same_rows() {
    let (whole, (damaged, short)) = (store(), damaged_store());
    let mut spark = Command::new("spark-submit");
    spark.args(["--master", "local-cluster[2,1,1024]"]);
    for setting in [
        "spark.ui.enabled=false",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.sql.shuffle.partitions=2",
        "spark.sql.adaptive.enabled=false",
        // Short queries: the second compiler would cost more time than it saves.
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1",
    ] {
        spark.args(["--conf", setting]);
    }
    let script = format!("{}/tests/engines.py", env!("CARGO_MANIFEST_DIR"));
    spark.args([&script, &whole.place(), FLEET, "2026-03-01", "2026-03-02"]);
    spark
        .arg(damaged.place())
        .env("SPARK_LOCAL_IP", "127.0.0.1");
    let done = match spark.output() {
        Ok(done) => done,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return skip("spark-submit is missing, so no query is run on Spark");
        }
        Err(error) => panic!("spark-submit: {error}"),
    };
    let (out, error) = texts(&done);
    assert!(done.status.success(), "{out}{error}");
    print!("{out}");
    let line_of = |name: &str| out.lines().find(|line| line.starts_with(name));
    for name in [
        "report regressions: ",
        "report top: ",
        "spans: ",
        "raw_losses: ",
    ] {
        let line = line_of(name).unwrap_or_else(|| panic!("{name} is not in {out}"));
        assert!(!line.contains(": 0 rows"), "{line}");
    }
    let equal = out.lines().filter(|line| line.contains("rows are equal"));
    assert_eq!(equal.count(), 26, "{out}");
    // What the script says to a person about the damaged place.
    assert!(
        out.ends_with("host,calls\nbeta,300\nexit code 1\n"),
        "{out}{error}"
    );
    let line = error.lines().find(|line| line.contains(&short));
    assert!(
        line.is_some_and(|line| line.contains("cut short")),
        "{error}"
    );
}
