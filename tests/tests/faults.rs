//! A recorder may lack something: space, rights, descriptors, memory, a folder. Its program prints and ends exactly as
//! without the recorder, except for one line of the recorder's; and nothing half-made is left of its files. Each row of
//! the tables is run once without and once with a recorder.

use crate::faults_support::{UNSHARE, all_ways, may, steadfast};
use fdr_formats::registry;
use fdr_formats::writer::Target;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;

#[test]
fn a_file_system_that_takes_no_files() {
    for way in all_ways() {
        let places = "FDR=1 FDR_PANIC=1 FDR_SIGNAL=WINCH FDR_OUT=/proc/traces/ FDR_DIR=/proc/rings";
        let left = steadfast(places, "true", &way).check(&[]);
        assert_eq!((left.warnings, left.traces.len()), (1, 0), "{left:?}");
        assert_eq!(left.lost, traces_of(&way), "{left:?}");
    }
}

/// How many traces a program asks the recorder for that ends in such a way. A call of `dump` says itself what
/// became of it.
fn traces_of(way: &str) -> usize {
    match way.rsplit_once(' ').map_or(way, |(_, way)| way) {
        "panic" => 2,
        "exit" if way.contains("caught") || way.contains("signal") => 2,
        _ if way.contains("fork") => 2,
        _ => 1,
    }
}

/// The ring and the trace have the same trouble, in one folder: the line about the ring is none about the
/// trace.
#[test]
fn lost_traces_are_always_reported() {
    for way in all_ways() {
        for (out, dir) in [
            ("/proc/x", "/proc"),
            ("/proc/x", "."),
            ("/proc/x-%n", "/proc"),
        ] {
            let places = format!("FDR=1 FDR_PANIC=1 FDR_SIGNAL=WINCH FDR_OUT={out} FDR_DIR={dir}");
            let row = steadfast(&places, "true", &way);
            let left = row.check(&[]);
            assert_eq!(
                left.warnings,
                usize::from(dir == "/proc"),
                "{row:?}: {left:?}"
            );
            assert_eq!(left.lost, traces_of(&way), "{row:?}: {left:?}");
            for line in left
                .lines
                .iter()
                .filter(|line| line.contains("no trace was"))
            {
                assert!(line.contains("/proc/x"), "{line}");
                assert!(line.contains("; "), "{line}");
            }
            let quiet = steadfast(&format!("{places} FDR_LOG=quiet"), "true", &way);
            let left = quiet.check(&[]);
            assert!(left.lines.is_empty(), "{quiet:?}: {left:?}");
        }
    }
}

#[test]
fn a_standard_error_that_nobody_reads() {
    // A full pipe. A write that waits for it would wait for ever.
    let full = "mkdir traces rings; mkfifo pipe; exec 3<>pipe; \
                dd if=/dev/zero of=pipe bs=4096 count=64 oflag=nonblock 2>/dev/null; true";
    for way in ["exit", "signal exit", "dump exit", "fork", "abort", "crash"] {
        let row = steadfast(PLACES, full, &format!("work {way}"));
        let left = row.with_prefix("sh -c 'exec \"$@\" 2>&3' sh").check(&[]);
        assert!(left.lines.is_empty() && !left.traces.is_empty(), "{left:?}");
    }
}

/// The tool with the same faults: it prints an error and ends, and leaves no output.
#[test]
fn the_tool_leaves_nothing_half_made() {
    let folder = Folder::new("fault-tool");
    let places = format!("{PLACES} FDR_CRASH=0");
    let row = steadfast(&places, "mkdir traces rings", "much dump abort");
    let trace = row.check_in(&folder, &[]).traces[0].clone();
    let rings = std::fs::read_dir(folder.join("rings")).expect("rings");
    let ring = rings.map(|ring| ring.expect("a ring").path()).next();
    let ring = ring.expect("a ring is left");
    let tool = fdr_tests::tool();
    let wants = [
        (
            "a full disk",
            UNSHARE,
            "mkdir small && mount -t tmpfs -o size=16K none small && cd small",
        ),
        (
            "a limit",
            &["prlimit", "--fsize=4096"][..],
            "mkdir small && cd small",
        ),
        (
            "no right",
            UNSHARE,
            "mkdir small && mount --bind small small && mount -o remount,bind,ro small && cd small",
        ),
    ];
    for (case, around, before) in wants {
        if around == UNSHARE && !may(case, before) {
            continue;
        }
        let convert =
            |target: &Target| format!("convert {} --to {} -o out", trace.display(), target.name);
        let mut commands: Vec<String> = registry::targets().map(convert).collect();
        commands.push(format!("dump {} -o out", ring.display()));
        commands.push(format!("dump {} --to ctf -o out", ring.display()));
        commands.push(format!("state {} --snapshot out", trace.display()));
        commands.push(format!("convert {} --to map -o out", trace.display()));
        for command in commands {
            let place = Folder::new("fault-tool-place");
            // Spools go elsewhere.
            let script = format!("{before} && \"$0\" {command}; code=$?; ls -A; exit $code");
            let mut words = around.to_vec();
            let tool = tool.to_str().expect("UTF-8");
            words.extend(["sh", "-c", &script, tool]);
            let outcome = Program::new(words[0], &place).args(&words[1..]).run();
            // An output that is small enough for the place may be there, if it is whole.
            let whole = outcome.status.success() && outcome.stdout == "out\n";
            let refused = outcome.status.code() == Some(2) && outcome.stdout.is_empty();
            let line = outcome.stderr.starts_with("fdr: ");
            assert!(whole || (refused && line), "{case}: {command}: {outcome:?}");
            assert!(
                !command.starts_with("dump") || refused,
                "{case}: {command}: {outcome:?}"
            );
        }
    }
}

