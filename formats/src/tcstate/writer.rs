//! Writes events of any format as a state history. A state system needs order of time over all threads. So events are
//! spooled (64 MiB in memory, then a temporary file), and everything is written at the end. Memory is the call stacks
//! and the functions.
//!
//! types.json, tree.json and state.json have the shapes of the proposal:
//!
//! ```text
//! types.json  [{"key":0,"type":"none"},…]
//! tree.json   {"version":{"major":1,"minor":0},"root":{"key":0,"children":{"Threads":{"key":1,…}}}}
//! state.json  [{"key":0,"value":null},…]    every key: its value at the time in meta.json
//! ```

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::FILES;
use super::merge::Changes;
use super::meta::{Meta, ThreadMeta};
use super::record::{HEADER_SIZE, Header, SORTED, Value};
use super::schedule::{self, Timelines};
use super::state_system::{Attribute, Builder, Name};
use super::thread_encoder::{Op, StateLosses, ThreadEncoder};
use crate::error::{Diagnostic, Error};
use crate::json::push_text;
use crate::model::{Call, Mark, NoteKind, Thread, ThreadId, Ticks, TraceInfo};
use crate::scale::Scale;
use crate::sink::{Losses, Sink};
use crate::states::States;
use crate::writer::Writer;

/// Bytes of intervals that are collected before they are written.
const CHUNK: usize = 256 * 1024;

/// The state of a thread beside its changes.
#[derive(Debug, Default)]
struct ThreadData {
    thread: Thread,
    encoder: ThreadEncoder,
    wall: Option<(u64, u32)>,
}

/// A sink that writes a folder.
pub(super) struct TcstateWriter {
    folder: PathBuf,
    info: TraceInfo,
    scale: Scale,
    threads: Vec<ThreadData>,
    thread_of: HashMap<ThreadId, usize>,
    now: usize,
    changes: Changes,
    state_losses: StateLosses,
    losses: Losses,
    failed: Option<io::Error>,
    states: States,
}

impl TcstateWriter {
    /// `folder` exists and is empty.
    pub(super) fn new(folder: PathBuf, info: &TraceInfo) -> TcstateWriter {
        let mut losses = Losses::default();
        losses.add_all_but_switches(&info.schedule);
        TcstateWriter {
            folder,
            scale: Scale::new(info.clock.frequency),
            states: States::new(&info.schedule),
            info: TraceInfo {
                functions: info.functions.clone(),
                ..TraceInfo::clone(&info.without_lists())
            },
            threads: Vec::new(),
            thread_of: HashMap::new(),
            now: 0,
            changes: Changes::default(),
            state_losses: StateLosses::default(),
            losses,
            failed: None,
        }
    }

    /// Start and end of the history. `states` are the first and last change of a state.
    fn range(&self, states: Option<(i64, i64)>) -> (i64, i64) {
        let begin = self.info.start.map(|start| self.nanos(start));
        let encoders = || self.threads.iter().map(|known| &known.encoder);
        let first =
            encoders().filter_map(|encoder| Some(encoder.first? - i64::from(encoder.before > 0)));
        let counted = || encoders().filter_map(|encoder| encoder.counted);
        let first = first.chain(counted().map(|(first, _)| first));
        let first = first.chain(states.map(|(first, _)| first));
        let start = first.chain(begin).min().unwrap_or(0);
        let last = encoders()
            .filter(|encoder| encoder.first.is_some())
            .map(|encoder| encoder.last);
        // Open calls last until the dump.
        let is_open = encoders().any(ThreadEncoder::is_open);
        let end = self.info.end.filter(|_| is_open);
        let end = end.map(|end| self.nanos(end));
        let last = last.chain(counted().map(|(_, last)| last));
        let last = last.chain(states.map(|(_, last)| last));
        (start, last.chain(end).max().unwrap_or(start))
    }

    /// A note of the current thread: counters are states.
    fn note(&mut self, time: Ticks, kind: NoteKind, body: &[u8]) {
        let Some(known) = self.threads.get_mut(self.now) else {
            return;
        };
        let note = (time, kind, body);
        match known
            .encoder
            .note(note, &mut self.scale, &mut self.state_losses)
        {
            Some((time, name, number)) if self.failed.is_none() => {
                let changed = self.changes.push(self.now, time, Op::Counter(name, number));
                self.failed = changed.err();
            }
            Some(_) => {}
            None => self.losses.add_left_out(&Mark::Note { time, kind, body }),
        }
    }

