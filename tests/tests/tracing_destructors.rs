//! Spans of `tracing` that a thread makes while it ends.

use fdr_tests::support::folder::Folder;

use super::tracing_spans::{run, story};

#[test]
fn spans_in_destructors_of_threads_are_calls() {
    let folder = Folder::new("spans-destructors");
    let (trace, _) = run(&folder, "FDR=1", "destructors");
    let mut stories = trace.threads.iter().map(|lane| story(&trace, lane));
    let story = stories.find(|story| story.contains(&"programs::spans::first".to_owned()));
    let story = story.expect("the thread");
    // Which of the two comes first is up to the system.
    let (mut names, story): (Vec<_>, Vec<_>) =
        story.into_iter().partition(|line| line.starts_with('!'));
    names.sort();
    let name = |name| format!("!programs::spans::spans.rs 0 3 name=\"{name}\"");
    assert_eq!(names, ["early", "late"].map(name));
    let calls = [
        "programs::spans::first",
        "/programs::spans::first",
        "programs::spans::last",
        "/programs::spans::last",
        "programs::spans::last",
        "/programs::spans::last",
    ];
    assert_eq!(story, calls);
}
