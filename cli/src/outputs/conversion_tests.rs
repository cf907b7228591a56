//! Several threads write what one thread writes: the same bytes, losses and counts.

use std::fs::{self, File};
use std::path::Path;

use fdr_formats::writer::{Output, Target};
use fdr_formats::{Call, Source, registry};

use super::*;
use crate::testing::random_xray::random_trace;
use crate::testing::{MemoryTrace, entry, exit};

/// The written files by their names, and the messages.
type ConvertedFiles = (Vec<(String, Vec<u8>)>, String);

fn made(source: &dyn Source, to: &'static Target, jobs: usize) -> ConvertedFiles {
    let place = output_file::unnamed_folder().expect("a folder for temporary files");
    let folder = place.temporary();
    let output = match to.kind {
        Kind::Folder => Output::Folder(folder.to_owned()),
        Kind::File | Kind::Stream => {
            let mut options = File::options();
            let options = options.read(true).write(true).create_new(true);
            Output::File(options.open(folder.join("trace")).expect("a new file"))
        }
    };
    let job = Job {
        trace: Path::new("trace"),
        to,
        force: false,
        quiet: true,
        jobs,
    };
    let done = convert(source, &job, output);
    let Ok(Conversion { tally, losses }) = done else {
        panic!("{}: not written", to.name);
    };
    let mut files = Vec::new();
    list(folder, "", &mut files);
    files.sort();
    let threads: Vec<_> = tally.threads().collect();
    let report = format!("{losses} {threads:?} {:?}", tally.diagnostics);
    (files, report)
}

fn list(folder: &Path, before: &str, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let name = format!("{before}/{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => list(&entry.path(), &name, files),
            false => files.push((name, fs::read(entry.path()).expect("readable"))),
        }
    }
}

fn same_by_many(source: &dyn Source, what: &str) {
    for target in registry::targets() {
        let (files, report) = made(source, target, 1);
        assert!(!files.is_empty());
        let (by_many, report_of_many) = made(source, target, 3);
        assert!(files == by_many, "{what} to {}", target.name);
        assert_eq!(report, report_of_many, "{what} to {}", target.name);
    }
}

#[test]
fn several_threads_write_what_one_does() {
    for seed in 1..6 {
        let source = registry::open(Box::new(random_trace(seed))).expect("a trace");
        same_by_many(&*source, &format!("trace {seed}"));
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let mut count = 0;
    for format in fs::read_dir(golden).expect("golden files").flatten() {
        let files = fs::read_dir(format.path()).into_iter().flatten().flatten();
        for path in files.map(|file| file.path()).filter(|path| path.is_file()) {
            let small = path.metadata().is_ok_and(|file| file.len() < 16 << 10);
            let Some(source) = small.then(|| registry::open_path(&path).ok()).flatten() else {
                continue;
            };
            same_by_many(&*source, &path.display().to_string());
            count += 1;
        }
    }
    assert!(count > 20, "{count} golden files");
}

#[test]
fn a_trace_of_many_batches_comes_in_order() {
    let calls = |thread: u64| -> Vec<Call> {
        let call = |nth: u64| {
            let (time, function) = (nth * 7 + thread, (nth / 2 % 50) as u32 + 1);
            match nth % 2 {
                0 => entry(time, function),
                _ => exit(time, function),
            }
        };
        (0..60_000).map(call).collect()
    };
    let (one, two) = (calls(1), calls(2));
    let source = MemoryTrace::new(&[(1, &one), (2, &two)]);
    for name in ["xray", "heph", "ctf"] {
        let target = registry::target(name).expect("a format");
        let (files, report) = made(&source, target, 1);
        assert!(files.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 500_000);
        assert!((files, report) == made(&source, target, 3), "{name}");
    }
}

#[test]
fn unreadable_traces_end_with_their_error() {
    struct Broken(MemoryTrace);
    impl Source for Broken {
        fn info(&self) -> &fdr_formats::TraceInfo {
            self.0.info()
        }
        fn diagnostics(&self) -> &[Diagnostic] {
            &[]
        }
        fn lanes(&self) -> usize {
            2
        }
        fn lane_bytes(&self, _: usize) -> u64 {
            8
        }
        fn decode(
            &self,
            lane: usize,
            sink: &mut dyn Sink,
            progress: &(dyn Fn(u64) + Sync),
        ) -> Result<(), fdr_formats::Error> {
            match lane {
                0 => self.0.decode(lane, sink, progress),
                _ => Err(io::Error::other("gone").into()),
            }
        }
        fn records(
            &self,
            _: &mut dyn FnMut(&fdr_formats::source::Record<'_>) -> std::ops::ControlFlow<()>,
        ) -> Result<(), fdr_formats::Error> {
            Ok(())
        }
    }
    let source = Broken(MemoryTrace::new(&[(1, &[entry(0, 1), exit(4, 1)])]));
    for jobs in [1, 2] {
        let mut writer = Count(0);
        let error = drive(&source, &mut writer, jobs, &|_| {}).expect_err("it is broken");
        assert!(error.to_string().contains("gone"), "{error}");
        assert_eq!(writer.0, 2, "what came before is written");
    }
}

/// Counts calls.
struct Count(usize);

impl Sink for Count {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        self.0 += calls.len();
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for Count {
    fn finish(self: Box<Self>) -> Result<Losses, fdr_formats::Error> {
        Ok(Losses::default())
    }
}
