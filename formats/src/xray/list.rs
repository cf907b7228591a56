//! The listing: one line for each record, in the order of the file. The listing is for people, so it names functions.

use std::fmt::{self, Write as _};

use super::index::{Block, Index, MAX_PAYLOAD};
use super::payload::{self, Payload};
use super::record::{self, Bad, FUNCTION_SIZE, HEADER_SIZE, METADATA_SIZE, RecordTime};
use crate::bytes::{ReadAt, Window};
use crate::error::Error;
use crate::identity::Part;
use crate::model::{
    ClockFaults, Counts, EarlyCall, Edge, FunctionId, Missing, Schedule, ThreadId, Ticks,
};
use crate::notes::{Note, NoteKind};
use crate::source::{Listing, Record, Stop, Visit};

const WINDOW: usize = 256 * 1024;
/// Bytes of a payload that are shown.
const MAX_SHOWN_BYTES: usize = 64;

/// Visits every record of the file.
pub(super) fn records(bytes: &dyn ReadAt, index: &Index, visit: Visit<'_>) -> Result<(), Error> {
    let window = Window::new(bytes, WINDOW);
    Listing::run(visit, |listing| {
        let mut lister = Lister {
            window,
            index,
            listing,
            thread: None,
            function: None,
            last: None,
            edge: None,
            note: None,
            base: 0,
        };
        lister.file(bytes.size())
    })
}

struct Lister<'a> {
    window: Window<'a>,
    index: &'a Index,
    listing: Listing<'a>,
    thread: Option<ThreadId>,
    /// The function of the present record.
    function: Option<FunctionId>,
    /// The edge of the present record.
    edge: Option<Edge>,
    /// The function and the thread of the previous record: an argument belongs to that call.
    last: Option<(Option<ThreadId>, FunctionId)>,
    /// The note that the record at hand is.
    note: Option<(NoteKind, Vec<u8>)>,
    base: u64,
}

