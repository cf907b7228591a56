//! The inputs of command lines: standard input, compressed files, folders of traces, several traces. Also
//! folders for outputs.

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;

use crate::common::{
    self, Folder, answer, assert_contains, assert_documented, assert_lacks, assert_refused, calls,
    command, contents, fdr, functions, in_folder, info, json, small, stderr, stdout, thread, write,
};
use fdr_formats::{Thread, TraceInfo};
use serde_json::{Value, json};

const NAMES: &[&str] = &["app::run", "app::step"];

/// The documents that follow each other in a command's output.
fn documents(words: &[&str]) -> Vec<Value> {
    let text = answer(words);
    let documents = serde_json::Deserializer::from_str(&text).into_iter();
    documents.map(|document| document.expect("JSON")).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut out = liblzma::write::XzEncoder::new(Vec::new(), 6);
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

type Pack = fn(&[u8]) -> Vec<u8>;
const PACKS: [(&str, Pack); 2] = [("gz", gzip), ("xz", xz)];

#[test]
fn standard_input_may_be_packed() {
    let (folder, trace) = in_folder("stdin", "t.fdr", small);
    let packed = folder.file("t.fdr.gz");
    fs::write(&packed, gzip(&fs::read(&trace).unwrap())).unwrap();
    let wanted = answer(&["report", &trace]);
    for file in [&trace, &packed] {
        let feed = |words: &[&str]| {
            let input = Stdio::from(File::open(file).unwrap());
            let output = command().args(words).stdin(input).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            stdout(&output).to_owned()
        };
        assert_eq!(feed(&["report", "-"]), wanted);
        assert_contains(feed(&["report", "--last", "450ns", "-"]), "app::step");
        assert_contains(feed(&["info", "-"]), "threads    2");
        assert!(feed(&["verify", "-"]).starts_with("standard input: OK"));
        assert_contains(feed(&["replay", "--records", "-"]), "app::run");
        assert_contains(feed(&["state", "-"]), "nothing is open");
        let out = folder.file("from-stdin.heph");
        feed(&["convert", "-", "--to", "heph", "-o", &out, "--force"]);
        assert_contains(answer(&["report", &out]), "app::run");
    }
    let unnamed = fdr(&["convert", "-", "--to", "heph"]);
    assert_eq!(
        stderr(&unnamed),
        "fdr: standard input: give the new trace a name: -o\n"
    );
}

#[test]
fn gzip_and_xz_are_read_as_zstd_is() {
    packed_files_are_read(7);
}

mod the_rest {
    #[test]
    fn cut_gzip_and_xz_are_read_like_zstd() {
        super::packed_files_are_read(1);
    }
}

/// Cuts the packed files before every `step`th byte.
fn packed_files_are_read(step: usize) {
    let (folder, trace) = in_folder("codecs", "t.fdr", small);
    let bytes = fs::read(&trace).unwrap();
    let wanted = answer(&["report", &trace]);
    for (end, pack) in PACKS {
        let packed = folder.file(&format!("p.fdr.{end}"));
        let whole = pack(&bytes);
        fs::write(&packed, &whole).unwrap();
        assert_eq!(answer(&["report", &packed]), wanted, "{end}");
        answer(&["unpack", "--force", &packed]);
        assert_eq!(fs::read(folder.file("p.fdr")).unwrap(), bytes, "{end}");
        // Members one after the other are one file.
        let (front, back) = bytes.split_at(bytes.len() / 3);
        fs::write(&packed, [pack(front), pack(back)].concat()).unwrap();
        assert_eq!(answer(&["report", &packed]), wanted, "{end}");
        // A cut file is read up to there.
        fs::write(
            &packed,
            [pack(&bytes), pack(&bytes)[..20].to_vec()].concat(),
        )
        .unwrap();
        let output = fdr(&["verify", &packed]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let message = format!(
            "what begins at byte {}: the file ends within this",
            whole.len()
        );
        assert_contains(stderr(&output), &message);
        // From a damaged file, no byte that the damage may have changed.
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x55;
        fs::write(&packed, damaged).unwrap();
        let output = fdr(&["report", &packed]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let message = "the compressed data are damaged in what begins at byte 0: ";
        assert_contains(stderr(&output), message);
        for cut in (0..whole.len()).step_by(step) {
            fs::write(&packed, &whole[..cut]).unwrap();
            let code = fdr(&["report", &packed]).status.code();
            assert!(matches!(code, Some(0 | 2)), "{end} cut at {cut}: {code:?}");
        }
    }
}

#[test]
fn a_folder_is_all_traces_in_it() {
    let folder = Folder::new("folder");
    let path = folder.path().to_str().unwrap();
    assert_refused(&["report", path], "there is no trace in it");
    for name in ["b.fdr", "a.fdr", ".hidden.fdr"] {
        small(&folder.file(name));
    }
    let packed = gzip(&fs::read(folder.file("a.fdr")).unwrap());
    fs::write(folder.file("c"), packed).unwrap();
    fs::write(folder.file("notes.txt"), "no trace").unwrap();
    fs::write(folder.file("log.gz"), gzip(b"no trace")).unwrap();
    answer(&[
        "convert",
        &folder.file("a.fdr"),
        "--to",
        "ctf",
        "-o",
        &folder.file("d"),
    ]);
    let names = ["a.fdr", "b.fdr", "c", "d"].map(|name| folder.file(name));
    let files = |words: &[&str]| -> Vec<Value> {
        let documents = documents(words);
        documents
            .iter()
            .map(|document| document["file"].clone())
            .collect()
    };
    for command in ["report", "info", "verify", "state"] {
        assert_eq!(files(&[command, "--json", path]), names, "{command}");
    }
    let mut records = files(&["replay", "--records", "--json", path]);
    records.dedup();
    assert_eq!(records, names);
    let table = answer(&["report", path]);
    assert_eq!(table.matches("small (process 7)").count(), 4, "{table}");
    let csv = answer(&["report", "--csv", path]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("trace,name,file,line,calls"), "{csv}");
    assert_eq!(lines.len(), 1 + 4 * 2);
    let lines = answer(&["flame", path]);
    assert_eq!(
        lines.matches("app::run;app::step 500\n").count(),
        4,
        "{lines}"
    );
}

#[test]
fn session_folders_are_the_traces_below() {
    let (folder, trace) = in_folder("session", "a.fdr", small);
    // As LTTng lays them out, and one chunk of a session that was rotated.
    for place in ["ust/uid/1000/64-bit", "archives/1/ust/uid/1000/64-bit"] {
        let place = folder.path().join("session").join(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let place = place.to_str().unwrap();
        answer(&["convert", &trace, "--to", "ctf", "-o", place]);
    }
    let session = folder.file("session");
    assert_eq!(answer(&["verify", &session]).matches("OK").count(), 2);
    let chunk = folder.file("session/archives");
    assert_contains(answer(&["report", &chunk]), "app::run");
}

#[test]
fn output_folders_get_a_file_per_trace() {
    let folder = Folder::new("outputs");
    let (first, second) = (folder.file("one.1.fdr"), folder.file("two.fdr"));
    [&first, &second].iter().for_each(|trace| small(trace));
    let out = folder.file("out/");
    answer(&["convert", "--to", "heph", "-o", &out, &first, &second]);
    answer(&["convert", "--to", "xray", "-o", &out, &first]);
    answer(&["convert", "--to", "ctf", "-o", &out, &second]);
    answer(&["convert", "--to", "map", "-q", "-o", &out, &first, &second]);
    answer(&["pack", "-q", "-o", &out, &first]);
    let wanted = [
        "one.1.fdr",
        "one.1.fdr.zst",
        "one.1.heph",
        "one.1.map",
        "two.ctf",
        "two.heph",
        "two.map",
    ];
    assert_eq!(contents(&folder.path().join("out")), wanted);
    let output = fdr(&["convert", "--to", "heph", "-o", "-", &first, &second]);
    assert_contains(stderr(&output), "-o - takes one trace at a time");
}

#[test]
fn json_has_the_documented_shape() {
    let (folder, trace) = in_folder("shapes", "t.fdr", small);
    let info = json(&["info", "--json", "--functions", &trace]);
    let verdict = json(&["verify", "--json", &trace]);
    let record = documents(&[
        "replay",
        "--records",
        "--json",
        "-n",
        "1",
        "--offset",
        "0x40",
        &trace,
    ]);
    let report = json(&["report", "--json", "--per-thread", &trace]);
    let state = json(&["state", "--json", &trace]);
    let slow = json(&["slow", "--json", "--over", "1ns", &trace]);
    let diff = json(&["diff", "--json", &trace, &trace]);
    let hist = json(&["report", "--hist", "--json", &trace, "*"]);
    let broken = json_of_failure(&["verify", "--json", &common::golden("v3-trunc.fdr")]);
    for value in [
        &info,
        &info["others"],
        &info["threads"][0],
        &info["functions"][0],
        &info["clock"],
        &info["missing"],
        &verdict,
        &broken["findings"][0],
        &record[0],
        &report,
        &report["functions"][0],
        &report["threads"][0],
        &report["balance"],
        &state,
        &state["attributes"][0],
        &slow,
        &slow["calls"][0],
        &slow["calls"][0]["usual"],
        &slow["calls"][0]["path"][0],
        &diff,
        &diff["functions"][0],
        &diff["functions"][0]["before"],
        &hist,
        &hist["functions"][0],
        &hist["functions"][0]["buckets"][0],
    ] {
        assert_documented(value);
    }
    assert_eq!(info["threads"][1]["name"], "worker");
    assert_eq!(info["records"], 8);
    assert_eq!(info["duration_ns"], 1000);
    assert_eq!(info["functions"][0]["name"], "app::run");
    assert_eq!(verdict["ok"], true);
    assert_eq!(verdict["violations"], 0);
    assert_eq!(broken["ok"], false);
    assert_eq!(
        json(&["rings", "--json", folder.path().to_str().unwrap()]),
        json!([])
    );
}

#[test]
fn json_records_have_times_since_the_first() {
    let (_folder, trace) = in_folder("shapes-times", "t.fdr", small);
    let calls = documents(&["replay", "--records", "--json", "-f", "app::run", &trace]);
    let row = |record: &Value| {
        json!([
            record["kind"],
            record["name"],
            record["since_first_ns"],
            record["time_ns"]
        ])
    };
    let rows: Vec<Value> = calls.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            json!(["Entry", "app::run", 0, 1000]),
            json!(["Exit", "app::run", 1000, 2000])
        ]
    );
    // Times count from the first call of the whole trace: --since takes what the records say.
    let last = documents(&["replay", "--records", "--json", "--since", "1us", &trace]);
    let times: Vec<i64> = last
        .iter()
        .filter_map(|record| record["since_first_ns"].as_i64())
        .collect();
    assert!(times.contains(&1000), "{times:?}");
}

fn json_of_failure(words: &[&str]) -> Value {
    let output = fdr(words);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    serde_json::from_str(stdout(&output)).expect("JSON")
}

#[test]
fn old_names_of_options_and_commands_still_work() {
    let (folder, trace) = in_folder("names", "t.fdr", small);
    let path = folder.path().to_str().unwrap();
    assert_eq!(answer(&["rings", path]), answer(&["rings", path]));
    let by_offset = answer(&["replay", "--records", "--offset", "0x78", "-n", "2", &trace]);
    assert_eq!(
        answer(&[
            "replay",
            "--records",
            "--from",
            "0x78",
            "--limit",
            "2",
            &trace
        ]),
        by_offset
    );
    let heph = folder.file("t.heph");
    answer(&["convert", &trace, "--format", "heph", "-q", "-o", &heph]);
    let help = answer(&["--help"]);
    assert_contains(&help, "\n  rings ");
    assert_lacks(&help, "\n  list ");
    for command in ["convert", "dump", "record", "replay", "listen"] {
        let help = answer(&[command, "--help"]);
        for old in ["--format ", "--count ", "--from ", "--limit <SIZE>"] {
            assert!(!help.contains(old), "{command}: {old}");
        }
    }
}

#[test]
fn record_runs_commands_with_and_without_hyphens() {
    for words in [
        &["record", "-q", "sh", "-c", "exit 7"][..],
        &["record", "-q", "--", "sh", "-c", "exit 7"],
    ] {
        assert_eq!(fdr(words).status.code(), Some(7), "{words:?}");
    }
    let output = fdr(&["record", "--fats", "sh"]);
    assert_eq!(
        output.status.code(),
        Some(2),
        "an option of ours: {output:?}"
    );
}

#[test]
fn an_order_can_be_turned_round() {
    let (_folder, trace) = in_folder("reverse", "t.fdr", small);
    let first = |words: &[&str]| {
        let report = json(
            &[
                &["report", "--json", "-s", "name", "-n", "1"],
                words,
                &[&trace],
            ]
            .concat(),
        );
        report["functions"][0]["name"].clone()
    };
    assert_eq!([first(&[]), first(&["-r"])], ["app::run", "app::step"]);
}

#[test]
fn an_archive_is_read_compressed_or_not() {
    let folder = Folder::new("archive");
    let [trace, ctf, packed, archive] =
        ["t.fdr", "t.ctf", "t.ctf.tar.zst", "t.ctf.tar"].map(|name| folder.file(name));
    small(&trace);
    answer(&["convert", &trace, "--to", "ctf", "-o", &ctf]);
    answer(&["pack", &ctf]);
    fs::write(&archive, fdr(&["unpack", "-o", "-", &packed]).stdout).unwrap();
    let wanted = answer(&["report", &ctf]);
    for file in [&packed, &archive] {
        assert_eq!(answer(&["report", file]), wanted, "{file}");
        let input = Stdio::from(File::open(file).unwrap());
        let output = command().args(["report", "-"]).stdin(input).output();
        assert_eq!(stdout(&output.unwrap()), wanted, "{file}");
    }
    // What a folder lists, its commands can read.
    let whole = answer(&["verify", folder.path().to_str().unwrap()]);
    assert_eq!(whole.matches(": OK").count(), 4, "{whole}");
}

#[test]
fn traces_with_archive_magic_are_no_archives() {
    let folder = Folder::new("mark");
    let info = info(NAMES);
    let mut marked = 0;
    for before in 0..5 {
        let trace = folder.file(&format!("{before}.fdr"));
        let thread = thread(7, &("x".repeat(before) + &"ustar".repeat(50)));
        write(&trace, &info, &[(thread, calls(&[(1, 1), (2, -1)]))]);
        marked += usize::from(&fs::read(&trace).unwrap()[257..262] == b"ustar");
        assert_contains(answer(&["verify", &trace]), ": OK");
        let bytes = fs::read(&trace).unwrap();
        answer(&["pack", &trace]);
        answer(&["unpack", "--force", &format!("{trace}.zst")]);
        assert_eq!(fs::read(&trace).unwrap(), bytes);
    }
    assert_eq!(marked, 1, "one of them has the mark");
}

#[test]
fn two_folders_of_runs_are_compared() {
    let folder = Folder::new("diff");
    let run = |side: &str, number: u64, step: u64| {
        let path = folder.path().join(side);
        fs::create_dir_all(&path).unwrap();
        let path = path.join(format!("run-{number}.fdr"));
        let call = |at: u64| {
            let start = at * 100_000;
            let step_at = start + 1000 + number;
            [
                (start, 1),
                (step_at, 2),
                (step_at + step, -2),
                (start + 3000 + step, -1),
            ]
        };
        let edges: Vec<(u64, i64)> = (0..50).flat_map(call).collect();
        let info = TraceInfo {
            functions: functions(NAMES),
            ..TraceInfo::default()
        };
        write(
            path.to_str().unwrap(),
            &info,
            &[(Thread::default(), calls(&edges))],
        );
    };
    for number in 0..3 {
        run("before", number, 5000 + number);
        run("after", number, 5500 + number);
    }
    let sides = ["before", "after"].map(|side| folder.path().join(side).display().to_string());
    let text = answer(&["diff", &sides[0], &sides[1]]);
    let step = text.lines().find(|line| line.ends_with("app::step"));
    let step = step.expect("a row");
    assert!(
        step.contains("+10.0 %") && step.contains("slower"),
        "{text}"
    );
    assert_contains(&text, "1 function slower, 0 faster");
    let output = fdr(&["diff", "--fail-over", "5%", &sides[0], &sides[1]]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_contains(
        stderr(&output),
        "1 function slower by more than 5 %: app::step",
    );
    let output = fdr(&["diff", "--fail-over", "20%", &sides[0], &sides[1]]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let run = folder.path().join("before/run-0.fdr").display().to_string();
    assert_refused(
        &["diff", "--fail-over", "5%", &run, &sides[1]],
        "needs two runs or more on each side",
    );
}
