//! Ring files of dead processes: damaged ones, unfinished ones, ones with hostile names, and ones
//! among other files. `tests/tests/recover.rs` tests the rings of real processes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::{
    Folder, answer, assert_contains, assert_refused, contents, fdr, json, messages, stderr, stdout,
};
use fdr_formats::registry::targets;
use serde_json::Value;

/// The golden ring, of a process that there can't be.
fn by_hand() -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/ring");
    fs::read(Path::new(folder).join("by_hand.fdr-ring")).expect("a golden file")
}

fn ring(folder: &Folder, name: &str) -> String {
    let path = folder.file(name);
    fs::write(&path, by_hand()).expect("a ring");
    path
}

/// The same, but the process was killed, not crashed.
fn killed(folder: &Folder, name: &str) -> String {
    let path = ring(folder, name);
    let mut bytes = by_hand();
    bytes[140..144].fill(0);
    fs::write(&path, bytes).expect("a ring");
    path
}

/// A file that is a trace.
fn is_whole(trace: &str) {
    let text = answer(&["verify", trace]);
    assert_contains(&text, ": OK: 7 records in 1 thread, 3 synthetic");
}

#[test]
fn a_ring_becomes_a_trace_beside_it() {
    let folder = Folder::new("recover");
    let ring = ring(&folder, "golden.7.5f.fdr-ring");
    let output = fdr(&["dump", &ring]);
    assert!(output.status.success(), "{output:?}");
    let trace = folder.file("golden.7.5f.fdr");
    let messages = stderr(&output);
    let size = fs::metadata(&trace).expect("the trace").len();
    let wanted = format!(
        "fdr: {trace}: crash: SIGSEGV at 0x10 in thread 101: 7 records of 1 thread, 10 overwritten, \
         4 dropped, {size} B\nfdr: {trace}: not in the trace: 2 dropped records of threads that had no ring \
         (if they are many, raise FDR_MEMORY or lower FDR_BUFFER); \
         6 overwritten records of 1 ended thread whose rings were reused\n"
    );
    assert_eq!(messages, wanted);
    is_whole(&trace);
    let info = answer(&["info", &trace]);
    assert_contains(&info, "written    crash: SIGSEGV at 0x10 in thread 101\n");
    assert_contains(&info, "program    golden\n");
    // A second dump needs `--force`.
    assert_refused(&["dump", &ring], "exists; --force replaces it");
    answer(&["dump", "--force", "--quiet", &ring]);
    assert_eq!(
        contents(folder.path()),
        ["golden.7.5f.fdr", "golden.7.5f.fdr-ring"]
    );
}

#[test]
fn a_ring_becomes_a_trace_of_any_format() {
    let folder = Folder::new("recover-formats");
    let ring = killed(&folder, "a.fdr-ring");
    let report = |trace: &str| {
        let mut report = json(&["report", "--json", trace]);
        let rows = report["functions"]
            .as_array_mut()
            .expect("functions")
            .iter_mut();
        let row = |row: &mut Value| (row["name"].to_string(), row["calls"].to_string());
        let mut rows: Vec<(String, String)> = rows.map(row).collect();
        rows.sort();
        rows
    };
    let wanted = report(&ring);
    for target in targets() {
        let out = folder.file(&format!("out-{}", target.name));
        let output = fdr(&["dump", &ring, "--to", target.name, "-o", &out]);
        assert!(output.status.success(), "{}: {output:?}", target.name);
        let lossy = target.name == "tcstate";
        assert!(lossy || report(&out) == wanted, "{}", target.name);
    }
}

#[test]
fn every_command_reads_a_ring() {
    let folder = Folder::new("ring-commands");
    let ring = killed(&folder, "a.fdr-ring");
    is_whole(&ring);
    let info = answer(&["info", &ring]);
    assert_contains(&info, "format     ring of process 4200000, as XRay FDR");
    assert_contains(
        &info,
        "written    after the process had ended without a dump",
    );
    assert_contains(answer(&["report", &ring]), "golden::f2");
    assert_contains(answer(&["replay", "--records", &ring]), "Entry");
    let map = folder.file("map.elf");
    answer(&["convert", "--to", "map", &ring, "-o", &map]);
    assert_contains(answer(&["state", &ring, "--at", "start"]), "main");
    let out = folder.file("out.heph");
    answer(&["convert", &ring, "--to", "heph", "-o", &out]);
}