impl Lister<'_> {
    fn file(&mut self, size: u64) -> Result<(), Stop> {
        let clock = &self.index.info.clock;
        let (constant, nonstop) = (clock.constant, clock.nonstop);
        let _ = write!(
            self.listing.detail,
            "{}, {} Hz, constant={constant} nonstop={nonstop}",
            self.index.info.format, clock.frequency
        );
        self.emit(0, HEADER_SIZE as u64, None, "Header")?;
        let mut at = HEADER_SIZE as u64;
        let index = self.index;
        for block in &index.blocks {
            self.gap(at, block.start)?;
            self.block(block)?;
            at = block.end;
        }
        self.gap(at, size)
    }

    /// Bytes between blocks: extents, or bytes that the index pass had to skip.
    fn gap(&mut self, mut at: u64, end: u64) -> Result<(), Stop> {
        (self.thread, self.base) = (None, 0);
        let extents = METADATA_SIZE as u64;
        while at < end {
            let view = self.window.at(at, METADATA_SIZE, end)?;
            let record = record::decode(view, self.index.layout);
            if let Ok(record::Record::BufferExtents { bytes }) = record {
                let _ = write!(self.listing.detail, "bytes={bytes}");
                self.emit(at, extents, None, "BufferExtents")?;
                at += extents;
                continue;
            }
            // An empty or damaged block may be followed by the extents of the next one.
            let more = self.index.layout.version > 1 && end - at > extents;
            let stop = if more { end - extents } else { end };
            let _ = write!(
                self.listing.detail,
                "{} bytes outside of any block",
                stop - at
            );
            self.emit(at, stop - at, None, "Skipped")?;
            at = stop;
        }
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Result<(), Stop> {
        let layout = self.index.layout;
        let (mut at, end) = (block.start, block.end);
        while at < end {
            let view = self.window.at(at, METADATA_SIZE, end)?;
            match record::decode(view, layout) {
                Ok(record) => {
                    let size = self.record(&record, at, end)?;
                    at += size;
                    // As in the decoder, the rest of a cut block is the payload's.
                    if block.cut && lacks_payload(&record, size) && at < end {
                        let _ = write!(self.listing.detail, "bytes={} of a payload", end - at);
                        self.emit(at, end - at, None, "Cut")?;
                        return Ok(());
                    }
                    if layout.version == 1 && record == record::Record::EndOfBuffer && at < end {
                        let _ = write!(self.listing.detail, "bytes={}", end - at);
                        self.emit(at, end - at, None, "Fill")?;
                        return Ok(());
                    }
                }
                Err(bad) => {
                    let (size, what) = match bad {
                        Bad::Short => (end - at, "not a whole record".to_owned()),
                        Bad::Action(action) => (FUNCTION_SIZE as u64, format!("action={action}")),
                        Bad::Kind(kind) => (METADATA_SIZE as u64, format!("kind={kind}")),
                    };
                    self.listing.detail.push_str(&what);
                    self.emit(at, size, None, "Unknown")?;
                    at += size;
                }
            }
        }
        Ok(())
    }

    /// Lists one record; returns its bytes, payload included.
    fn record(&mut self, record: &record::Record, at: u64, end: u64) -> Result<u64, Stop> {
        use record::Record as R;
        let (mut time, mut size) = (None, record.size() as u64);
        match *record {
            R::Function { action, id, delta } => {
                self.edge = Some(match action {
                    record::Action::Entry | record::Action::EntryArgs => Edge::Entry,
                    record::Action::Exit => Edge::Exit,
                    record::Action::TailExit => Edge::TailExit,
                });
                self.base = self.base.wrapping_add(u64::from(delta));
                time = Some(self.base);
                self.function = Some(FunctionId(id));
                self.last = Some((self.thread, FunctionId(id)));
                let function = self.index.info.function(FunctionId(id));
                let name = function.map_or("?", |function| &function.name);
                let _ = write!(
                    self.listing.detail,
                    "function=#{id} {name} delta={delta} ticks"
                );
                if function.is_some_and(|function| function.untimed) {
                    self.listing.detail.push_str(" untimed");
                }
            }
            R::NewBuffer { thread } => {
                self.thread = Some(ThreadId(thread.into()));
                let _ = write!(self.listing.detail, "thread={thread}");
            }
            R::EndOfBuffer => {}
            R::NewCpu { cpu, tsc } => {
                (self.base, time) = (tsc, Some(tsc));
                let _ = write!(self.listing.detail, "cpu={cpu}");
            }
            R::TscWrap { tsc } => (self.base, time) = (tsc, Some(tsc)),
            R::WallTime { seconds, micros } => {
                let _ = write!(self.listing.detail, "{seconds}.{micros:06} s");
            }
            R::CallArgument { value } => {
                let _ = write!(self.listing.detail, "value={value} (0x{value:x})");
            }
            R::BufferExtents { bytes } => {
                let _ = write!(self.listing.detail, "bytes={bytes}");
            }
            R::Pid { process } => {
                let _ = write!(self.listing.detail, "process={process}");
            }
            R::Custom {
                size: bytes,
                when,
                cpu,
            } => {
                time = Some(self.time_of(when));
                let _ = write!(self.listing.detail, "bytes={bytes}");
                if let Some(cpu) = cpu {
                    let _ = write!(self.listing.detail, " cpu={cpu}");
                }
                size += self.payload(at + size, bytes, end)?;
            }
            R::Typed {
                size: bytes,
                delta,
                kind,
            } => {
                time = Some(self.time_of(RecordTime::Delta(delta)));
                let _ = write!(self.listing.detail, "bytes={bytes} type={kind}");
                size += self.payload(at + size, bytes, end)?;
            }
        }
        self.emit(at, size, time, record.name())?;
        Ok(size)
    }

    fn time_of(&mut self, when: RecordTime) -> u64 {
        match when {
            RecordTime::Absolute(tsc) => tsc,
            RecordTime::Delta(delta) => {
                self.base = self.base.wrapping_add_signed(i64::from(delta));
                self.base
            }
        }
    }

    /// Describes a payload. Returns its size: 0 if it does not fit into the block.
    fn payload(&mut self, at: u64, size: i32, end: u64) -> Result<u64, Stop> {
        let left = end.saturating_sub(at);
        let Some(size) = u64::try_from(size)
            .ok()
            .filter(|&size| size > 0 && size <= left)
        else {
            let _ = write!(self.listing.detail, " (not valid: {left} bytes are left)");
            return Ok(0);
        };
        let held = usize::try_from(size).unwrap_or(MAX_PAYLOAD).min(WINDOW);
        let view = self.window.at(at, held, at + size)?;
        match payload::decode(view, self.index.layout.order) {
            Some(payload) => {
                describe(&mut self.listing.detail, &payload);
                if let Payload::Note(kind) = payload {
                    let body = payload::note(view).unwrap_or_default().to_vec();
                    self.note(kind, body);
                }
            }
            None => {
                let shown = view.get(..MAX_SHOWN_BYTES).unwrap_or(view);
                let more = if size > shown.len() as u64 { "…" } else { "" };
                let _ = write!(self.listing.detail, " \"{}\"{more}", shown.escape_ascii());
            }
        }
        Ok(size)
    }

    /// Describes a note. Its function is what filters choose it by: the name of an event or a task, or the function of
    /// a call.
    fn note(&mut self, kind: NoteKind, body: Vec<u8>) {
        let Some(note) = Note::decode(kind, &body) else {
            return;
        };
        let words = note.words(&self.index.info);
        let _ = write!(self.listing.detail, " {words}");
        self.function = Some(FunctionId(note.name())).filter(|name| name.0 > 0);
        self.note = Some((kind, body));
    }

    fn emit(&mut self, offset: u64, size: u64, time: Option<u64>, kind: &str) -> Result<(), Stop> {
        let note = self.note.take();
        self.listing.emit(Record {
            offset,
            size,
            thread: self.thread,
            time: time.map(Ticks),
            function: self.function.take(),
            edge: self.edge.take(),
            note: note.as_ref().map(|(kind, body)| (*kind, &body[..])),
            kind,
            ..Record::default()
        })
    }
}

