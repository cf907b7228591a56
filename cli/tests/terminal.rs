//! What a person at a terminal sees: tables and help that fit, colours, a pager, and messages.

use std::process::{Command, Output};

use crate::common::{
    self, Folder, answer, assert_contains, assert_lacks, command, fdr, functions, golden,
    in_folder, info, small, stderr, stdout, thread, write,
};
use fdr_formats::TraceInfo;

/// All commands of this program, as its help lists them: two spaces, the name, what it does.
pub(crate) fn commands() -> Vec<String> {
    let help = answer(&["--help"]);
    let groups = help.split("\nOptions:").next().unwrap_or_default();
    // Behind the usage, each group has a heading.
    let groups = groups.split_once("\n\nRecord:").expect("the first group").1;
    let lines = groups.lines().filter_map(|line| line.strip_prefix("  "));
    let own = lines.filter(|line| !line.contains("(by fdr-fleet)"));
    let names = own.filter_map(|line| Some(line.split_once("  ")?.0.to_owned()));
    let names: Vec<String> = names.collect();
    assert!(names.len() > 20 && names[0] == "record", "{names:?}");
    names
}

/// Runs the tool with these variables on a terminal with `columns` columns, which the program `script` of util-linux
/// makes.
pub(crate) fn on_terminal(columns: usize, variables: &[&str], words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let tool = env!("CARGO_BIN_EXE_fdr");
    let line = format!(
        "stty cols {columns} rows 50; exec env -u NO_COLOR -u CLICOLOR_FORCE -u PAGER -u FDR_PAGER -u COLUMNS \
         TERM=xterm {} {tool} {}",
        variables.join(" "),
        quoted.join(" "),
    );
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .output();
    let output = output.expect("script, of util-linux, is there");
    stdout(&output).replace('\r', "")
}

pub(crate) fn plain(text: &str) -> String {
    text.replace("\x1b[1m", "").replace("\x1b[0m", "")
}

pub(crate) fn width(text: &str) -> usize {
    text.lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or_default()
}

/// Two threads with long names of functions, and long times.
fn large(path: &str) {
    let names = [
        "index_builder::pool::Pool::perform_all_of_the_jobs_that_wait",
        "<index_builder::tokens::Stemmer as index_builder::Step>::apply",
        "index_builder::main",
    ];
    let info = TraceInfo {
        functions: functions(&names),
        program: "index_builder".into(),
        ..TraceInfo::default()
    };
    let calls = |scale: u64| {
        let edges = [
            (0, 3),
            (10, 1),
            (20, 2),
            (777, -2),
            (9999, -1),
            (123_456, -3),
        ];
        let edges: Vec<(u64, i64)> = edges
            .iter()
            .map(|&(time, id)| (time * scale + 1, id))
            .collect();
        common::calls(&edges)
    };
    let thread = |id| thread(id, &format!("worker-{id}"));
    write(
        path,
        &info,
        &[(thread(7), calls(1)), (thread(8), calls(1_000_003))],
    );
}

#[test]
fn reports_fit_and_keep_percentiles() {
    let folder = Folder::new("widths");
    let trace = folder.file("t.fdr");
    large(&trace);
    for columns in [60, 80, 100, 120, 160] {
        let text = on_terminal(
            columns,
            &[],
            &["report", "--no-pager", "--per-thread", &trace],
        );
        let text = plain(&text);
        assert!(width(&text) <= columns, "{columns}: {text}");
        let is_head = |line: &&str| line.contains(" calls ") && line.contains(" function");
        let heads: Vec<&str> = text.lines().filter(is_head).collect();
        assert_eq!(heads.len(), 3, "{columns}: {text}");
        let has_percentiles = heads[0].contains("  p50  ") && heads[0].contains("  p99  ");
        assert!(has_percentiles || columns < 80, "{columns}: {text}");
        assert!(
            heads.iter().all(|head| *head == heads[0]),
            "the same columns: {text}"
        );
        if columns <= 120 {
            let prefix = "all names begin with index_builder::, which is left out";
            assert!(text.contains(prefix), "{columns}: {text}");
            assert!(
                text.contains("  main\n") && text.contains("  <tokens::"),
                "{columns}: {text}"
            );
        }
    }
    let piped = answer(&["report", &trace]);
    assert_contains(
        &piped,
        "  <index_builder::tokens::Stemmer as index_builder::Step>::apply\n",
    );
    assert_lacks(&piped, "left out");
    for command in ["info", "rings"] {
        let folder = folder.path().to_str().unwrap();
        for columns in [60, 80] {
            let path = if command == "info" { &trace } else { folder };
            let text = plain(&on_terminal(columns, &["FDR_PAGER="], &[command, path]));
            // A path is not cut.
            let table: Vec<&str> = text
                .lines()
                .filter(|line| !line.contains(trace.as_str()))
                .collect();
            assert!(width(&table.join("\n")) <= columns, "{columns}: {text}");
            let left_out = text.contains("no room for ");
            assert_eq!(left_out, command == "info", "{columns}: {text}");
        }
    }
}

