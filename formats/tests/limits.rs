//! No reader takes a number of a file on trust: inputs that claim giant lengths and counts, at every
//! place, in every width and byte order, are read in little memory. And nothing takes quadratic time:
//! programs that are as hostile as events can be are written and read by every format; that this ends is
//! the test.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::fuzz::alloc::Counting;
use crate::fuzz::folder::Folder;
use crate::fuzz::pack::unpack;
use crate::fuzz::test_output::TestOutput;
use fdr_formats::registry::{FORMATS, Opened, Opener, targets};
use fdr_formats::source::drive;
use fdr_formats::writer::Target;
use fdr_formats::{
    Call, Diagnostic, Edge, Function, FunctionId, Mark, Sink, Source, Thread, ThreadId, Ticks,
    TraceInfo,
};

/// Bytes that a reader may hold for a file of a few KiB.
const LIMIT: usize = 4 << 20;

/// Counts calls; holds nothing.
#[derive(Default)]
struct Count {
    entries: u64,
    exits: u64,
    synthetic: u64,
}

impl Sink for Count {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            match call.edge {
                _ if call.synthetic => self.synthetic += 1,
                Edge::Entry => self.entries += 1,
                Edge::Exit | Edge::TailExit => self.exits += 1,
            }
        }
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, _: Diagnostic) {}
}