/// Whose disk it is that is full: the output's, or that of the folder for temporary files.
#[test]
fn the_tool_names_the_disk_that_is_full() {
    let mount = "mkdir small && mount -t tmpfs -o size=16K none small";
    if !may("a full disk", mount) {
        return;
    }
    let folder = Folder::new("fault-tool-full");
    let row = steadfast(PLACES, "mkdir traces rings", "much dump exit");
    let trace = row.check_in(&folder, &[]).traces[0].clone();
    let tool = fdr_tests::tool();
    let script = format!(
        "{mount}; mv {} t.fdr; fdr() {{ \"$0\" \"$@\"; }}; fdr pack -q t.fdr || exit 99; \
         fdr convert -q t.fdr --to ctf -o t.ctf || exit 99; fdr pack -q t.ctf || exit 99; \
         fdr unpack t.fdr.zst -o small/out; echo $? $(ls -A small); \
         fdr unpack t.ctf.tar.zst -o small/out; echo $? $(ls -A small); \
         TMPDIR=small fdr report t.fdr.zst; echo $? $(ls -A small); \
         TMPDIR=small fdr unpack t.fdr.zst -o - ; echo $? $(ls -A small); \
         TMPDIR=small fdr convert t.fdr --to xray -o - ; echo $? $(ls -A small)",
        trace.display()
    );
    let program = Program::new(UNSHARE[0], &folder).args(&UNSHARE[1..]);
    let tool = tool.to_str().expect("UTF-8");
    let outcome = program.args(&["sh", "-c", &script, tool]).run();
    assert_eq!(outcome.stdout, "2\n".repeat(5), "{outcome:?}");
    let full = "No space left on device (os error 28)";
    let temporary = format!("small (TMPDIR chooses another folder): {full}");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let whose = |line: &&str| {
        line.split_once(": ")
            .map_or("", |(_, whose)| whose)
            .to_owned()
    };
    assert_eq!(lines.len(), 5, "{outcome:?}");
    assert_eq!(whose(&lines[0]), format!("t.fdr.zst: small/out: {full}"));
    assert!(
        lines[1].starts_with("fdr: t.ctf.tar.zst: small/out: "),
        "{outcome:?}"
    );
    assert!(
        lines[1].ends_with(full) && !lines[1].contains("TMPDIR"),
        "{outcome:?}"
    );
    assert_eq!(whose(&lines[2]), format!("t.fdr.zst: {temporary}"));
    assert_eq!(whose(&lines[3]), format!("t.fdr.zst: {temporary}"));
    assert_eq!(whose(&lines[4]), temporary);
}

/// The shell command that makes a file system of `kib` KiB, with folders for rings and traces.
fn small(kib: u32) -> String {
    format!(
        "mkdir small && mount -t tmpfs -o size={kib}K none small && cd small && mkdir traces rings"
    )
}

const PLACES: &str = "FDR=1 FDR_PANIC=1 FDR_SIGNAL=WINCH FDR_OUT=traces/ FDR_DIR=rings";

#[test]
fn a_disk_without_room_for_a_ring() {
    if !may("a full disk", &small(64)) {
        return;
    }
    // Nothing at all; a trace; a trace, and a part of the ring's head; the head, and no region.
    for kib in [16, 64, 160, 256] {
        for way in all_ways() {
            let row = steadfast(PLACES, &small(kib), &way);
            let left = row.check(UNSHARE);
            // A crash does not wait for the line of a ring that found no room.
            let crashes = way.ends_with("abort") || way.ends_with("crash");
            assert!(
                left.warnings >= 1 || (kib >= 160 && crashes),
                "{row:?}: {left:?}"
            );
            let names = |line: &String| line.contains("no space for a thread's ring");
            let is_named = left.lines.iter().any(names);
            assert!(is_named || kib < 256 || crashes, "{row:?}: {left:?}");
        }
    }
}

#[test]
fn full_disks_at_new_threads_and_traces() {
    if !may("a full disk", &small(64)) {
        return;
    }
    for before in ["work", "threads"] {
        for way in all_ways() {
            let steps = format!("{before} fill threads signal dump {way}");
            let places = format!("{PLACES} FDR_BUFFER=128K FDR_MEMORY=2M");
            let row = steadfast(&places, &small(6000), &steps);
            let left = row.check(UNSHARE);
            assert!(left.warnings + left.lost >= 1, "{row:?}: {left:?}");
            let names = |line: &String| line.to_lowercase().contains("no space left on");
            assert!(left.lines.iter().any(names), "{row:?}: {left:?}");
        }
    }
}

