//! Dumps of one process that have the same records: each call counts once, and a complete one before a clipped one.

use crate::support::{Folder, Process, Random, edges, export, number, rows, write};

#[test]
fn each_call_counts_once() {
    let folder = Folder::new();
    let process = Process::new("api", "alpha", 4000);
    let all = edges(&mut Random(5), 2000);
    let calls = all.len() as i64 / 2;
    // The first dump ends, and the second one begins, in the middle of calls; a third has nothing new.
    let (first, second) = (&all[..2600], &all[1500..]);
    let paths = ["1.fdr", "2.fdr", "3.fdr"].map(|name| folder.path(name));
    write(&paths[0], &process, 1, &[(4001, 0, first)]);
    write(&paths[1], &process, 2, &[(4001, 1500, second)]);
    write(&paths[2], &process, 3, &[(4001, 1500, second)]);
    export(&folder, &paths);
    assert_eq!(number(&folder, "SELECT COUNT(*) FROM processes"), 1);
    assert!(number(&folder, "SELECT COUNT(*) FROM raw_spans") > calls);
    assert_eq!(number(&folder, "SELECT COUNT(*) FROM spans"), calls);
    // Entries before the second dump, and exits behind the first: the trace can't say how long those calls took.
    let mut open = 0_i64;
    let across = all.iter().take(1500).fold(0_i64, |depth, call| {
        depth
            + if call.edge == fdr_formats::Edge::Entry {
                1
            } else {
                -1
            }
    });
    for call in &all[1500..2600] {
        open += if call.edge == fdr_formats::Edge::Entry {
            1
        } else {
            -1
        };
    }
    let clipped = number(&folder, "SELECT COUNT(*) FROM spans WHERE clipped");
    assert!(
        clipped <= across && open + across >= 0,
        "{clipped} of {across}"
    );
    // A dump has no call twice, so without other dumps both views have the same rows.
    let alone = Folder::new();
    export(&alone, &paths[..1]);
    assert_eq!(
        rows(&alone, "SELECT COUNT(*) FROM spans"),
        rows(&alone, "SELECT COUNT(*) FROM raw_spans")
    );
}

#[test]
fn statistics_of_overlapping_dumps_do_not_add_up() {
    let folder = Folder::new();
    let process = Process::new("api", "alpha", 4000);
    let all = edges(&mut Random(9), 1000);
    let paths = ["1.fdr", "2.fdr"].map(|name| folder.path(name));
    write(&paths[0], &process, 1, &[(4001, 0, &all[..1200])]);
    write(&paths[1], &process, 2, &[(4001, 0, &all)]);
    export(&folder, &paths);
    assert_eq!(
        number(&folder, "SELECT SUM(calls) FROM function_stats"),
        1000
    );
    assert_eq!(number(&folder, "SELECT SUM(recorded) FROM losses"), 2000);
    // Dumps that follow each other do.
    let separate = Folder::new();
    write(
        &paths[0].with_extension("a"),
        &process,
        1,
        &[(4001, 0, &all[..1000])],
    );
    write(
        &paths[1].with_extension("b"),
        &process,
        2,
        &[(4001, 1000, &all[1000..])],
    );
    export(
        &separate,
        &[paths[0].with_extension("a"), paths[1].with_extension("b")],
    );
    assert_eq!(
        number(
            &separate,
            "SELECT COUNT(*) FROM (SELECT DISTINCT trace_key FROM function_stats) t"
        ),
        2
    );
    assert!(number(&separate, "SELECT SUM(calls) FROM function_stats") >= 1000);
}
