//! Dense packed traces through the whole tool. Every command reads them like plain traces. `unpack` gives every byte
//! back. Damage is told. A trace that has no dense form is refused.

use std::fs;
use std::path::Path;

use crate::common::{
    Folder, answer, assert_damaged_from_the_beginning, assert_read_to_the_damage, command,
    contents, fdr, figures, goldens, rich, small, stderr, stdout,
};

/// Packs with the tool and gives the new file's path.
fn pack(trace: &str, folder: &Folder) -> String {
    let name = Path::new(trace).file_name().unwrap().to_str().unwrap();
    let to = format!("{}/", folder.path().display());
    answer(&["pack", "--dense", "-q", "--force", trace, "-o", &to]);
    folder.file(&format!("{name}.dense.zst"))
}

/// The dense stream in it, as any zstd gives it.
fn unzip(packed: &str) -> String {
    let dense = packed.strip_suffix(".zst").unwrap().to_owned();
    let bytes = zstd::stream::decode_all(&*fs::read(packed).unwrap()).unwrap();
    fs::write(&dense, bytes).unwrap();
    dense
}

#[test]
fn every_golden_trace_comes_back_or_is_refused_with_the_reason() {
    let folder = Folder::new("dense-goldens");
    let mut packed_ones = 0;
    for (format, trace) in goldens() {
        if !["xray", "ring"].contains(&format) {
            let to = folder.file("refused");
            let output = fdr(&["pack", "--dense", &trace, "-o", &to]);
            assert_eq!(output.status.code(), Some(2), "{trace}: {output:?}");
            assert!(stderr(&output).contains("pack it without"), "{output:?}");
            assert!(!Path::new(&to).exists());
            continue;
        }
        packed_ones += 1;
        let packed = pack(&trace, &folder);
        let dense = unzip(&packed);
        for file in [&packed, &dense] {
            let again = folder.file("again");
            let output = fdr(&["unpack", "-q", "--force", file, "-o", &again]);
            assert!(
                output.status.success() && output.stderr.is_empty(),
                "{trace}: {output:?}"
            );
            assert!(
                fs::read(&again).unwrap() == fs::read(&trace).unwrap(),
                "{trace}"
            );
            if format == "xray" {
                assert_eq!(figures(file), figures(&trace), "{trace}");
                let (plain, of_file) = (fdr(&["verify", &trace]), fdr(&["verify", file]));
                assert_eq!(plain.status.code(), of_file.status.code(), "{trace}");
                let findings = stdout(&plain).replace(&trace, file);
                assert_eq!(stdout(&of_file), findings, "{trace}");
            }
        }
    }
    assert!(packed_ones > 10);
}

