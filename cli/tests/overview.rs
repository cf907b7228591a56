//! `fdr TRACE`: a trace on one screen; and commands that take the newest trace because none is named.

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::common::{
    Folder, answer, assert_contains, command, fdr, goldens, in_folder, small, stderr, stdout,
};
use crate::slow::held_up;

#[test]
fn a_trace_alone_is_one_screen() {
    let (folder, trace) = in_folder("overview", "t.fdr", held_up);
    let text = answer(&[&trace]);
    assert_eq!(text, answer(&["overview", &trace]));
    for words in [
        " · 1.301 ms · 2 threads · ",
        "app::compact",
        "
Slow calls:
  900.5 µs app::compact: ",
        "
  901.0 µs app::handle: 100.0 % of the excess is in app::lock itself, because the thread waited",
        "\nNext:\n  fdr report ",
    ] {
        assert_contains(&text, words);
    }
    assert!(text.lines().count() <= 24, "{text}");
    // With options it is the report.
    let report = answer(&[&trace, "--limit", "1"]);
    assert_eq!(report, answer(&["report", "--limit", "1", &trace]));
    let usual = folder.file("usual.fdr");
    small(&usual);
    let text = answer(&[&usual]);
    assert_contains(&text, "\nNo call is far slower than");
    // Damage is reported once.
    let bytes = std::fs::read(&trace).expect("a trace");
    let cut = folder.file("cut.fdr");
    std::fs::write(&cut, &bytes[..bytes.len() - 3]).expect("a file");
    let output = fdr(&[&cut]);
    assert_eq!(
        stderr(&output).matches("is damaged").count(),
        1,
        "{output:?}"
    );
    // A trace of another program's format.
    let heph = goldens().into_iter().find(|(format, _)| *format == "heph");
    let text = answer(&[&heph.expect("a golden file").1]);
    assert_contains(&text, "Heph");
}

#[test]
fn without_a_name_the_newest_trace_is_read() {
    let folder = Folder::new("newest");
    let names = ["old.fdr", "new.fdr", "older.fdr"].map(|name| folder.file(name));
    for (name, age) in names.iter().zip([20, 10, 30]) {
        small(name);
        let file = File::options().write(true).open(name).expect("a file");
        let written = SystemTime::now() - Duration::from_secs(age);
        file.set_modified(written).expect("a time");
    }
    for name in [
        "overview", "report", "slow", "info", "flame", "graph", "replay", "state",
    ] {
        let mut tool = command();
        let output = tool.arg(name).current_dir(folder.path()).output();
        let output = output.expect("fdr runs");
        assert!(output.status.success(), "{name}: {output:?}");
        let first = stderr(&output).lines().next().unwrap_or_default();
        assert_eq!(first, "fdr: the newest trace here: new.fdr", "{name}");
        assert!(!stdout(&output).is_empty(), "{name}");
    }
    let empty = Folder::new("no-trace");
    let mut tool = command();
    let output = tool.arg("report").current_dir(empty.path()).output();
    let output = output.expect("fdr runs");
    assert_eq!(output.status.code(), Some(2));
    assert_contains(stderr(&output), "there is no trace in this folder");
}
