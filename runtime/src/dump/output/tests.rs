//! Tests of the output pattern.

use super::*;

const NAMES: Names<'_> = Names {
    program: "prog",
    pid: 42,
    number: 3,
    unix_time_s: 1_795_182_901,
};

fn parse(pattern: &str) -> Result<Output, String> {
    Output::parse(OsStr::new(pattern), Path::new("/start"), "fdr")
}

fn path(pattern: &str) -> String {
    parse(pattern)
        .unwrap()
        .path(&NAMES)
        .into_os_string()
        .into_string()
        .unwrap()
}

#[test]
fn placeholders_expand() {
    assert_eq!(path("%e.%p.%n.fdr"), "/start/prog.42.3.fdr");
    assert_eq!(path("/x/%e-%t"), "/x/prog-20261120T135501Z");
    assert_eq!(path("100%%-%n%n"), "/start/100%-33");
    assert_eq!(path("/%e/%p/f"), "/prog/42/f");
}

#[test]
fn folders_get_the_default_name() {
    assert_eq!(path("sub/"), "/start/sub/prog.42.3.fdr");
    assert_eq!(path("/"), "/prog.42.3.fdr");
    assert_eq!(path("/proc/self"), "/proc/self/prog.42.3.fdr");
    assert_eq!(path("/proc/self/status"), "/proc/self/status");
    assert_eq!(path("/proc/.."), "/proc/../prog.42.3.fdr");
    // "%%" is a text like any other: there is no such folder.
    assert_eq!(path("/proc/%%self"), "/proc/%self");
    let relative = Output::parse(OsStr::new("self"), Path::new("/proc"), "x").unwrap();
    assert_eq!(relative.path(&NAMES), Path::new("/proc/self/prog.42.3.x"));
}

#[test]
fn a_percent_sign_in_the_folder_stays() {
    let output = Output::parse(OsStr::new("a"), Path::new("/50%n/%"), "fdr").unwrap();
    assert_eq!(output.path(&NAMES), Path::new("/50%n/%/a"));
}

#[test]
fn the_folder_is_known_before_any_dump() {
    let folder = |pattern: &str| parse(pattern).unwrap().folder("prog", 42);
    assert_eq!(folder("%e.%n"), Path::new("/start"));
    assert_eq!(folder("a//%e/"), Path::new("/start/a/prog"));
    assert_eq!(folder("/f"), Path::new("/"));
    assert_eq!(folder("/proc/self"), Path::new("/proc/self"));
    let folder_of = |path: PathBuf| path.parent().unwrap().to_owned();
    assert_eq!(
        folder_of(parse("x/%p/y.%n").unwrap().path(&NAMES)),
        folder("x/%p/y.%n")
    );
}

#[test]
fn only_patterns_with_a_number_keep_every_dump() {
    assert!(parse("a.%n").unwrap().is_numbered());
    assert!(parse("a/").unwrap().is_numbered());
    assert!(!parse("a").unwrap().is_numbered());
    assert!(!parse("a.%%n.%t").unwrap().is_numbered());
}