/// Whether a record of `size` bytes in all has no payload although it should.
fn lacks_payload(record: &record::Record, size: u64) -> bool {
    use record::Record as R;
    matches!(record, R::Custom { .. } | R::Typed { .. }) && size == METADATA_SIZE as u64
}

fn describe(detail: &mut String, payload: &Payload) {
    let _ = write!(detail, " fdr {}:", payload.name());
    let _ = match payload {
        Payload::Functions(list) => write!(detail, " {} functions", list.len()),
        Payload::Thread {
            name,
            counts,
            latest,
        } => describe_thread(detail, name, counts.unwrap_or_default(), *latest),
        Payload::Clock {
            name,
            error_ppm,
            anchor,
            until,
            faults,
        } => {
            let _ = write!(detail, " {name:?} error={} ppm", error_ppm.unwrap_or(0.0));
            describe_anchors(detail, anchor.unwrap_or_default(), *until);
            describe_faults(detail, faults)
        }
        Payload::Process {
            program,
            reason,
            process,
            dump,
            missing,
            end,
        } => {
            let (process, dump) = (process.unwrap_or_default(), dump.unwrap_or_default());
            let _ = write!(
                detail,
                " {program:?} process={process} dump={dump} reason={reason:?}"
            );
            describe_missing(detail, missing);
            end.map_or(Ok(()), |end| write!(detail, ", ends at tick {end}"))
        }
        Payload::Identity(identity) => {
            for part in Part::ALL {
                let _ = write!(detail, " {:?}", identity.get(part));
            }
            Ok(())
        }
        Payload::Moment(moment) => {
            let (number, time) = (moment.number, moment.time.0);
            write!(detail, " {number} {:?} at tick {time}", moment.name)
        }
        Payload::Balance { entries, exits } => {
            write!(
                detail,
                " {entries} synthetic entries, {exits} synthetic exits"
            )
        }
        Payload::Synthetic { count } => write!(detail, " the next {count} function records"),
        Payload::Lost { records } => write!(detail, " {records} function records"),
        Payload::Break { ticks } => write!(detail, " the clock jumped ahead by {ticks} ticks"),
        Payload::ShortCalls { calls, ticks } => {
            write!(detail, " {calls} calls without records took {ticks} ticks")
        }
        Payload::EarlyCalls(calls) => describe_early_calls(detail, calls),
        Payload::Threshold { ticks } => {
            write!(detail, " calls below {ticks} ticks leave no records")
        }
        Payload::Schedule(part) => describe_schedule(detail, part),
        Payload::Totals {
            is_of_missing,
            rows,
        } => describe_totals(detail, rows.len(), *is_of_missing),
        Payload::Estimates { cost, rows } => write!(
            detail,
            " {} functions, cost {} of {} millionths",
            rows.len(),
            cost.share,
            cost.budget
        ),
        Payload::Note(_) | Payload::Unknown => Ok(()),
    };
}

fn describe_thread(
    detail: &mut String,
    name: &str,
    counts: Counts,
    latest: Option<Ticks>,
) -> fmt::Result {
    let _ = write!(
        detail,
        " {name:?} recorded={} readable={} overwritten={} dropped={} records",
        counts.recorded, counts.readable, counts.overwritten, counts.dropped
    );
    latest.map_or(Ok(()), |tick| write!(detail, ", the latest at tick {tick}"))
}

fn describe_faults(detail: &mut String, faults: &ClockFaults) -> fmt::Result {
    write!(
        detail,
        ", skew={} ns, steps back={}, ahead={} ns, time of day moved={} ns",
        faults.skew_ns, faults.steps_back, faults.ahead_ns, faults.wall_step_ns
    )
}

fn describe_missing(detail: &mut String, missing: &Missing) {
    let _ = write!(
        detail,
        ", missing: {} records of {} ended threads, {} of threads without a ring",
        missing.overwritten, missing.threads, missing.dropped
    );
}

fn describe_schedule(detail: &mut String, part: &Schedule) -> fmt::Result {
    let (switches, samples) = (part.switches.len(), part.samples.len());
    let (accounts, modules) = (part.accounts.len(), part.modules.len());
    write!(
        detail,
        " {switches} switches, {samples} samples, {accounts} accounts, {modules} modules"
    )
}

fn describe_anchors(detail: &mut String, (tick, nanos): (Ticks, u64), until: Option<(Ticks, u64)>) {
    let _ = write!(detail, ", tick {tick} = {nanos} ns since 1970");
    if let Some((tick, nanos)) = until {
        let _ = write!(detail, ", written at tick {tick} = {nanos} ns");
    }
}

fn describe_early_calls(detail: &mut String, calls: &[EarlyCall]) -> fmt::Result {
    let list = calls
        .iter()
        .map(|call| format!("{} since tick {}", call.function, call.begin.0));
    write!(detail, " {}", list.collect::<Vec<_>>().join(", "))
}

fn describe_totals(detail: &mut String, functions: usize, is_of_missing: bool) -> fmt::Result {
    let whose = match is_of_missing {
        true => " of threads that are not in the trace",
        false => "",
    };
    write!(detail, " {functions} functions{whose}")
}