#[test]
fn colours_are_as_they_are_asked_for() {
    let (_folder, trace) = in_folder("colours", "t.fdr", small);
    let bold = |variables: &[(&str, &str)], words: &[&str]| {
        let mut command = command();
        for name in ["NO_COLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        let output: Output = command
            .args([words, &["report", &trace]].concat())
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        stdout(&output).contains("\x1b[1m")
    };
    assert!(!bold(&[], &[]), "no terminal");
    assert!(bold(&[("CLICOLOR_FORCE", "1")], &[]));
    assert!(!bold(&[("CLICOLOR_FORCE", "0")], &[]));
    assert!(!bold(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[]));
    assert!(bold(&[("NO_COLOR", "1")], &["--color", "always"]));
    assert!(!bold(&[("CLICOLOR_FORCE", "1")], &["--color=never"]));
    let coloured = |variables: &[&str]| {
        on_terminal(80, variables, &["report", "--no-pager", &trace]).contains("\x1b[1m")
    };
    assert!(coloured(&[]) && !coloured(&["TERM=dumb"]) && !coloured(&["NO_COLOR=1"]));
    let help = fdr(&["--color", "always", "report", "--help"]);
    assert_contains(stdout(&help), "\x1b[");
    let wrong = fdr(&["report", "--colour"]);
    assert_lacks(stderr(&wrong), "\x1b[");
}

#[test]
fn only_terminals_get_a_pager() {
    let (_folder, trace) = in_folder("pager", "t.fdr", small);
    let mark = &["FDR_PAGER=\"sed s/^/P:/\"", "PAGER=false"];
    let paged = on_terminal(80, mark, &["report", &trace]);
    assert!(paged.lines().all(|line| line.starts_with("P:")), "{paged}");
    assert_contains(&paged, "app::step");
    let piped = answer(&["report", &trace]);
    assert_lacks(&piped, "P:");
    for (variables, words) in [
        (&mark[..], &["report", "--no-pager", &trace][..]),
        (&["FDR_PAGER=", "PAGER=false"], &["report", &trace]),
        (&["PAGER=cat"], &["report", &trace]),
        (&[mark[0], "TERM=dumb"], &["report", &trace]),
        (
            &mark[..],
            &["convert", "-q", "--force", "--to", "heph", &trace],
        ),
    ] {
        let text = on_terminal(80, variables, words);
        assert!(!text.contains("P:"), "{words:?}: {text}");
        assert_eq!(
            text.contains("app::step"),
            words[0] == "report",
            "{words:?}: {text}"
        );
    }
    // A pager that ends at once is no error.
    let gone = on_terminal(
        80,
        &["FDR_PAGER=true"],
        &["replay", "--records", &golden("v5-mt.fdr")],
    );
    assert_eq!(gone, "");
}

#[test]
fn help_fits_80_columns() {
    let commands = commands();
    for name in commands
        .iter()
        .map(|name| Some(name.as_str()))
        .chain([None])
    {
        let help = |columns: &str| {
            let words: Vec<&str> = name.into_iter().chain(["--help"]).collect();
            let output = command()
                .args(words)
                .env("COLUMNS", columns)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            stdout(&output).to_owned()
        };
        let narrow = help("80");
        assert!(width(&narrow) <= 80, "{name:?}: {narrow}");
        // What is behind the options is not wrapped again, with stray words.
        let tail = |help: &str| {
            help.rsplit_once("General options:")
                .map(|(_, tail)| tail.to_owned())
        };
        let last = |help: &str| {
            let tail = tail(help)?;
            let (_, tail) = tail.split_once("\n\n")?;
            Some(tail.to_owned())
        };
        assert_eq!(last(&narrow), last(&help("100")), "{name:?}");
    }
}

#[test]
fn help_of_cargo_fdr_fits_80_columns() {
    for words in [&["fdr", "--help"][..], &["fdr", "instrument", "--help"]] {
        let help = |columns: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-fdr"));
            let output = command.args(words).env("COLUMNS", columns).output();
            stdout(&output.expect("it runs")).to_owned()
        };
        let narrow = help("80");
        assert!(width(&narrow) <= 80, "{words:?}: {narrow}");
        // What is behind the options is not wrapped again, with stray words.
        let paragraphs = |help: String| {
            help.split("\n\n")
                .skip(4)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (narrow, wide) = (paragraphs(narrow), paragraphs(help("100")));
        assert!(!narrow.is_empty());
        assert_eq!(narrow.last(), wide.last(), "{words:?}");
    }
}

#[test]
fn messages_are_wrapped_between_words() {
    let text = on_terminal(60, &["FDR_PAGER="], &["report", &golden("v3-trunc.fdr")]);
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let joined = words(&text).join(" ");
    assert!(
        joined.contains("the trace is damaged in 2 places"),
        "{text}"
    );
    let piped = fdr(&["report", &golden("v3-trunc.fdr")]);
    for word in words(stderr(&piped)) {
        assert!(words(&text).contains(&word), "{word} was cut: {text}");
    }
}

#[test]
fn violations_and_damage_are_wrapped_between_words() {
    let damaged = golden("v3-trunc.fdr");
    for command in ["verify", "info"] {
        let text = plain(&on_terminal(60, &["FDR_PAGER="], &[command, &damaged]));
        let lines = text.lines().filter(|line| !line.contains(&damaged));
        assert!(width(&lines.collect::<Vec<_>>().join("\n")) <= 60, "{text}");
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains("the file ends"), "{text}");
    }
}