#[test]
fn full_disks_within_a_trace() {
    if !may("a full disk", &small(64)) {
        return;
    }
    // The ring has 2 MiB and is full of records; a trace needs more than is left.
    for format in ["xray", "xray1", "heph", "htdump"] {
        for way in ["dump exit", "signal exit", "caught exit", "exit"] {
            let places = format!("{PLACES} FDR_BUFFER=1M FDR_MEMORY=2M FDR_FORMAT={format}");
            let row = steadfast(&places, &small(1800), &format!("much {way}"));
            let left = row.check(UNSHARE);
            assert!(left.traces.is_empty(), "{row:?}: {left:?}");
            assert!(
                (1..=traces_of(way)).contains(&left.lost),
                "{row:?}: {left:?}"
            );
        }
    }
}

#[test]
fn folders_that_may_not_be_written() {
    let reasons = [
        // Without the right to pass over rights, root has its own folder's.
        (
            "no right",
            "setpriv --bounding-set=-dac_override,-dac_read_search",
            "mkdir ro && chmod 500 ro && cd ro",
        ),
        (
            "read-only",
            "",
            "mkdir -p ro/traces ro/rings && mount --bind ro ro && mount -o remount,bind,ro ro && cd ro",
        ),
    ];
    for (name, prefix, before) in reasons {
        let before = format!("umask 077; {before}");
        if !may(name, &before) {
            continue;
        }
        for way in all_ways() {
            let row = steadfast(PLACES, &before, &way).with_prefix(prefix);
            let left = row.check(UNSHARE);
            // A child has a line of its own, for it tries to make a ring as well.
            let most = 1 + usize::from(way.ends_with("fork"));
            let once = (1..=most).contains(&left.warnings);
            assert!(once && left.traces.is_empty(), "{name}: {row:?}: {left:?}");
            assert_eq!(left.lost, traces_of(&way), "{name}: {row:?}: {left:?}");
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files() {
    // Nothing, a part of the ring's head, a region, all but the trace.
    for bytes in [0, 512, 150_000, 1_500_000, 70_000_000] {
        for way in all_ways() {
            let row = steadfast(PLACES, "mkdir traces rings", &way);
            let _ = row
                .with_prefix(&format!("prlimit --fsize={bytes}"))
                .check(&[]);
        }
    }
}

#[test]
fn few_descriptors() {
    for limit in [4, 6, 100] {
        for way in all_ways() {
            let steps = format!("work starve threads signal dump {way}");
            let row = steadfast(PLACES, "mkdir traces rings", &steps);
            let _ = row
                .with_prefix(&format!("prlimit --nofile={limit}"))
                .check(&[]);
        }
    }
}

#[test]
fn little_memory() {
    // MiB of addresses: none for the ring, some for a part of what is needed.
    for limit in [30, 250, 280, 330, 500] {
        for way in ["exit", "signal dump exit", "caught", "abort", "crash"] {
            let row = steadfast(PLACES, "mkdir traces rings", &format!("work {way}"));
            let _ = row
                .with_prefix(&format!("prlimit --as={}", limit << 20))
                .check(&[]);
        }
    }
}

#[test]
fn folders_that_vanish() {
    for way in all_ways() {
        let row = steadfast(
            &format!("{PLACES}/"),
            "mkdir traces rings",
            &format!("work lose {way}"),
        );
        let left = row.check(&[]);
        assert_eq!((left.warnings, left.lost), (0, 0), "{row:?}: {left:?}");
    }
    // The one that the program is in: nothing can be made there any more.
    for way in all_ways() {
        let before = "mkdir gone && cd gone && rmdir ../gone";
        let row = steadfast("FDR=1", before, &way);
        let left = row.check(&[]);
        assert_eq!(
            (left.warnings, left.traces.len()),
            (1, 0),
            "{row:?}: {left:?}"
        );
        // A panic asks for none here.
        let traces = 1 + usize::from(way.ends_with("fork"));
        assert_eq!(left.lost, traces, "{row:?}: {left:?}");
    }
}

#[test]
fn only_trace_paths_are_reported_without_faults() {
    for way in all_ways() {
        let row = steadfast(PLACES, "mkdir traces rings", &way);
        let left = row.check(&[]);
        assert_eq!((left.warnings, left.lost), (0, 0), "{row:?}: {left:?}");
        assert!(!left.traces.is_empty(), "{row:?}: {left:?}");
    }
}

#[test]
fn streams_to_full_files_end_cleanly() {
    if !may("a full disk", &small(64)) {
        return;
    }
    for format in ["htdump", "heph", "xray"] {
        let places =
            format!("{PLACES} FDR_MODE=stream FDR_BUFFER=1M FDR_MEMORY=2M FDR_FORMAT={format}");
        let row = steadfast(&places, &small(2600), "much much exit");
        let left = row.check(UNSHARE);
        assert_eq!(left.lost, 1, "{row:?}: {left:?}");
    }
}