#[test]
fn unknown_placeholders_are_refused() {
    for (pattern, reason) in [
        ("%x", "unknown %x; known are %e"),
        ("a%\n", "unknown %\\n; known are %e"),
        ("a%", "single %"),
        ("a%%%", "single %"),
        ("%n/a", "folder"),
        ("%t/", "folder"),
    ] {
        let error = parse(pattern).unwrap_err();
        assert!(error.contains(reason), "{pattern}: {error}");
        assert!(!error.contains('\n'), "{error:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_kept() {
    let output = Output::parse(OsStr::from_bytes(b"\xff.%n"), Path::new("/s"), "fdr").unwrap();
    assert_eq!(output.path(&NAMES).as_os_str().as_bytes(), b"/s/\xff.3");
    let error = Output::parse(OsStr::from_bytes(b"%\xff"), Path::new("/s"), "fdr").unwrap_err();
    assert!(error.contains("%\\xff"), "{error}");
}

#[test]
fn a_program_name_is_one_visible_component() {
    for (name, expected) in [
        ("prog", "prog"),
        ("prog (deleted)", "prog"),
        ("a/b\n\u{7f}c", "a_b__c"),
        ("..", "_."),
        (".hidden", "_hidden"),
        ("", "program"),
        (" (deleted)", "program"),
        ("100%n", "100%n"),
    ] {
        assert_eq!(sanitised(OsStr::new(name)), expected, "{name:?}");
    }
    assert_eq!(sanitised(OsStr::from_bytes(b"\xffx")), "_x");
    let long = sanitised(OsStr::new(&"é".repeat(200)));
    assert_eq!(long, "é".repeat(64));
    let own = program_name();
    assert!(own.starts_with("fdr") && !own.contains('/'), "{own}");
}

#[test]
fn a_percent_sign_in_the_program_stays() {
    let names = Names {
        program: "%n%p",
        ..NAMES
    };
    assert_eq!(parse("%e").unwrap().path(&names), Path::new("/start/%n%p"));
}

#[test]
fn times_are_those_of_the_calendar() {
    let text = |unix_time_s| {
        let mut text = Vec::new();
        utc(unix_time_s, &mut |part| text.extend_from_slice(part));
        String::from_utf8(text).unwrap()
    };
    for (unix_time_s, expected) in [
        (0, "19700101T000000Z"),
        (68_169_599, "19720228T235959Z"),
        (68_169_600, "19720229T000000Z"),
        (951_782_400, "20000229T000000Z"),
        (951_868_800, "20000301T000000Z"),
        (1_735_689_599, "20241231T235959Z"),
        (4_107_542_400, "21000301T000000Z"),
        (253_402_300_799, "99991231T235959Z"),
    ] {
        assert_eq!(text(unix_time_s), expected);
    }
    assert!(text(u64::MAX).ends_with('Z'));
}

#[test]
fn a_new_extension_replaces_the_last() {
    for (pattern, expected) in [
        ("/t/%e.%p.%n.htdump", "/t/prog.7.3.fdr"),
        ("/t/x.y.ctf", "/t/x.y.fdr"),
        ("/t.d/trace", "/t.d/trace.fdr"),
        ("/t/.hidden", "/t/.hidden.fdr"),
        ("/t/a.%p", "/t/a.7.fdr"),
        ("/t/", "/t/prog.7.3.fdr"),
    ] {
        let output = Output::parse(OsStr::new(pattern), Path::new("/"), "htdump").unwrap();
        let names = Names {
            program: "prog",
            pid: 7,
            number: 3,
            unix_time_s: 0,
        };
        let path = output.with_extension("fdr").path(&names);
        assert_eq!(path, Path::new(expected), "{pattern}");
    }
}

#[test]
fn named_folders_are_made() {
    let facts = |pattern: &str| {
        let output = parse(pattern).unwrap();
        let missing = output.missing_folder().map(Path::to_owned);
        (output.makes_folders(), missing)
    };
    // The folder at start is not looked at.
    assert_eq!(facts("x.fdr"), (false, None));
    assert_eq!(facts("no/such/"), (true, None));
    assert_eq!(facts("/no/such/"), (true, None));
    assert_eq!(facts("/proc/x.fdr"), (false, None));
    assert_eq!(facts("/proc/%p/x.fdr"), (true, None));
    assert_eq!(facts("/proc/x-%p/x.fdr"), (true, None));
    let missing = |path: &str| Some(PathBuf::from(path));
    assert_eq!(facts("no/x.fdr"), (false, missing("/start/no/")));
    assert_eq!(facts("/no/such/x.fdr"), (false, missing("/no/such/")));
    assert_eq!(facts("/no/such-%p/x.fdr"), (true, missing("/no/")));
    assert_eq!(
        facts("/proc/version/x.%n"),
        (false, missing("/proc/version/"))
    );
}

#[test]
fn devices_are_known() {
    let facts = |pattern: &str| {
        let output = parse(pattern).unwrap();
        (output.is_null(), output.is_device(), output.is_no_file())
    };
    assert_eq!(facts("/dev/null"), (true, false, true));
    assert_eq!(facts("/dev/full"), (false, true, true));
    assert_eq!(facts("/proc/version"), (false, false, false));
    assert_eq!(facts("/dev/null.%n"), (false, false, false));
    assert_eq!(facts("/dev/"), (false, false, false));
    // Neither children nor a crash have another name: it would be a file in /dev.
    let output = parse("/dev/null").unwrap();
    assert_eq!(output.clone().of_children(), output);
    assert_eq!(output.clone().with_extension("fdr"), output);
}