#[test]
fn messages_of_cargo_fdr_are_wrapped_between_words() {
    let line = format!(
        "stty cols 60 rows 50; exec {} fdr bogus",
        env!("CARGO_BIN_EXE_cargo-fdr")
    );
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .output();
    let output = output.expect("script, of util-linux, is there");
    let text = stdout(&output).replace('\r', "");
    assert!(width(&text) <= 60, "{text}");
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("run, test, bench, build, check"), "{text}");
}

#[test]
fn command_line_errors_wrap_between_words() {
    for columns in [60, 80] {
        let wrong = on_terminal(columns, &[], &["report", "--since", "xyz", "t.fdr"]);
        let text = plain(&wrong);
        assert!(width(&text) <= columns, "{columns}: {text}");
        for word in ["(ns of the trace's clock)", "For more information"] {
            let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(joined.contains(word), "{columns}: {text}");
        }
    }
}

#[test]
fn very_long_names_lose_their_middle() {
    let folder = Folder::new("very-long");
    let trace = folder.file("t.fdr");
    let name = format!(
        "<app::{}::Pool as app::Checkout>::next",
        "PooledConnection::".repeat(12)
    );
    let info = info(&[&name]);
    let thread = thread(7, &"tokio-runtime-worker-".repeat(2));
    write(
        &trace,
        &info,
        &[(thread, common::calls(&[(1, 1), (5, 1), (9, -1)]))],
    );
    for columns in [60, 80, 120] {
        for command in ["report", "state", "info"] {
            let text = plain(&on_terminal(columns, &["FDR_PAGER="], &[command, &trace]));
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| !line.starts_with("file "))
                .collect();
            assert!(width(&lines.join("\n")) <= columns, "{columns}: {text}");
            assert!(text.contains('\u{2026}'), "{columns}: {text}");
        }
    }
    let piped = answer(&["state", &trace]);
    assert_contains(&piped, &name);
}

#[test]
fn left_out_columns_are_named_in_order() {
    let folder = Folder::new("left-out");
    let trace = folder.file("t.fdr");
    large(&trace);
    let text = plain(&on_terminal(80, &[], &["report", "--no-pager", &trace]));
    assert_contains(&text, "no room for self %, min, mean, p90, max:");
}

#[test]
fn ways_to_write_moments_are_a_list() {
    let help = answer(&["state", "--help"]);
    let (_, list) = help.split_once("is one of these:\n").expect("a list");
    let (list, _) = list.split_once("\n\n").expect("an end of the list");
    assert!(list.lines().all(|line| line.starts_with("  ")), "{list}");
    assert_eq!(list.lines().count(), 7, "{list}");
}

#[test]
fn wrong_values_are_explained_by_option() {
    let (_folder, trace) = in_folder("values", "t.fdr", small);
    for (words, wanted) in [
        (&["convert", "--to", "trace"][..], "there is no such format"),
        (
            &["convert", "--to", "xrai"],
            "there is no such format; the nearest is xray\n",
        ),
        (
            &["report", "-j", "0"],
            "not a number of threads from 1 on; leave the option out for one per core",
        ),
        (
            &["report", "-n", "0"],
            "it must be 1 or more; leave the option out for all",
        ),
        (
            &["replay", "--records", "--offset", "x"],
            "a byte offset is a number, as 8000 or 0x1f40",
        ),
        (
            &["pack", "--level", "x"],
            "a level is a number from 1 to 19",
        ),
        (
            &["pack", "--level", "20"],
            "a level is a number from 1 to 19",
        ),
        (
            &["top", "x"],
            "not the number of a process; `fdr rings` lists those that record",
        ),
        (&["record", "--to", "json"], "there is no such format"),
        (
            &["record", "--to", "perfetto"],
            "only `fdr convert` writes this",
        ),
    ] {
        let named = if words[0] == "top" {
            None
        } else {
            Some(&*trace)
        };
        let output = fdr(&words.iter().copied().chain(named).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let messages = stderr(&output);
        assert!(messages.contains(wanted), "{words:?}: {messages}");
        for odd in ["invalid digit", "nearest is et", "no limit"] {
            assert!(!messages.contains(odd), "{words:?}: {messages}");
        }
    }
}