#[test]
fn folders_stand_for_dead_processes_rings() {
    let folder = Folder::new("recover-folder");
    let elsewhere = Folder::new("recover-elsewhere");
    killed(&folder, "a.1.x.fdr-ring");
    killed(&folder, "b.2.y.fdr-ring");
    fs::write(folder.file("notes.txt"), "no ring").expect("a file");
    // Other users may have put links and pipes into the folder.
    let planted = killed(&elsewhere, "planted.fdr-ring");
    symlink(&planted, folder.file("c.3.z.fdr-ring")).expect("a link");
    let pipe = folder.file("d.4.w.fdr-ring");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo")
            .success()
    );
    // A process may be making it just now.
    fs::write(folder.file("e.5.v.fdr-ring"), [0; 8192]).expect("a ring");
    let out = folder.file("traces/");
    let path = folder.path().to_str().expect("UTF-8");
    let messages = messages(&["dump", path, "-o", &out, "--remove"]);
    assert_eq!(messages.lines().count(), 5, "{messages}");
    assert_contains(&messages, "1 ring without a head passed over");
    assert_eq!(
        contents(folder.path()),
        [
            "c.3.z.fdr-ring",
            "d.4.w.fdr-ring",
            "e.5.v.fdr-ring",
            "notes.txt",
            "traces"
        ]
    );
    for name in ["a.1.x.fdr", "b.2.y.fdr"] {
        is_whole(&format!("{out}{name}"));
    }
    assert!(Path::new(&planted).exists());
    assert_refused(&["dump", path], "there is no ring in this folder");
}

#[test]
fn damaged_rings_are_read_and_kept() {
    let folder = Folder::new("recover-damaged");
    let ring = ring(&folder, "a.fdr-ring");
    let bytes = by_hand();
    let end = bytes.len() - 12;
    fs::write(&ring, &bytes[..end]).expect("a ring");
    let messages = messages(&["dump", "--remove", &ring]);
    // Half a record does not count as a record.
    let place = format!(
        "{ring}: is damaged at byte {}: thread 101: the file ends here",
        end - 4
    );
    assert_contains(&messages, &place);
    assert_contains(
        &messages,
        "5 records of 1 thread, 10 overwritten, 6 dropped",
    );
    assert_contains(&messages, "is damaged, and is not removed");
    assert!(Path::new(&ring).exists());
    // The judge of a ring is the same as that of a trace.
    let verdict = fdr(&["verify", &ring]);
    assert_eq!(verdict.status.code(), Some(1), "{verdict:?}");
    assert_contains(stdout(&verdict), &format!("at byte {}", end - 4));
}

#[test]
fn partial_dumps_do_not_remove_rings() {
    let folder = Folder::new("recover-remove");
    let ring = killed(&folder, "a.fdr-ring");
    // CTF can't say by how much the counters differ, for one.
    let mut bytes = fs::read(&ring).expect("a ring");
    bytes[137] = 5;
    fs::write(&ring, bytes).expect("a ring");
    let out = folder.file("ctf");
    let output = fdr(&["dump", "--remove", "--to", "ctf", "-o", &out, &ring]);
    assert!(output.status.success(), "{output:?}");
    let message = "has what the trace's format can't hold, and is not removed";
    assert_contains(stderr(&output), message);
    assert!(Path::new(&ring).exists());
    // The trace never takes the ring's place, whatever the way to it.
    let link = folder.file("link");
    symlink(&ring, &link).expect("a link");
    for (from, to) in [(&ring, &ring), (&ring, &link), (&link, &ring)] {
        assert_refused(
            &["dump", "--force", "--remove", "-o", to, from],
            "is the ring itself",
        );
        assert_eq!(fs::read(&ring).expect("the ring")[..7], *b"FDRRING");
    }
    // The file goes, not what leads there.
    let out = folder.file("t.fdr");
    let output = fdr(&["dump", "--remove", "-o", &out, &link]);
    assert!(output.status.success(), "{output:?}");
    is_whole(&out);
    assert!(!Path::new(&ring).exists() && fs::symlink_metadata(&link).is_ok());
}

#[test]
fn rings_with_doubtful_chunks_are_kept() {
    let folder = Folder::new("recover-newest");
    let ring = killed(&folder, "a.fdr-ring");
    let mut bytes = fs::read(&ring).expect("a ring");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (slots, stride, made) = (word(24) as usize, word(32) as usize, 2);
    let mut slots = (0..made).map(|slot| slots + slot * stride);
    let slot = slots.find(|slot| word(slot + 40) > 0).expect("a chunk");
    bytes[slot + 40] ^= 0x80;
    fs::write(&ring, bytes).expect("a ring");
    let messages = messages(&["dump", "--remove", &ring]);
    assert_contains(&messages, "number of its newest chunk is damaged");
    assert_contains(&messages, ": 7 records of 1 thread, 10 overwritten");
    assert_contains(&messages, "is damaged, and is not removed");
    assert!(Path::new(&ring).exists());
}

