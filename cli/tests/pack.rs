//! Packed traces through the whole tool. Every command reads them like plain traces. `unpack` gives every byte back.
//! Damage is reported, also that of hostile files.

use std::fs;
use std::path::Path;

use crate::common::{
    Folder, answer, assert_contains, assert_damaged_from_the_beginning, assert_read_to_the_damage,
    assert_refused, command, contents, fdr, figures, goldens, in_folder, rich, rich_at, small,
    small_named, stderr, stdout,
};

/// Packs with the tool and gives the new file's path.
fn pack(trace: &str, folder: &Folder) -> String {
    let name = Path::new(trace).file_name().unwrap().to_str().unwrap();
    let end = if Path::new(trace).is_dir() {
        "tar.zst"
    } else {
        "zst"
    };
    answer(&[
        "pack",
        "-q",
        "--force",
        trace,
        "-o",
        &format!("{}/", folder.path().display()),
    ]);
    folder.file(&format!("{name}.{end}"))
}

/// What is in a file, or in each of a folder's.
fn bytes(path: &str) -> Vec<(String, Vec<u8>)> {
    let read = |path: &Path| fs::read(path).unwrap();
    let path = Path::new(path);
    match path.is_dir() {
        true => contents(path)
            .into_iter()
            .map(|name| (name.clone(), read(&path.join(name))))
            .collect(),
        false => vec![(String::new(), read(path))],
    }
}

#[test]
fn golden_traces_come_back_byte_for_byte() {
    let folder = Folder::new("packed-goldens");
    let mut formats = std::collections::BTreeSet::new();
    for (format, trace) in goldens() {
        formats.insert(format);
        let packed = pack(&trace, &folder);
        let again = folder.file("again");
        let output = fdr(&["unpack", "-q", &packed, "-o", &again]);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{trace}: {output:?}"
        );
        assert!(bytes(&again) == bytes(&trace), "{trace}");
        match Path::new(&again).is_dir() {
            true => fs::remove_dir_all(&again).unwrap(),
            false => fs::remove_file(&again).unwrap(),
        }
        let mut both = [&packed, &trace].map(|trace| figures(trace));
        // Only the unpacked ring shows whether its process was killed, because processes map it by its path. The reason
        // is a record, too.
        both.iter_mut()
            .filter(|_| format == "ring")
            .for_each(|report| drop(report["reason"].take()));
        assert_eq!(both[0], both[1], "{trace}");
        if format != "ring" {
            assert_eq!(
                answer(&["replay", "--records", &packed]),
                answer(&["replay", "--records", &trace]),
                "{trace}"
            );
        }
        let (plain, of_packed) = (fdr(&["verify", &trace]), fdr(&["verify", &packed]));
        assert_eq!(plain.status.code(), of_packed.status.code(), "{trace}");
        let findings = stdout(&plain).replace(&trace, &packed);
        assert_eq!(stdout(&of_packed), findings, "{trace}");
    }
    let wanted: Vec<_> = fdr_formats::registry::FORMATS
        .iter()
        .map(|format| format.name)
        .collect();
    assert!(
        wanted.iter().all(|name| formats.contains(name)),
        "{formats:?}"
    );
}

#[test]
fn every_command_reads_a_packed_trace() {
    let (folder, trace) = in_folder("packed-commands", "rich.fdr", |path| {
        rich_at(path, 2_000_000_000)
    });
    let packed = pack(&trace, &folder);
    for words in [
        &["info"][..],
        &["convert", "--to", "map", "-o", "-"],
        &["state", "--at", "+1us"],
        &["report", "--csv"],
    ] {
        let both = [&trace, &packed].map(|trace| {
            let output = command().args(words).arg(trace).output().unwrap();
            assert!(output.status.success(), "{words:?}: {output:?}");
            // The file's own line tells its name and size.
            let lines = output
                .stdout
                .split(|&byte| byte == b'\n')
                .map(<[u8]>::to_vec);
            lines
                .filter(|line| !line.starts_with(b"file "))
                .collect::<Vec<_>>()
        });
        assert_eq!(both[0], both[1], "{words:?}");
    }
    let text = answer(&["info", &packed]);
    assert!(
        text.starts_with(&format!("file       {packed} (")),
        "{text}"
    );
    answer(&["convert", "-q", &packed, "--to", "heph"]);
    answer(&[
        "convert",
        "-q",
        &trace,
        "--to",
        "heph",
        "-o",
        &folder.file("plain.heph"),
    ]);
    assert!(bytes(&folder.file("rich.heph")) == bytes(&folder.file("plain.heph")));
}