#[test]
fn every_command_reads_a_dense_trace() {
    let folder = Folder::new("dense-commands");
    let trace = folder.file("rich.fdr");
    rich(&trace, 2_000_000_000);
    let packed = pack(&trace, &folder);
    let dense = unzip(&packed);
    for words in [
        &["info"][..],
        &["map", "-o", "-"],
        &["state", "--at", "+1us"],
        &["report", "--csv"],
        &["records"],
        &["flame"],
    ] {
        let all = [&trace, &packed, &dense].map(|trace| {
            let output = command().args(words).arg(trace).output().unwrap();
            assert!(output.status.success(), "{words:?}: {output:?}");
            // The file's own line tells its name and size.
            let text = String::from_utf8_lossy(&output.stdout).replace(trace.as_str(), "TRACE");
            let lines = text.lines().filter(|line| !line.starts_with("file "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(all[0], all[1], "{words:?}");
        assert_eq!(all[0], all[2], "{words:?}");
    }
    // Names: neither end is part of the trace's.
    answer(&["convert", "-q", &trace, "--to", "heph"]);
    let plain = fs::read(folder.file("rich.heph")).unwrap();
    for file in [&packed, &dense] {
        answer(&["convert", "-q", "--force", file, "--to", "heph"]);
        assert!(fs::read(folder.file("rich.heph")).unwrap() == plain);
    }
    let names = [
        "rich.fdr",
        "rich.fdr.dense",
        "rich.fdr.dense.zst",
        "rich.heph",
    ];
    assert_eq!(contents(folder.path()), names);
    fs::remove_file(&trace).unwrap();
    answer(&["unpack", "-q", &packed]);
    fs::remove_file(&trace).unwrap();
    answer(&["unpack", "-q", &dense]);
    let again = fdr(&["pack", "--dense", &dense]);
    assert!(
        stderr(&again).contains("is compressed already"),
        "{again:?}"
    );
}

#[test]
fn a_dense_ring_is_recovered() {
    let folder = Folder::new("dense-ring");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/ring/killed.fdr-ring");
    let packed = pack(golden.to_str().unwrap(), &folder);
    answer(&["recover", "-q", &packed]);
    let plain = folder.file("plain.fdr");
    answer(&["recover", "-q", golden.to_str().unwrap(), "-o", &plain]);
    let calls = |trace: &str| figures(trace)["functions"].clone();
    assert_eq!(calls(&folder.file("killed.fdr")), calls(&plain));
}

#[test]
fn names_and_refusals() {
    let folder = Folder::new("dense-names");
    let (trace, text) = (folder.file("one.fdr"), folder.file("notes.txt"));
    small(&trace, &["app::run", "app::step"]);
    let said = fdr(&["pack", "--dense", &trace]);
    assert!(said.status.success());
    let head = format!("fdr: {trace}.dense.zst: ");
    assert!(stderr(&said).starts_with(&head), "{said:?}");
    fs::write(
        &text,
        "no trace, but long enough to be one, if it were one at all",
    )
    .unwrap();
    let heph = folder.file("one.heph");
    answer(&["convert", "-q", &trace, "--to", "heph", "-o", &heph]);
    let ctf = folder.file("one.ctf");
    answer(&["convert", "-q", &trace, "--to", "ctf", "-o", &ctf]);
    let packed = format!("{trace}.dense.zst");
    for (file, why) in [
        (&trace, "exists; --force replaces it"),
        (&packed, "is compressed already"),
        (&text, "not a trace file that fdr knows"),
        (&heph, "is Heph"),
        (&ctf, "is a folder; --dense is for XRay FDR files and rings"),
    ] {
        let output = fdr(&["pack", "--dense", file]);
        assert_eq!(output.status.code(), Some(2), "{file}: {output:?}");
        assert!(stderr(&output).contains(why), "{file}: {output:?}");
    }
    let names = [
        "notes.txt",
        "one.ctf",
        "one.fdr",
        "one.fdr.dense.zst",
        "one.heph",
    ];
    assert_eq!(contents(folder.path()), names);
    // Its content tells what it is, not its name.
    let odd = folder.file("odd");
    fs::rename(&packed, &odd).unwrap();
    assert_eq!(figures(&odd), figures(&trace));
    let piped = fdr(&["pack", "--dense", "-q", "-o", "-", &trace]).stdout;
    assert!(piped == fs::read(&odd).unwrap());
}

#[test]
fn a_cut_file_is_read_up_to_there_and_a_flipped_one_is_told() {
    let folder = Folder::new("dense-damaged");
    let trace = folder.file("t.fdr");
    // Two blocks: a small trace, and one that begins in the second.
    rich(&trace, 1_000_000_000);
    let mut whole = fs::read(&trace).unwrap();
    let calls = whole.len() & !7;
    while whole.len() < (4 << 20) + 100_000 {
        whole.extend_from_within(32..calls);
    }
    fs::write(&trace, &whole).unwrap();
    let packed = pack(&trace, &folder);
    let bytes = fs::read(&packed).unwrap();
    let cut = folder.file("cut.fdr.dense.zst");
    fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    let commands = [&["report"][..], &["info"], &["records"]];
    assert_read_to_the_damage(&cut, "", &commands);
    let unpacked = fdr(&["unpack", &cut]);
    assert_eq!(unpacked.status.code(), Some(1), "{unpacked:?}");
    assert!(fs::read(folder.file("cut.fdr")).unwrap() == whole[..4 << 20]);

    let bad = folder.file("bad.fdr.dense.zst");
    let mut flipped = bytes;
    flipped[1000] ^= 0x10;
    fs::write(&bad, flipped).unwrap();
    assert_damaged_from_the_beginning(&bad);
    assert!(!folder.path().join("bad.fdr").exists());
    // The same in a stream that is not compressed: its own checksum tells.
    let dense = unzip(&packed);
    let mut stream = fs::read(&dense).unwrap();
    let place = stream.len() - 50;
    stream[place] ^= 0x10;
    fs::write(&dense, stream).unwrap();
    let output = fdr(&["unpack", "--force", &dense]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        stderr(&output).contains("checksum") || stderr(&output).contains("column"),
        "{output:?}"
    );
    assert!(fs::read(&trace).unwrap() == whole[..4 << 20]);
}

#[test]
fn a_stream_of_another_version_says_so() {
    let folder = Folder::new("dense-version");
    let trace = folder.file("t.fdr");
    small(&trace, &["app::run"]);
    let dense = unzip(&pack(&trace, &folder));
    let mut stream = fs::read(&dense).unwrap();
    stream[7] = 2;
    fs::write(&dense, &stream).unwrap();
    let zipped = folder.file("u.fdr.dense.zst");
    fs::write(&zipped, zstd::bulk::compress(&stream, 1).unwrap()).unwrap();
    for file in [&dense, &zipped] {
        let output = fdr(&["report", file]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("another version"), "{output:?}");
    }
}

#[test]
fn a_dense_trace_goes_to_a_pipe_as_the_trace() {
    let folder = Folder::new("dense-pipe");
    let trace = folder.file("t.fdr");
    // Zeros, which are not written, at its end.
    small(&trace, &["app::run"]);
    let mut whole = fs::read(&trace).unwrap();
    whole.resize((4 << 20) + 300_000, 0);
    fs::write(&trace, &whole).unwrap();
    let packed = pack(&trace, &folder);
    let dense = unzip(&packed);
    for file in [&packed, &dense] {
        let output = fdr(&["unpack", file, "-o", "-"]);
        assert!(output.status.success(), "{:?}", output.status);
        assert!(output.stderr.is_empty() && output.stdout == whole);
    }
    let bytes = fs::read(&packed).unwrap();
    fs::write(&packed, &bytes[..bytes.len() - 1]).unwrap();
    let output = fdr(&["unpack", &packed, "-o", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout == whole[..4 << 20]);
    assert!(stderr(&output).contains("damaged"), "{}", stderr(&output));
    assert!(!folder.path().join("-").exists());
}

#[test]
fn dense_in_a_name_is_the_traces_own_unless_it_is_a_stream() {
    let folder = Folder::new("dense-own-name");
    let trace = folder.file("run.dense");
    small(&trace, &["app::run"]);
    answer(&["pack", "-q", &trace]);
    let bytes = fs::read(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    answer(&["unpack", "-q", &format!("{trace}.zst")]);
    assert_eq!(contents(folder.path()), ["run.dense", "run.dense.zst"]);
    assert!(fs::read(&trace).unwrap() == bytes);
    // Of one that is dense, too, one end of the two goes.
    answer(&["pack", "-q", "--dense", &trace]);
    answer(&["unpack", "-q", "--force", &format!("{trace}.dense.zst")]);
    let names = ["run.dense", "run.dense.dense.zst", "run.dense.zst"];
    assert_eq!(contents(folder.path()), names);
    answer(&["convert", "-q", &format!("{trace}.zst"), "--to", "heph"]);
    assert!(folder.path().join("run.dense.heph").exists());
}

#[test]
fn a_damaged_small_trace_gives_nothing_as_the_help_says() {
    let help = fdr(&["pack", "--help"]);
    let help = stdout(&help);
    let said: Vec<_> = help.split_whitespace().collect();
    assert!(
        said.join(" ")
            .contains("If the trace is smaller than 4 MiB, nothing of it can be read.")
    );
    let folder = Folder::new("dense-small-cut");
    let trace = folder.file("t.fdr");
    small(&trace, &["app::run"]);
    let packed = pack(&trace, &folder);
    fs::remove_file(&trace).unwrap();
    let bytes = fs::read(&packed).unwrap();
    fs::write(&packed, &bytes[..bytes.len() - 1]).unwrap();
    let output = fdr(&["unpack", &packed]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        stderr(&output).contains("the file ends within"),
        "{output:?}"
    );
    assert!(!Path::new(&trace).exists());
}
