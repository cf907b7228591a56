//! Ring chunks decoded in parts: typed bytes, every cut between records, and the same events as the
//! reader of files gives for a dump of the same chunk.

use crate::common::dump::dumped;
use crate::common::hex;
use fdr_formats::model::Ticks;
use fdr_formats::source::drive;
use fdr_formats::xray::{ChunkDecoder, Version, XraySource};
use fdr_formats::{Call, CpuId, Diagnostic, Edge, Mark, Sink, Thread, TraceInfo};

/// `NewBuffer` of thread 9, `WallTime`, `NewCPUId` 3 at tick 100; function 1 entered at 107; now CPU
/// 4 at 200; function 1 left at 210; `TSCWrap` to 2^40; function 2 entered there, and left by a tail
/// call 5 later; `NewCPUId` 4, as before, at 2^40 + 9; function 3 entered at 2^40 + 10.
const CHUNK: &str = "\
    01 09000000 0000000000000000000000\
    09 0100000000000000 02000000 000000\
    05 0300 6400000000000000 0000000000\
    10000000 07000000\
    05 0400 c800000000000000 0000000000\
    12000000 0a000000\
    07 0000000000010000 00000000000000\
    20000000 00000000\
    24000000 05000000\
    05 0400 0900000000010000 0000000000\
    30000000 01000000";

/// Where records end, in bytes.
const ENDS: [usize; 11] = [16, 32, 48, 56, 72, 80, 96, 104, 112, 128, 136];

/// Every event in a line: `107 + 1`, `cpu 4 at 200`.
#[derive(Default)]
struct Lines(Vec<String>);