    fn nanos(&self, ticks: Ticks) -> i64 {
        i64::try_from(self.info.clock.nanos(ticks).0).unwrap_or(i64::MAX)
    }

    fn complete(&mut self) -> io::Result<()> {
        for known in &mut self.threads {
            known.encoder.finish(&mut self.state_losses);
        }
        self.info.functions.sort_by_key(|function| function.id);
        let mut threads: Vec<ThreadId> = self.threads.iter().map(|known| known.thread.id).collect();
        let with_states = self.states.threads();
        let is_other = |thread: &&ThreadId| !self.thread_of.contains_key(*thread);
        threads.extend(with_states.iter().filter(is_other));
        let clock = &self.info.clock;
        let (extent, cpus) = schedule::extent(&self.states, clock, &threads);
        let (start, end) = self.range(extent);
        let changes = std::mem::take(&mut self.changes);
        let mut timelines = Timelines::new(&self.states, clock, &threads);
        let has_status = |id: &ThreadId| (*id, !self.states.stay_list(*id).is_empty());
        let mut builder = Builder::new(start, threads.iter().map(has_status), cpus);
        let info = &self.info;
        let (types, tree, state, history) = (FILES[0].1, FILES[1].1, FILES[2].1, FILES[3].1);
        save(&self.folder, history, |out| {
            // The magic is written last, because a history without its end is not valid.
            out.write_all(&[0; HEADER_SIZE])?;
            changes.merge(|thread, time, op| {
                while let Some((now, changes)) = timelines.until(time) {
                    builder.states(now, changes);
                }
                builder.change(thread, time, op, info);
                hand_over(&mut builder, out, CHUNK)
            })?;
            while let Some((now, changes)) = timelines.until(end) {
                builder.states(now, changes);
                hand_over(&mut builder, out, CHUNK)?;
            }
            builder.engine.finish(end);
            hand_over(&mut builder, out, 1)?;
            let header = Header {
                major: 1,
                minor: 0,
                size: HEADER_SIZE as u32,
                start,
                end,
                intervals: builder.engine.intervals,
                keys: builder.engine.attributes().len() as u32,
                flags: SORTED,
                strings_offset: out.stream_position()?,
                strings: builder.strings.names.len() as u64,
            };
            for (name, _) in &builder.strings.names {
                // No name of 4 GiB fits into memory.
                let size = u32::try_from(name.len()).map_err(io::Error::other)?;
                out.write_all(&size.to_le_bytes())?;
                out.write_all(name.as_bytes())?;
            }
            out.seek(SeekFrom::Start(0))?;
            out.write_all(&header.encode())
        })?;
        let attributes = builder.engine.attributes();
        save(&self.folder, types, |out| write_types(out, attributes))?;
        save(&self.folder, tree, |out| {
            write_tree(out, attributes, |number| builder.counter_name(number))
        })?;
        save(&self.folder, state, |out| {
            write_state(out, attributes, |number| builder.strings.text(number))
        })?;
        let meta = self.meta(&builder, (start, end));
        save(&self.folder, super::META, |out| meta.write(out))?;
        self.state_losses.losses(&mut self.losses);
        let what = "changes of CPU that the state of the CPUs does not show, or not in time";
        self.losses.add(what, builder.lost_cpu_changes);
        let what = "calls of functions that have the name of another: told as calls of that one";
        self.losses.add(what, builder.strings.shared);
        Ok(())
    }

    fn meta(&self, builder: &Builder, (start, end): (i64, i64)) -> Meta {
        let strings = builder.strings.names.iter().zip(0..);
        let threads = self.threads.iter().map(|known| ThreadMeta {
            thread: Thread {
                counts: known
                    .thread
                    .counts
                    .map(|counts| known.encoder.counts(counts)),
                ..known.thread.clone()
            },
            wall: known.wall,
            span: known.encoder.first.map(|first| (first, known.encoder.last)),
            before: known.encoder.before,
            after: known.encoder.after,
        });
        Meta {
            start: Some(start),
            end: Some(end),
            threads: threads.collect(),
            strings: strings.map(|((_, id), number)| (number, *id)).collect(),
            info: self.info.clone(),
        }
    }
}