#[test]
fn what_is_no_ring_is_explained() {
    let folder = Folder::new("no-ring");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.file(name);
        fs::write(&path, bytes).expect("a file");
        path
    };
    let unfinished = file("a.fdr-ring", &[0; 8192]);
    let empty = file("b.fdr-ring", b"");
    let newer = file("c.fdr-ring", b"FDRRING\x02 and more");
    let text = file("notes.txt", b"just text");
    let cut = file("d.fdr-ring", &by_hand()[..100]);
    for (path, why) in [
        (&unfinished, "was never finished"),
        (&empty, "was never finished"),
        (
            &newer,
            "a ring file of version 2, and this fdr reads version 1",
        ),
        (&text, "not a ring file"),
        (&cut, "at byte 100: the ring file ends within its head"),
    ] {
        let output = fdr(&["dump", path]);
        assert_eq!(output.status.code(), Some(2), "{path}");
        let messages = stderr(&output);
        assert!(
            messages.contains(why) && messages.lines().count() == 1,
            "{messages}"
        );
    }
    assert_contains(stderr(&fdr(&["report", &unfinished])), "was never finished");
}

#[test]
fn rings_are_listed_with_their_states() {
    let folder = Folder::new("list");
    ring(&folder, "a.1.x.fdr-ring");
    let hostile = killed(&folder, "b\x1b[31m.fdr-ring");
    let mut bytes = fs::read(&hostile).expect("a ring");
    bytes[168..183].copy_from_slice(b"x\x1b[2J\n</script>");
    fs::write(&hostile, bytes).expect("a ring");
    fs::write(folder.file("c.3.z.fdr-ring"), [0; 100]).expect("a file");
    fs::write(folder.file("notes.txt"), "no ring").expect("a file");
    let path = folder.path().to_str().expect("UTF-8");
    let output = fdr(&["rings", path]);
    assert!(output.status.success(), "{output:?}");
    let (table, messages) = (stdout(&output), stderr(&output));
    assert!(
        !table.contains('\x1b') && !messages.contains('\x1b'),
        "{table}{messages}"
    );
    assert_contains(messages, "c.3.z.fdr-ring");
    assert_contains(messages, "never finished");
    assert_eq!(table.lines().count(), 4, "{table}");
    assert_contains(table, "crashed SIGSEGV  2023-11-14T22:13:20Z  golden");
    let rows = json(&["rings", "--json", path]);
    let rows = rows.as_array().expect("rows");
    let states: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["state"].as_str())
        .collect();
    assert_eq!(states, ["crashed SIGSEGV", "dead", "unreadable"]);
    assert_eq!(rows[0]["records"], 21);
    assert_eq!(rows[0]["threads"], 1);
    assert_eq!(rows[0]["started_ns"], 1_700_000_000_000_000_000_u64);
    assert_eq!(rows[1]["program"], "x\x1b[2J\n</script>");
    let empty = Folder::new("list-empty");
    let path = empty.path().to_str().expect("UTF-8");
    assert_eq!(
        answer(&["rings", path]),
        format!("no ring files in {path}\n")
    );
    let absent = fdr(&["rings", "/no/such/folder", path]);
    assert_eq!(absent.status.code(), Some(2));
    assert_eq!(
        stderr(&absent),
        "fdr: /no/such/folder: No such file or directory (os error 2)\n"
    );
}

#[test]
fn snapshots_need_a_recording_process() {
    let own = std::process::id().to_string();
    for (process, why) in [
        (own.as_str(), "does not record"),
        ("4294967295", "there is no process 4294967295"),
        ("0", "not the number of a process"),
        ("x", "not the number of a process"),
    ] {
        assert_refused(&["dump", process], why);
    }
}

#[test]
fn a_packed_ring_keeps_its_reason() {
    let folder = Folder::new("rings-packed");
    let ring = killed(&folder, "a.fdr-ring");
    let reason = |path: &str| json(&["info", "--json", path])["reason"].clone();
    assert_eq!(reason(&ring), "killed");
    let packed = folder.file("a.zst");
    let _ = answer(&["pack", "-o", &packed, &ring]);
    assert_eq!(reason(&packed), "killed");
    let trace = folder.file("a.fdr");
    let _ = answer(&["dump", "-q", "-o", &trace, &packed]);
    assert_eq!(reason(&trace), "killed");
}
