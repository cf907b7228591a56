//! What fuzzing found once, and the seeds that it begins with: each holds, with every target. The rules
//! are those of the fuzzing program, which shares its files with this test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fuzz::check::check;
use crate::fuzz::test_output;
use fdr_formats::TraceInfo;
use fdr_formats::bytes::ReadAt;
use fdr_formats::error::Error;
use fdr_formats::registry::{self, FORMATS, Format, Opener};
use fdr_formats::writer::{Kind, Output, Target, WriterResult};

fn folder(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz")).join(name)
}

/// The inputs of a format; none where there is no folder.
fn inputs(kind: &str, format: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder(kind).join(format)) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let input = |path: PathBuf| (path.clone(), fs::read(path).expect("a readable file"));
    paths.map(input).collect()
}

#[test]
fn what_was_found_stays_mended() {
    for format in FORMATS {
        for (path, input) in inputs("regressions", format.name) {
            println!("{}", path.display());
            check(format, &input, registry::targets());
        }
    }
}

#[test]
fn every_target_has_a_clean_seed() {
    for format in FORMATS {
        let seeds = inputs("corpus", format.name);
        for target in format.targets {
            let found = seeds.iter().any(|(path, _)| path.ends_with(target.name));
            assert!(found, "{}: cargo xtask fuzz --seeds", target.name);
        }
        for (path, input) in seeds {
            println!("{}", path.display());
            assert!(
                input.len() < 64 << 10,
                "{} is no small seed",
                path.display()
            );
            check(format, &input, registry::targets());
        }
    }
}

#[test]
fn input_folders_are_named_by_format() {
    for kind in ["corpus", "regressions"] {
        for entry in fs::read_dir(folder(kind)).expect("the folder") {
            let name = entry.expect("a readable folder").file_name();
            let known = FORMATS.iter().any(|format| name == format.name);
            assert!(known || name == "README.md", "{kind}: {name:?}");
        }
    }
}

/// A seed of the first format, which can be read.
fn readable() -> Vec<u8> {
    inputs("corpus", FORMATS[0].name).swap_remove(0).1
}

/// The check with one target that is at fault.
fn with_target(create: fn(Output, &TraceInfo) -> WriterResult) {
    let target = Target {
        name: "faulty",
        title: "a fault",
        extension: "x",
        kind: Kind::File,
        file_as_stream: false,
        create,
    };
    check(&FORMATS[0], &readable(), [&target].into_iter());
}

#[test]
#[should_panic(expected = "own faulty can't be opened")]
fn a_target_that_writes_nothing_is_a_finding() {
    with_target(|_, info| {
        let xray = registry::target("xray").expect("the native format");
        // The output goes to a file that the test does not read.
        let elsewhere = test_output::TestOutput::new(Kind::File)?;
        (xray.create)(elsewhere.output()?, info)
    });
}

#[test]
#[should_panic(expected = "faulty can't be begun: not today")]
fn targets_that_cannot_begin_are_findings() {
    with_target(|_, _| Err(Error::NotATrace("not today".into())));
}

#[test]
#[should_panic(expected = "a reader that panics")]
fn a_reader_that_panics_is_a_finding() {
    let faulty = Format {
        name: "faulty",
        title: "a fault",
        opener: Opener::File {
            probe: |_| true,
            open: |bytes: Box<dyn ReadAt>| panic!("a reader that panics at {} bytes", bytes.size()),
        },
        targets: &[],
    };
    check(&faulty, b"x", [].into_iter());
}