/// Writes intervals if at least this many bytes of them wait.
fn hand_over(builder: &mut Builder, out: &mut dyn Write, least: usize) -> io::Result<()> {
    if builder.engine.bytes.len() < least {
        return Ok(());
    }
    let written = out.write_all(&builder.engine.bytes);
    builder.engine.bytes.clear();
    written
}

/// Writes one file of the folder; the error names it.
fn save(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let path = folder.join(name);
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    // Only the owner may read it, as every trace.
    let file = options.mode(0o600).open(&path).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    });
    file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

impl Sink for TcstateWriter {
    fn thread(&mut self, thread: &Thread) {
        let next = self.threads.len();
        self.now = *self.thread_of.entry(thread.id).or_insert(next);
        if self.now == next {
            self.changes.thread();
            self.threads.push(ThreadData {
                thread: thread.clone(),
                ..ThreadData::default()
            });
            return;
        }
        let known = &mut self.threads[self.now].thread;
        known.counts = thread.counts.or(known.counts);
        known.process = thread.process.or(known.process);
        if !thread.name.is_empty() && thread.name != known.name {
            known.name.clone_from(&thread.name);
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        let Some(known) = self.threads.get_mut(self.now) else {
            return;
        };
        if self.failed.is_some() {
            return;
        }
        let (changes, now, failed) = (&mut self.changes, self.now, &mut self.failed);
        for call in calls {
            let mut out = |time, op| {
                if let Err(error) = changes.push(now, time, op) {
                    failed.get_or_insert(error);
                }
            };
            known
                .encoder
                .call(call, &mut self.scale, &mut self.state_losses, &mut out);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some(known) = self.threads.get_mut(self.now) else {
            return;
        };
        let losses = &mut self.losses;
        match *mark {
            Mark::Cpu { cpu, .. } => known.encoder.cpu(cpu, &mut self.state_losses),
            Mark::Wall { seconds, micros } => {
                if known.wall.is_none() && known.encoder.first.is_none() {
                    known.wall = Some((seconds, micros));
                } else {
                    losses.add("wall-clock times in the middle of a thread: left out", 1);
                }
            }
            Mark::Argument { .. } => losses.add("arguments: left out", 1),
            Mark::Lost { records } => {
                losses.add("missing records: their place is left out", records);
            }
            Mark::Break { .. } => losses.add("breaks of the clock: their place is left out", 1),
            Mark::ShortCalls { .. } | Mark::Threshold { .. } => losses.add_left_out(mark),
            Mark::Note { time, kind, body } => self.note(time, kind, body),
            Mark::Custom { .. } => losses.add("custom events: left out", 1),
            Mark::Typed { .. } => losses.add("typed events: left out", 1),
        }
    }

    fn diagnostic(&mut self, _diagnostic: Diagnostic) {}
}

impl Writer for TcstateWriter {
    fn finish(mut self: Box<Self>) -> Result<Losses, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        self.complete()?;
        Ok(self.losses)
    }
}

/// Writes types.json.
fn write_types(out: &mut dyn Write, attributes: &[Attribute]) -> io::Result<()> {
    out.write_all(b"[")?;
    for (key, attribute) in attributes.iter().enumerate() {
        let comma = if key == 0 { "" } else { "," };
        let kind = attribute.kind.name();
        write!(out, "{comma}\n{{\"key\":{key},\"type\":\"{kind}\"}}")?;
    }
    out.write_all(b"\n]\n")
}

/// Writes state.json; `text` gives the string of a number.
fn write_state<'a>(
    out: &mut dyn Write,
    attributes: &[Attribute],
    text: impl Fn(u32) -> &'a str,
) -> io::Result<()> {
    out.write_all(b"[")?;
    let mut line = Vec::new();
    for (key, attribute) in attributes.iter().enumerate() {
        line.clear();
        line.extend_from_slice(if key == 0 { b"" } else { b"," });
        write!(line, "\n{{\"key\":{key},\"value\":")?;
        match attribute.value {
            Value::Int(value) => write!(line, "{value}")?,
            Value::Text(number) => push_text(&mut line, text(number)),
            Value::Bool(value) => write!(line, "{value}")?,
            // JSON has no word for a number that is not finite.
            Value::Double(value) if value.is_finite() => write!(line, "{value:?}")?,
            Value::Null | Value::Double(_) => line.extend_from_slice(b"null"),
        }
        line.push(b'}');
        out.write_all(&line)?;
    }
    out.write_all(b"\n]\n")
}

