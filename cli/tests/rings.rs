//! Ring files of dead processes: damaged ones, unfinished ones, ones with hostile names, and ones
//! among other files. `tests/tests/recover.rs` tests the rings of real processes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::{Folder, answer, fdr, json, stderr, stdout};
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

fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

/// A file that is a trace.
fn is_whole(trace: &str) {
    let text = answer(&["verify", trace]);
    assert!(
        text.contains(": OK: 7 records in 1 thread, 3 synthetic"),
        "{text}"
    );
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
    assert!(
        info.contains("written    crash: SIGSEGV at 0x10 in thread 101\n"),
        "{info}"
    );
    assert!(info.contains("program    golden\n"), "{info}");
    // A second dump needs `--force`.
    let again = fdr(&["dump", &ring]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("exists; --force replaces it"));
    assert!(fdr(&["dump", "--force", "--quiet", &ring]).status.success());
    assert_eq!(names(&folder), ["golden.7.5f.fdr", "golden.7.5f.fdr-ring"]);
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
    assert!(
        info.contains("format     ring of process 4200000, as XRay FDR"),
        "{info}"
    );
    assert!(
        info.contains("written    after the process had ended without a dump"),
        "{info}"
    );
    assert!(answer(&["report", &ring]).contains("golden::f2"));
    assert!(answer(&["replay", "--records", &ring]).contains("Entry"));
    let map = folder.file("map.elf");
    assert!(
        fdr(&["convert", "--to", "map", &ring, "-o", &map])
            .status
            .success()
    );
    assert!(answer(&["state", &ring, "--at", "start"]).contains("main"));
    let out = folder.file("out.heph");
    assert!(
        fdr(&["convert", &ring, "--to", "heph", "-o", &out])
            .status
            .success()
    );
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
    let output = fdr(&["dump", path, "-o", &out, "--remove"]);
    assert!(output.status.success(), "{output:?}");
    let messages = stderr(&output);
    assert_eq!(messages.lines().count(), 5, "{messages}");
    assert!(
        messages.contains("1 ring without a head passed over"),
        "{messages}"
    );
    assert_eq!(
        names(&folder),
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
    let none = fdr(&["dump", path]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("there is no ring in this folder"));
}

#[test]
fn damaged_rings_are_read_and_kept() {
    let folder = Folder::new("recover-damaged");
    let ring = ring(&folder, "a.fdr-ring");
    let bytes = by_hand();
    let end = bytes.len() - 12;
    fs::write(&ring, &bytes[..end]).expect("a ring");
    let output = fdr(&["dump", "--remove", &ring]);
    assert!(output.status.success(), "{output:?}");
    let messages = stderr(&output);
    // Half a record does not count as a record.
    let place = format!(
        "{ring}: is damaged at byte {}: thread 101: the file ends here",
        end - 4
    );
    assert!(messages.contains(&place), "{messages}");
    assert!(
        messages.contains("5 records of 1 thread, 10 overwritten, 6 dropped"),
        "{messages}"
    );
    assert!(
        messages.contains("is damaged, and is not removed"),
        "{messages}"
    );
    assert!(Path::new(&ring).exists());
    // The judge of a ring is the same as that of a trace.
    let verdict = fdr(&["verify", &ring]);
    assert_eq!(verdict.status.code(), Some(1), "{verdict:?}");
    assert!(stdout(&verdict).contains(&format!("at byte {}", end - 4)));
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
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
    assert!(Path::new(&ring).exists());
    // The trace never takes the ring's place, whatever the way to it.
    let link = folder.file("link");
    symlink(&ring, &link).expect("a link");
    for (from, to) in [(&ring, &ring), (&ring, &link), (&link, &ring)] {
        let output = fdr(&["dump", "--force", "--remove", "-o", to, from]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("is the ring itself"));
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
    let output = fdr(&["dump", "--remove", &ring]);
    assert!(output.status.success(), "{output:?}");
    let messages = stderr(&output);
    assert!(
        messages.contains("number of its newest chunk is damaged"),
        "{messages}"
    );
    assert!(
        messages.contains(": 7 records of 1 thread, 10 overwritten"),
        "{messages}"
    );
    assert!(
        messages.contains("is damaged, and is not removed"),
        "{messages}"
    );
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
    assert!(stderr(&fdr(&["report", &unfinished])).contains("was never finished"));
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
    assert!(
        messages.contains("c.3.z.fdr-ring") && messages.contains("never finished"),
        "{messages}"
    );
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(
        table.contains("crashed SIGSEGV  2023-11-14T22:13:20Z  golden"),
        "{table}"
    );
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
        let output = fdr(&["dump", process]);
        assert_eq!(output.status.code(), Some(2), "{process}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
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