impl Sink for Lines {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        let synthetic = |call: &&Call| !call.synthetic;
        for call in calls.iter().filter(synthetic) {
            let edge = match call.edge {
                Edge::Entry => "+",
                Edge::Exit => "-",
                Edge::TailExit => "tail",
            };
            self.0
                .push(format!("{} {edge} {}", call.time, call.function.0));
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        match mark {
            Mark::Cpu { time, cpu } => self.0.push(format!("cpu {} at {time}", cpu.0)),
            Mark::Argument { value } => self.0.push(format!("argument {value}")),
            Mark::Break { time } => self.0.push(format!("break at {time}")),
            Mark::ShortCalls { time, calls, ticks } => {
                self.0.push(format!("{calls} short, {ticks} until {time}"));
            }
            Mark::Threshold { ticks } => self.0.push(format!("below {ticks}")),
            _ => {}
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        panic!("{diagnostic}");
    }
}

/// What the reader of files gives of a dump of the chunk.
fn lines_of_dump(chunk: &[u8]) -> Lines {
    let (info, thread) = (TraceInfo::default(), Thread::default());
    let (bytes, _) = dumped(Version::V3, &info, &thread, &[chunk], false);
    let source = XraySource::open(Box::new(bytes)).expect("a trace");
    let mut lines = Lines::default();
    drive(&source, &mut lines, &|_| {}).expect("bytes in memory can be read");
    lines
}

const FIRST: u64 = 1 << 40;

fn wanted() -> Vec<String> {
    vec![
        "cpu 3 at 100".into(),
        "107 + 1".into(),
        "cpu 4 at 200".into(),
        "210 - 1".into(),
        format!("{FIRST} + 2"),
        format!("{} tail 2", FIRST + 5),
        format!("{} + 3", FIRST + 10),
    ]
}

/// Function 1 entered at 107; calls below 64 ticks leave no records from there on; 3 calls without records took 50
/// ticks; function 1 left at 210.
const SHORT: &str = "\
    01 09000000 0000000000000000000000\
    09 0100000000000000 02000000 000000\
    05 0300 6400000000000000 0000000000\
    10000000 07000000\
    0b 10000000 6b00000000000000 000000 66647200 01 0a 0000 4000000000000000\
    0b 10000000 d200000000000000 000000 66647200 01 09 0000 030000 3200000000\
    12000000 67000000";

#[test]
fn short_calls_are_reported_at_their_place() {
    let wanted = [
        "cpu 3 at 100",
        "107 + 1",
        "below 64",
        "3 short, 50 until 210",
        "210 - 1",
    ];
    let bytes = hex(SHORT);
    let (mut decoder, mut lines) = (ChunkDecoder::new(), Lines::default());
    assert_eq!(decoder.decode(&bytes, &mut lines), 2);
    assert_eq!(
        (lines.0, decoder.unknown_bytes()),
        (wanted.map(String::from).to_vec(), 0)
    );
    // A cut event is no event.
    for cut in bytes.len() - 8 - 31..bytes.len() - 8 {
        let (mut decoder, mut lines) = (ChunkDecoder::new(), Lines::default());
        assert_eq!(decoder.decode(&bytes[..cut], &mut lines), 1, "{cut}");
        assert_eq!(lines.0, wanted[..3], "{cut}");
    }
    // The reader of files gives the same of a dump.
    let lines = lines_of_dump(&bytes);
    assert_eq!(lines.0[lines.0.len() - 4..], wanted[1..]);
}

#[test]
fn a_chunk_in_one_part() {
    let (mut decoder, mut lines) = (ChunkDecoder::new(), Lines::default());
    assert_eq!(decoder.place(), (Ticks(0), None));
    assert_eq!(decoder.decode(&hex(CHUNK), &mut lines), 5);
    assert_eq!(lines.0, wanted());
    assert_eq!(decoder.place(), (Ticks(FIRST + 10), Some(CpuId(4))));
    assert_eq!(decoder.unknown_bytes(), 0);
}

#[test]
fn a_chunk_in_parts_of_any_size() {
    let bytes = hex(CHUNK);
    assert_eq!(bytes.len(), ENDS[10]);
    for first in ENDS {
        for second in ENDS.into_iter().filter(|&second| second >= first) {
            let (mut decoder, mut lines) = (ChunkDecoder::new(), Lines::default());
            let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            let counts = parts.map(|part| decoder.decode(part, &mut lines));
            assert_eq!(counts.iter().sum::<u64>(), 5, "{first} {second}");
            assert_eq!(lines.0, wanted(), "{first} {second}");
        }
    }
}

#[test]
fn as_the_reader_of_files_has_it() {
    let bytes = hex(CHUNK);
    let mut lines = lines_of_dump(&bytes);
    // A file tells a CPU again that did not change; a chunk's decoder does not.
    let again = format!("cpu 4 at {}", FIRST + 9);
    lines.0.retain(|line| *line != again);
    assert_eq!(lines.0, wanted());
}

#[test]
fn arguments_and_unknown_records() {
    let text = "30000000 01000000 0d 2a00000000000000 00000000000000 \
                ff 000000000000000000000000000000 0800000000000000 32000000 01000000 30000000 0000";
    let (mut decoder, mut lines) = (ChunkDecoder::new(), Lines::default());
    assert_eq!(decoder.decode(&hex(text), &mut lines), 2);
    assert_eq!(lines.0, ["1 + 3", "argument 42", "2 - 3"]);
    // A metadata record of no kind, a function record of no action, one that is cut.
    assert_eq!(decoder.unknown_bytes(), 16 + 8 + 6);
}

#[test]
fn restarted_clocks_go_on() {
    let (mut decoder, mut lines) = (ChunkDecoder::new(), Lines::default());
    let _ = decoder.decode(&hex(CHUNK), &mut lines);
    // NewCPUId on CPU 4 at tick 50, and an exit of function 3 seven ticks later.
    let later = "05 0400 3200000000000000 0000000000 32000000 07000000";
    assert_eq!(decoder.decode(&hex(later), &mut lines), 1);
    let wanted = [
        format!("break at {}", FIRST + 10),
        format!("{} - 3", FIRST + 17),
    ];
    assert_eq!(lines.0[lines.0.len() - 2..], wanted);
}

#[test]
fn no_bytes_panic() {
    let bytes = hex(CHUNK);
    for cut in 0..bytes.len() {
        for flip in 0..8 {
            let mut bytes = bytes.clone();
            bytes[cut] ^= 1 << flip;
            let mut lines = Lines::default();
            let records = ChunkDecoder::new().decode(&bytes[..cut.max(8)], &mut lines);
            assert!(records <= bytes.len() as u64 / 8);
        }
    }
}