#[test]
fn a_packed_ring_is_recovered_as_it_is() {
    let folder = Folder::new("packed-ring");
    let ring = folder.file("killed.fdr-ring");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/ring/killed.fdr-ring");
    fs::copy(golden, &ring).unwrap();
    let packed = pack(&ring, &folder);
    fs::remove_file(ring).unwrap();
    answer(&["dump", "-q", &packed]);
    assert!(folder.path().join("killed.fdr").is_file());
    assert_eq!(
        answer(&["verify", "--allow-open", &folder.file("killed.fdr")])
            .lines()
            .count(),
        1
    );
    // What is lost of a damaged one may be what the ring had.
    let cut = folder.file("cut.fdr-ring.zst");
    let whole = fs::read(&packed).unwrap();
    fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    assert_refused(&["dump", "-q", "--remove", "--force", &cut], "fdr unpack");
    assert!(Path::new(&cut).exists());
    // One that is whole is not known to be dead: it stays until that is asked for.
    answer(&["dump", "-q", "--remove", "--force", &packed]);
    assert!(!Path::new(&packed).exists());
}

#[test]
fn names_and_refusals() {
    let folder = Folder::new("packed-names");
    let (first, second) = (folder.file("one.fdr"), folder.file("two.fdr"));
    small(&first);
    small(&second);
    let result = fdr(&["pack", &first, &second, "--level", "19"]);
    assert!(result.status.success());
    let head = format!("fdr: {first}.zst: ");
    assert!(stderr(&result).starts_with(&head), "{result:?}");
    assert_contains(stderr(&result), " : 1\n");
    assert_eq!(
        contents(folder.path()),
        ["one.fdr", "one.fdr.zst", "two.fdr", "two.fdr.zst"]
    );
    let text = folder.file("notes.txt");
    fs::write(
        &text,
        "no trace, but long enough to be one, if it were one at all",
    )
    .unwrap();
    let packed = format!("{first}.zst");
    let empty = Folder::new("packed-nothing");
    let refused: [(&[&str], &str); 10] = [
        (&["pack", &first], "exists; --force replaces it"),
        (&["pack", &packed], "is compressed already"),
        (&["pack", &text], "not a trace file that fdr knows"),
        (
            &["pack", empty.path().to_str().unwrap()],
            "not a trace folder",
        ),
        (&["pack", "/dev/null"], "is no regular file"),
        (
            &["pack", "-o", "-", &first, &second],
            "takes one trace at a time",
        ),
        (&["unpack", &first], "nothing to unpack"),
        (&["unpack", &packed], "exists; --force replaces it"),
        (
            &["unpack", "-o", "-", &packed, &packed],
            "takes one packed trace at a time",
        ),
        (
            &["unpack", folder.path().to_str().unwrap()],
            "a folder; name the packed files in it",
        ),
    ];
    for (words, why) in refused {
        assert_refused(words, why);
    }
    assert_eq!(
        fdr(&["pack", "--level", "20", &first]).status.code(),
        Some(2)
    );
    // Its content tells what it is, not its name.
    let odd = folder.file("odd");
    fs::rename(&packed, &odd).unwrap();
    assert_eq!(figures(&odd), figures(&second));
    assert_contains(stderr(&fdr(&["unpack", &odd])), "-o FILE gives a name");
    answer(&["unpack", "-q", &odd, "-o", &folder.file("back")]);
    assert!(bytes(&folder.file("back")) == bytes(&first));
    let piped = folder.file("piped.zst");
    fs::write(&piped, fdr(&["pack", "-q", "-o", "-", &first]).stdout).unwrap();
    answer(&["unpack", "-q", &piped]);
    assert!(bytes(&folder.file("piped")) == bytes(&first));
    let sent = fdr(&["unpack", &piped, "-o", "-"]);
    assert!(
        sent.status.success() && sent.stderr.is_empty() && sent.stdout == fs::read(&first).unwrap()
    );
    answer(&["unpack", "-q", "--force", &format!("{second}.zst")]);
}

#[test]
fn names_with_trailing_slash_are_folders() {
    let folder = Folder::new("packed-slash");
    let (trace, odd) = (folder.file("one.fdr"), folder.file("odd"));
    small_named(&trace, &["app::run"]);
    fs::write(&odd, fdr(&["pack", "-q", "-o", "-", &trace]).stdout).unwrap();
    let new = folder.file("new/");
    assert_refused(&["unpack", &odd, "-o", &new], "-o FILE gives a name");
    assert_eq!(contents(folder.path()), ["odd", "one.fdr"]);
    let named = folder.file("odd.zst");
    fs::rename(&odd, &named).unwrap();
    answer(&["unpack", "-q", &named, "-o", &new]);
    assert!(bytes(&folder.file("new/odd")) == bytes(&trace));
}

