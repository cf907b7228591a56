//! The seeds: a small trace with one event of each kind, written by each target; the small golden folders; and the
//! small golden files of formats that the library does not write. The seeds are written into `fuzz/corpus` once, and
//! committed.

use std::fs;
use std::io;
use std::path::Path;

use fdr_formats::model::{Counts, FunctionTotals, Identity, NoteKind, Schedule, State, Switch};
use fdr_formats::registry::{FORMATS, Opener};
use fdr_formats::writer::{Kind, Output, Target};
use fdr_formats::{
    Call, Clock, CpuId, Edge, Error, Function, FunctionId, Mark, Sink, Thread, ThreadId, Ticks,
    TraceInfo,
};

use crate::folder::Folder;
use crate::pack::pack;

/// Writes `FOLDER/FORMAT/TARGET` for every target of every format.
///
/// # Errors
/// Where something can't be written.
pub(crate) fn write(folder: &Path) -> Result<(), Error> {
    for format in FORMATS {
        let folder = folder.join(format.name);
        fs::create_dir_all(&folder)?;
        for target in format.targets {
            fs::write(folder.join(target.name), seed(target, &info())?)?;
            if target.name == "tcstate" {
                let info = TraceInfo {
                    schedule: schedule(),
                    ..info()
                };
                fs::write(folder.join("states"), seed(target, &info)?)?;
            }
        }
        if matches!(format.opener, Opener::Folder { .. }) || format.targets.is_empty() {
            golden(format.name, &folder)?;
        }
    }
    Ok(())
}

/// The golden traces of a format: files as they are, folders packed.
fn golden(format: &str, out: &Path) -> io::Result<()> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let files = FORMATS.iter().find(|known| known.name == format);
    let files = files.is_some_and(|known| matches!(known.opener, Opener::File { .. }));
    for entry in fs::read_dir(golden.join(format))? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let is_trace = !["md", "py"]
            .iter()
            .any(|end| path.extension() == Some(end.as_ref()));
        let bytes = match (path.is_dir(), files && is_trace) {
            (true, false) => pack(&path)?,
            (false, true) => fs::read(&path)?,
            _ => continue,
        };
        if !bytes.is_empty() && bytes.len() < 16 << 10 {
            fs::write(out.join(name), bytes)?;
        }
    }
    Ok(())
}

fn seed(target: &Target, info: &TraceInfo) -> Result<Vec<u8>, Error> {
    let folder = Folder::new()?;
    let path = folder.path().join("seed");
    let output = if target.kind == Kind::Folder {
        fs::create_dir(&path)?;
        Output::Folder(path.clone())
    } else {
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        Output::File(options.open(&path)?)
    };
    let mut writer = (target.create)(output, info)?;
    for thread in &info.threads {
        writer.thread(thread);
        events(&mut *writer, 1_000_000 + thread.id.0);
    }
    writer.finish()?;
    Ok(if target.kind == Kind::Folder {
        pack(&path)?
    } else {
        fs::read(&path)?
    })
}

/// States with a hole, of a thread with calls and of one without.
fn schedule() -> Schedule {
    let switch = |(after, thread, cpu, to): (u64, u64, u32, Option<State>)| Switch {
        time: Ticks(1_000_000 + after),
        thread: ThreadId(thread),
        cpu: CpuId(cpu),
        to,
    };
    let switches = [
        (0, 0, 0, None),
        (100, 7, 3, Some(State::Waiting)),
        (200, 9, 3, Some(State::Running)),
        (300, 9, 3, Some(State::Preempted)),
        (300, 7, 3, Some(State::Running)),
        (350, 0, 0, None),
        (380, 7, 4, Some(State::Running)),
        (400, 0, 0, None),
    ];
    Schedule {
        switches: switches.map(switch).to_vec(),
        ..Schedule::default()
    }
}

fn info() -> TraceInfo {
    let function = |id, name: &str| Function {
        id: FunctionId(id),
        name: name.into(),
        file: "src/a.rs".into(),
        line: 10 + id,
        untimed: id == 2,
        kind: Default::default(),
    };
    let thread = |id| Thread {
        id: ThreadId(id),
        process: Some(7),
        name: format!("worker-{id}"),
        counts: Some(Counts {
            recorded: 12,
            readable: 9,
            overwritten: 2,
            dropped: 1,
            synthetic_entries: 1,
            synthetic_exits: 1,
            summarised: 0,
        }),
        totals: vec![FunctionTotals {
            function: FunctionId(2),
            calls: 3,
            total: Ticks(900),
            own: Ticks(800),
            longest: Ticks(500),
            lengths: vec![(10, 2), (18, 1)],
            ..FunctionTotals::default()
        }],
        early_calls: Vec::new(),
    };
    TraceInfo {
        clock: Clock {
            frequency: 3_000_000_000,
            name: "rdtscp".into(),
            error_ppm: Some(1.5),
            constant: true,
            nonstop: true,
            anchor: Some((Ticks(1_000_000), 1_700_000_000_000_000_000)),
            ..Clock::default()
        },
        functions: vec![function(1, "a::main"), function(2, "<a::T as b::U>::f")],
        threads: vec![thread(7), thread(8)],
        program: "seed".into(),
        process: Some(7),
        reason: "signal".into(),
        dump: Some(2),
        identity: Identity::from_bytes(b"host\0boot\0ab12\x001.0\0k=v,a=b\0"),
        start: Some(Ticks(1_000_000)),
        ..TraceInfo::default()
    }
}

/// One of everything.
fn events(sink: &mut dyn Sink, start: u64) {
    let call = |after: u64, function, edge| Call {
        time: Ticks(start + after),
        function: FunctionId(function),
        edge,
        synthetic: false,
        has_arguments: false,
    };
    let cpu = |after, cpu| Mark::Cpu {
        time: Ticks(start + after),
        cpu: CpuId(cpu),
    };
    sink.mark(&Mark::Wall {
        seconds: 1_700_000_000,
        micros: 5,
    });
    sink.mark(&cpu(0, 3));
    sink.calls(&[
        Call {
            synthetic: true,
            ..call(0, 1, Edge::Entry)
        },
        Call {
            has_arguments: true,
            ..call(100, 2, Edge::Entry)
        },
    ]);
    sink.mark(&Mark::Argument { value: 0xdead_beef });
    sink.calls(&[call(300, 2, Edge::Exit), call(300, 3, Edge::Entry)]);
    sink.mark(&cpu(350, 4));
    sink.mark(&Mark::Custom {
        time: Ticks(start + 360),
        cpu: None,
        data: b"hello",
    });
    sink.mark(&Mark::Typed {
        time: Ticks(start + 370),
        kind: 9,
        data: b"typed",
    });
    sink.calls(&[
        call(400, 3, Edge::TailExit),
        call(400, 2, Edge::Entry),
        call(900, 2, Edge::Exit),
    ]);
    sink.mark(&Mark::Note {
        time: Ticks(start + 950),
        kind: NoteKind::Task,
        body: &[1; 56],
    });
    sink.mark(&Mark::Lost { records: 3 });
    // An exit without its entry, and an entry without its exit.
    sink.calls(&[
        call(10_000_000_000, 2, Edge::Exit),
        call(10_000_000_500, 1, Edge::Entry),
    ]);
}