fn read_all(opened: Opened) {
    let Ok(source) = opened else { return };
    let _ = drive(&*source, &mut Count::default(), &|_| {});
    let mut lines = 0;
    let _ = source.records(&mut |_| {
        lines += 1;
        if lines < 100_000 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
}

/// What claims much, in all widths, byte orders and the usual variable-length encodings.
fn claims() -> Vec<Vec<u8>> {
    let mut claims = vec![
        // ENTRACE's: a tag, then two, four, eight bytes; LEB128.
        [&[251][..], &[0xff; 2]].concat(),
        [&[252][..], &[0xff; 4]].concat(),
        [&[253][..], &[0xff; 8]].concat(),
        [&[0xff; 9][..], &[0x01]].concat(),
        // A gigabyte, for which there may be room, and the greatest signed number.
        [0, 0, 0, 0x40].to_vec(),
        [0x40, 0, 0, 0].to_vec(),
        [&[0xff; 7][..], &[0x7f]].concat(),
        [&[0x7f][..], &[0xff; 7]].concat(),
    ];
    claims.extend([1, 2, 4, 8].map(|width| vec![0xff; width]));
    claims
}

/// The bytes with each claim at each place, and with each number that is written in digits grown. `trace` is the length
/// of the trace. In a long trace the claims take turns, so each is at about `places` places.
fn each_claim(bytes: &[u8], trace: usize, places: usize, mut check: impl FnMut(&[u8], usize)) {
    let step = 1 + trace / places;
    for (nth, claim) in claims().into_iter().enumerate() {
        for at in (nth % step..bytes.len().saturating_sub(claim.len())).step_by(step) {
            let mut changed = bytes.to_vec();
            changed[at..at + claim.len()].copy_from_slice(&claim);
            check(&changed, at);
        }
    }
    let numbers = [
        "1073741824",
        "9223372036854775807",
        "99999999999999999999999",
    ];
    let mut numbers = numbers.iter().cycle().peekable();
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        if let Some(number) = numbers.next_if(|_| digits > 0) {
            let changed = [&bytes[..at], number.as_bytes(), &bytes[at + digits..]];
            check(&changed.concat(), at);
        }
        at += digits + 1;
    }
}

/// Small traces of a format: seeds of the fuzzing program, which each target wrote.
fn seeds(format: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
    let folder = Path::new(folder).join(format);
    let entries = fs::read_dir(&folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let seed = |path: PathBuf| (path.clone(), fs::read(path).expect("a readable file"));
    paths.map(seed).collect()
}

/// Reads with the peak of memory held to the limit.
fn held_to_limit(open: impl FnOnce() -> Opened, place: &Path, at: usize) {
    Counting::restart();
    read_all(open());
    let peak = Counting::peak();
    assert!(
        peak < LIMIT,
        "{}, changed at byte {at}: {peak} bytes held",
        place.display()
    );
}

#[test]
fn claims_at_some_places() {
    claims_in_files(20);
    claims_in_folders(20);
}

mod the_rest {
    #[test]
    fn claims_in_files() {
        super::claims_in_files(300);
    }

    #[test]
    fn claims_in_folders() {
        super::claims_in_folders(300);
    }
}

fn claims_in_files(places: usize) {
    for format in FORMATS {
        let Opener::File { open, .. } = format.opener else {
            continue;
        };
        for (path, bytes) in seeds(format.name) {
            each_claim(&bytes, bytes.len(), places, |changed, at| {
                let changed = changed.to_vec();
                held_to_limit(|| open(Box::new(changed)), &path, at);
            });
        }
    }
}

fn claims_in_folders(places: usize) {
    for format in FORMATS {
        let Opener::Folder { open, .. } = format.opener else {
            continue;
        };
        for (path, bytes) in seeds(format.name) {
            let (folder, trace) = (Folder::new().expect("a folder"), bytes.len());
            unpack(&bytes, folder.path()).expect("a folder");
            for entry in fs::read_dir(folder.path()).expect("a readable folder") {
                let file = entry.expect("a readable folder").path();
                let bytes = fs::read(&file).expect("a readable file");
                each_claim(&bytes, trace, places, |changed, at| {
                    fs::write(&file, changed).expect("a file that can be written");
                    held_to_limit(|| open(folder.path()), &path.join(&file), at);
                });
                fs::write(&file, bytes).expect("a file that can be written");
            }
        }
    }
}

#[test]
fn the_limit_is_kept() {
    Counting::restart();
    let bytes = std::hint::black_box(vec![1_u8; LIMIT]);
    drop(bytes);
    assert!(Counting::peak() >= LIMIT);
    Counting::restart();
    assert!(Counting::peak() < LIMIT);
}

/// How many calls a hostile program makes.
const MANY: u32 = 30_000;

fn edge(time: u64, function: u32, edge: Edge) -> Call {
    Call {
        time: Ticks(time),
        function: FunctionId(function),
        edge,
        synthetic: false,
        has_arguments: false,
    }
}

fn thread(id: u32) -> Thread {
    Thread {
        id: ThreadId(id.into()),
        name: format!("thread {id}"),
        ..Thread::default()
    }
}

/// Writes, reads back, and counts what was measured.
fn there_and_back(target: &Target, functions: u32, tell: impl Fn(&mut dyn Sink)) -> Count {
    let function = |id| Function {
        id: FunctionId(id),
        name: format!("function {id}"),
        ..Function::default()
    };
    let info = TraceInfo {
        functions: (1..=functions).map(function).collect(),
        ..TraceInfo::default()
    };
    let place = TestOutput::new(target.kind).expect("a place");
    let output = place.output().expect("a place");
    let mut writer = (target.create)(output, &info).expect("a writer");
    tell(&mut writer);
    writer.finish().expect("a trace");
    let mut count = Count::default();
    let source: Box<dyn Source> = place.open().expect("a trace of our own");
    drive(&*source, &mut count, &|_| {}).expect("a readable trace");
    count
}

/// A hostile program: its name, and calls in one thread.
fn hostile() -> Vec<(&'static str, Vec<Call>)> {
    let all = 1..=MANY;
    let deep = |step: u64| {
        let down = all.clone().map(move |n| (n, Edge::Entry));
        let up = all.clone().rev().map(|n| (n, Edge::Exit));
        let edges = down.chain(up).enumerate();
        edges
            .map(|(at, (n, side))| edge(1000 + at as u64 * step, 1 + n % 7, side))
            .collect()
    };
    let alike = |side| {
        let edges = all.clone();
        edges.map(|n| edge(u64::from(n), 1 + n % 7, side)).collect()
    };
    let strangers = |n: u32| {
        // Each exit is of a function that is not open, below many that are.
        let (entry, other) = (edge(u64::from(n), 1, Edge::Entry), 2 + n % 5);
        [entry, edge(u64::from(n), other, Edge::Exit)]
    };
    vec![
        ("deep", deep(3)),
        ("deep in one tick", deep(0)),
        ("entries without exit", alike(Edge::Entry)),
        ("exits without entry", alike(Edge::Exit)),
        // Each of these looks for its entry far down.
        (
            "exits of others",
            (1..=MANY / 5).flat_map(strangers).collect(),
        ),
    ]
}

#[test]
fn hostile_calls_are_written_and_read_in_time() {
    for (name, calls) in hostile() {
        for target in targets() {
            println!("{name}, {}", target.name);
            let count = there_and_back(target, 8, |sink| {
                sink.thread(&thread(1));
                calls.chunks(1000).for_each(|part| sink.calls(part));
            });
            let total = count.entries + count.exits;
            assert!(total <= calls.len() as u64, "{name}, {}", target.name);
        }
    }
}

#[test]
fn many_threads_and_functions_take_linear_time() {
    const THREADS: u32 = 2_000;
    for target in targets() {
        println!("{}", target.name);
        let count = there_and_back(target, THREADS, |sink| {
            // In turns: every thread comes twice.
            for side in [Edge::Entry, Edge::Exit] {
                for n in 1..=THREADS {
                    sink.thread(&thread(n));
                    sink.calls(&[edge(1000 + side as u64, n, side)]);
                }
            }
        });
        let wanted = (u64::from(THREADS), u64::from(THREADS), 0);
        let found = (count.entries, count.exits, count.synthetic);
        assert_eq!(found, wanted, "{}", target.name);
    }
}