#[test]
fn folders_are_packed_beside_themselves() {
    let folder = Folder::new("packed-here");
    let (trace, ctf) = (folder.file("one.fdr"), folder.file("app.ctf"));
    small_named(&trace, &["app::run"]);
    answer(&["convert", "-q", &trace, "--to", "ctf", "-o", &ctf]);
    let files = contents(Path::new(&ctf));
    let here = |words: &[&str]| {
        let mut command = command();
        command.current_dir(&ctf).args(words);
        command.output().expect("fdr runs")
    };
    let output = here(&["pack", "."]);
    assert!(output.status.success(), "{output:?}");
    let packed = folder.file("app.ctf.tar.zst");
    assert_eq!(figures(&packed), figures(&ctf));
    for output in ["x.tar.zst", "./x.tar.zst", "../app.ctf/x.tar.zst"] {
        let output = here(&["pack", "-o", output, "."]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_contains(stderr(&output), "-o gives another place");
    }
    assert_eq!(contents(Path::new(&ctf)), files);
    // Through a link it is called as the link.
    let link = folder.file("now");
    std::os::unix::fs::symlink("app.ctf", &link).unwrap();
    answer(&["pack", "-q", &link]);
    let names = [
        "app.ctf",
        "app.ctf.tar.zst",
        "now",
        "now.tar.zst",
        "one.fdr",
    ];
    assert_eq!(contents(folder.path()), names);
    answer(&[
        "unpack",
        "-q",
        &folder.file("now.tar.zst"),
        "-o",
        &folder.file("back"),
    ]);
    assert_eq!(contents(Path::new(&folder.file("back"))), files);
}

#[test]
fn cut_files_are_read_and_flips_reported() {
    let (folder, trace) = in_folder("packed-damaged", "t.fdr", rich);
    let packed = fs::read(pack(&trace, &folder)).unwrap();
    // Two frames, of which the second is cut: the first is intact.
    let whole = fs::read(&trace).unwrap();
    let (first, second) = whole.split_at(whole.len() / 2);
    let zstd = |bytes: &[u8]| {
        let mut to = zstd::Encoder::new(Vec::new(), 3).unwrap();
        to.include_checksum(true).unwrap();
        std::io::Write::write_all(&mut to, bytes).unwrap();
        to.finish().unwrap()
    };
    let begin = zstd(first).len();
    let mut two = [zstd(first), zstd(second)].concat();
    two.truncate(two.len() - 2);
    let cut = folder.file("cut.fdr.zst");
    fs::write(&cut, &two).unwrap();
    let commands = [
        &["report"][..],
        &["info"],
        &["replay", "--records"],
        &["convert", "--to", "heph", "--force"],
    ];
    assert_read_to_the_damage(&cut, &format!("{begin}: "), &commands);
    assert_contains(
        stderr(&fdr(&["report", &cut])),
        ": the trace is damaged in ",
    );
    let unpacked = fdr(&["unpack", &cut]);
    assert_eq!(unpacked.status.code(), Some(1), "{unpacked:?}");
    let intact = fs::read(folder.file("cut.fdr")).unwrap();
    assert!(whole.starts_with(&intact) && intact.len() >= first.len());

    let mut flipped = packed;
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x10;
    let bad = folder.file("bad.fdr.zst");
    fs::write(&bad, flipped).unwrap();
    assert_damaged_from_the_beginning(&bad);
    assert!(!folder.path().join("bad.fdr").exists());
}

#[test]
fn a_bomb_is_reported_and_leaves_nothing() {
    let folder = Folder::new("packed-bomb");
    let temporary = Folder::new("packed-bomb-temporary");
    let bomb = folder.file("bomb.fdr.zst");
    let frame = zstd::bulk::compress(&vec![1; 64 << 20], 1).unwrap();
    fs::write(&bomb, frame.repeat(40)).unwrap();
    for words in [&["report"][..], &["unpack"]] {
        let output = command()
            .args(words)
            .arg(&bomb)
            .env("TMPDIR", temporary.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = stderr(&output);
        assert_contains(error, "that unpack into more than 2.0 GiB");
        assert_contains(error, "--any-size");
    }
    assert_eq!(contents(folder.path()), ["bomb.fdr.zst"]);
    assert_eq!(contents(temporary.path()), [""; 0]);
}

#[test]
fn unwritable_outputs_are_named() {
    let (folder, trace) = in_folder("packed-full", "t.fdr", rich);
    let packed = pack(&trace, &folder);
    let out = folder.file("out.fdr");
    // 512 bytes or 1 KiB, as the shell likes.
    let script = "ulimit -f 1; exec \"$0\" unpack \"$1\" -o \"$2\"";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_fdr"), &packed, &out])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let line = format!("fdr: {packed}: {out}: File too large (os error 27)\n");
    assert_eq!(stderr(&output), line);
    assert!(
        !contents(folder.path())
            .iter()
            .any(|name| name.contains("out"))
    );
}

#[test]
fn what_is_unpacked_for_reading_is_gone_afterwards() {
    let folder = Folder::new("packed-temporary");
    let temporary = Folder::new("packed-temporary-files");
    let trace = folder.file("t.fdr");
    rich(&trace);
    answer(&["convert", "-q", &trace, "--to", "ctf"]);
    let packed = [pack(&trace, &folder), pack(&folder.file("t.ctf"), &folder)];
    for packed in &packed {
        let run = |folder: &Path| {
            command()
                .arg("report")
                .arg(packed)
                .env("TMPDIR", folder)
                .output()
                .unwrap()
        };
        let output = run(temporary.path());
        assert!(output.status.success(), "{output:?}");
        assert_eq!(contents(temporary.path()), [""; 0]);
        let output = run(Path::new("/no/such/folder"));
        assert_eq!(output.status.code(), Some(2));
        assert_contains(stderr(&output), "TMPDIR chooses another folder");
    }
    assert_eq!(figures(&packed[1]), figures(&folder.file("t.ctf")));
}