/// Writes tree.json; `counter` gives the name of a counter.
fn write_tree<'a>(
    out: &mut dyn Write,
    attributes: &[Attribute],
    counter: impl Fn(u32) -> &'a str,
) -> io::Result<()> {
    // Children of one parent stand together, in the order of their keys.
    let mut children: Vec<usize> = (1..attributes.len()).collect();
    children.sort_by_key(|&key| attributes[key].parent);
    let children_of = |parent: usize| {
        let parent_of = |&key: &usize| attributes[key].parent as usize;
        let start = children.partition_point(|key| parent_of(key) < parent);
        let end = children.partition_point(|key| parent_of(key) <= parent);
        &children[start..end]
    };
    out.write_all(b"{\"version\":{\"major\":1,\"minor\":0},\n\"root\":{\"key\":0")?;
    // The rest of each open list of children.
    let mut open = Vec::new();
    let mut node = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let list = children_of(node);
        match list.is_empty() {
            true => line.push(b'}'),
            false => line.extend_from_slice(b",\"children\":{"),
        }
        let first = !list.is_empty();
        if first {
            open.push(list);
        }
        while let Some([]) = open.last() {
            open.pop();
            line.extend_from_slice(b"}}");
        }
        let Some(list) = open.last_mut() else { break };
        node = list[0];
        *list = &list[1..];
        if !first {
            line.push(b',');
        }
        line.push(b'\n');
        match attributes[node].name {
            Name::Word(word) => push_text(&mut line, word),
            Name::Number(number) => write!(line, "\"{number}\"")?,
            Name::Counter(number) => push_text(&mut line, counter(number)),
        }
        write!(line, ":{{\"key\":{node}")?;
        out.write_all(&line)?;
    }
    line.extend_from_slice(b"}\n");
    out.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::super::record::Kind;
    use super::*;

    fn attribute(parent: u32, name: Name, kind: Kind, value: Value) -> Attribute {
        Attribute {
            parent,
            name,
            kind,
            since: 0,
            value,
        }
    }

    #[test]
    fn files_as_the_proposal_has_them() {
        let attributes = [
            attribute(0, Name::Word(""), Kind::None, Value::Null),
            attribute(0, Name::Word("Threads"), Kind::None, Value::Null),
            attribute(1, Name::Number(390), Kind::Int, Value::Int(-5)),
            attribute(0, Name::Word("CPUs"), Kind::Text, Value::Text(3)),
            attribute(1, Name::Number(7), Kind::Any, Value::Bool(true)),
            attribute(2, Name::Word("a\"b"), Kind::Double, Value::Double(1.5)),
        ];
        let text = |write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
            let mut out = Vec::new();
            write(&mut out).expect("memory");
            String::from_utf8(out).expect("UTF-8")
        };
        let types = "[\n{\"key\":0,\"type\":\"none\"},\n{\"key\":1,\"type\":\"none\"},\n\
                     {\"key\":2,\"type\":\"int\"},\n{\"key\":3,\"type\":\"string\"},\n\
                     {\"key\":4,\"type\":\"any\"},\n{\"key\":5,\"type\":\"double\"}\n]\n";
        assert_eq!(text(&|out| write_types(out, &attributes)), types);
        let tree = "{\"version\":{\"major\":1,\"minor\":0},\n\"root\":{\"key\":0,\"children\":{\n\
                    \"Threads\":{\"key\":1,\"children\":{\n\"390\":{\"key\":2,\"children\":{\n\
                    \"a\\\"b\":{\"key\":5}}},\n\"7\":{\"key\":4}}},\n\"CPUs\":{\"key\":3}}}}\n";
        assert_eq!(text(&|out| write_tree(out, &attributes, |_| "x3")), tree);
        let state = "[\n{\"key\":0,\"value\":null},\n{\"key\":1,\"value\":null},\n\
                     {\"key\":2,\"value\":-5},\n{\"key\":3,\"value\":\"x3\"},\n\
                     {\"key\":4,\"value\":true},\n{\"key\":5,\"value\":1.5}\n]\n";
        assert_eq!(text(&|out| write_state(out, &attributes, |_| "x3")), state);
        let root = "{\"version\":{\"major\":1,\"minor\":0},\n\"root\":{\"key\":0}}\n";
        assert_eq!(text(&|out| write_tree(out, &attributes[..1], |_| "")), root);
    }
}
