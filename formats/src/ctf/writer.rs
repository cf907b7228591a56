//! Writes events of any format as a CTF 1.8 folder: metadata, one stream file per thread, one of
//! facts (functions, threads, the trace itself), and what Trace Compass wants beside it. Streams:
//! what is kept of a thread is one run of packets and its open calls (4 bytes each); all functions
//! are kept for the list of names. Must never write what makes a reader give up: a time that goes
//! back, a packet longer than it says.

use crate::text::cut;
use std::collections::HashMap;
use std::path::PathBuf;

use super::clock::Times;
use super::folder::Folder;
use super::lane::{CutShort, Lane};
use super::layout::{self, FACTS, NO_CPU};
use super::packets::Packets;
use super::{metadata, symbols};
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Function, Mark, Thread, ThreadId, Ticks, TraceInfo, Trouble};
use crate::sink::{Losses, Sink};
use crate::thread_numbers::{RENUMBERED, ThreadNumbers};
use crate::writer::Writer;

/// The stream file of facts.
pub(super) const FACTS_FILE: &str = "facts";
/// Names are kept whole up to a length that no real name has.
const NAME_MOST: usize = 1 << 20;

/// A sink that writes a CTF folder.
pub struct CtfWriter {
    folder: Folder,
    uuid: [u8; 16],
    info: TraceInfo,
    times: Times,
    lanes: Vec<Lane>,
    lane_of: HashMap<ThreadId, usize>,
    numbers: ThreadNumbers,
    now: Option<usize>,
    facts: Packets,
    /// So many of `info.functions` are among the facts.
    functions_told: usize,
    trace_told: bool,
    cut: CutShort,
    losses: Losses,
    failed: Option<Error>,
}

impl CtfWriter {
    /// Writes the metadata into `folder`, which is there and empty. `info` gives clock, program and
    /// functions.
    ///
    /// # Errors
    /// Where a file can't be written.
    pub fn new(folder: PathBuf, info: &TraceInfo) -> Result<CtfWriter, Error> {
        let times = Times::new(&info.clock);
        let uuid = metadata::uuid(info);
        let folder = Folder::new(folder);
        folder.write(
            "metadata",
            metadata::text(info, uuid, times.offset).as_bytes(),
        )?;
        let mut losses = Losses::default();
        let far = times.anchor.is_some_and(|(here, unix)| {
            i128::from(unix) - i128::from(here) != i128::from(times.offset)
        });
        let what = "anchors of the clock over 292 years from 1970: other readers do not see them";
        losses.add(what, far.into());
        let what = "what is known to be wrong with the clock: left out";
        losses.add(what, (info.clock.trouble != Trouble::default()).into());
        losses.add_untimed(&info.functions);
        Ok(CtfWriter {
            folder,
            uuid,
            info: TraceInfo {
                threads: Vec::new(),
                ..info.clone()
            },
            times,
            lanes: Vec::new(),
            lane_of: HashMap::new(),
            numbers: ThreadNumbers::default(),
            now: None,
            facts: Packets::new(uuid, FACTS, 0),
            functions_told: 0,
            trace_told: false,
            cut: CutShort::default(),
            losses,
            failed: None,
        })
    }

    /// Completes all files; returns what the format could not hold.
    ///
    /// # Errors
    /// The first one that was met, now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        let start = self.start();
        for lane in &mut self.lanes {
            if let Some(end) = self.info.end {
                lane.end(end, &mut self.times, &mut self.cut);
            }
            lane.finish(start);
        }
        Writer::flush(&mut self)?;
        self.info.functions.sort_by_key(|function| function.id);
        let map = symbols::map(&self.info.functions);
        if !map.is_empty() {
            self.folder.write(symbols::FUNCTIONS_FILE, map.as_bytes())?;
        }
        let inside: Vec<_> = self.lanes.iter_mut().filter_map(Lane::inside).collect();
        if !inside.is_empty() {
            // Times are bounded so that this sum is an i64.
            let start = self.times.offset.saturating_add_unsigned(start);
            let state = symbols::state(&inside, start)?;
            self.folder.write(symbols::STATE_FILE, &state)?;
        }
        self.count_losses();
        Ok(self.losses)
    }

    fn count_losses(&mut self) {
        let CutShort {
            back,
            payloads,
            cpus,
            ..
        } = self.cut;
        let what = "times past what 64 signed bits hold of ns since 1970: cut to the latest";
        self.losses.add(what, self.times.late);
        let what = "times before the thread's event before: made the same, for readers refuse them";
        self.losses.add(what, back);
        self.losses
            .add("payloads over 8 MiB: cut to that", payloads);
        self.losses.add(
            "changes to CPU 4294967295, which stands for none: left out",
            cpus,
        );
        self.losses.note(RENUMBERED, self.numbers.renumbered);
    }

    /// The earliest time of all threads, ns.
    fn start(&mut self) -> u64 {
        let lanes = self.lanes.iter().filter_map(|lane| lane.first);
        let known = self.info.start.map(|start| self.times.nanos(start));
        lanes.chain(known).min().unwrap_or_default()
    }

    /// Hands a thread's packets to its file where there are many.
    fn spill(&mut self) {
        let Some(lane) = self.now.and_then(|now| self.lanes.get_mut(now)) else {
            return;
        };
        if lane.packets.is_full() && self.failed.is_none() {
            let written = self.folder.append(&lane.file, lane.packets.ready());
            lane.packets.clear();
            self.failed = written.err().map(Error::from);
        }
    }

    fn write_facts(&mut self) -> Result<(), Error> {
        let start = self.start();
        let time = self.facts.last().map_or(start, |last| last.max(start));
        if !self.trace_told {
            let end = self.info.end.map(|end| self.times.nanos(end));
            layout::trace(
                time,
                &self.info,
                self.times.anchor,
                end,
                room(&mut self.facts, time),
            );
            self.trace_told = true;
        }
        for at in self.functions_told..self.info.functions.len() {
            let function = &self.info.functions[at];
            layout::function(time, function, room(&mut self.facts, time));
            self.write_full_facts()?;
        }
        self.functions_told = self.info.functions.len();
        for at in 0..self.lanes.len() {
            let lane = &mut self.lanes[at];
            if std::mem::take(&mut lane.untold) {
                layout::thread(time, &lane.thread, room(&mut self.facts, time));
                self.write_full_facts()?;
            }
        }
        self.folder.append(FACTS_FILE, self.facts.ready())?;
        self.facts.clear();
        Ok(())
    }

    fn write_full_facts(&mut self) -> Result<(), Error> {
        if self.facts.is_full() {
            self.folder.append(FACTS_FILE, self.facts.ready())?;
            self.facts.clear();
        }
        Ok(())
    }

    fn shorten(&mut self, name: &mut String) {
        if name.len() > NAME_MOST {
            name.truncate(cut(name, NAME_MOST).len());
            self.losses.add("names over 1 MiB: cut to that", 1);
        }
    }
}

/// Where the next fact goes.
fn room(facts: &mut Packets, time: u64) -> &mut Vec<u8> {
    if !facts.has_room() {
        facts.begin(time, NO_CPU, false, 0);
    }
    facts.event(time)
}

impl Sink for CtfWriter {
    fn thread(&mut self, thread: &Thread) {
        if thread.id.0 == u64::MAX {
            // To babeltrace2 this number says that there is none.
            let what = "threads number 18446744073709551615, which stands for none: made 1 less";
            self.losses.add(what, 1);
            let id = ThreadId(u64::MAX - 1);
            return self.thread(&Thread {
                id,
                ..thread.clone()
            });
        }
        if let Some(&lane) = self.lane_of.get(&thread.id) {
            self.now = Some(lane);
            if thread.counts.is_some() {
                let mut thread = thread.clone();
                self.shorten(&mut thread.name);
                self.lanes[lane].know(thread);
            }
            return;
        }
        let mut thread = thread.clone();
        self.shorten(&mut thread.name);
        self.now = Some(self.lanes.len());
        self.lane_of.insert(thread.id, self.lanes.len());
        // The contexts that Trace Compass reads have 32 bits; the whole number is in the packet's head.
        let number = self.numbers.begin(thread.id);
        self.lanes
            .push(Lane::new(thread, number, &self.info, self.uuid));
    }

    fn calls(&mut self, calls: &[Call]) {
        let Some(lane) = self.now.and_then(|now| self.lanes.get_mut(now)) else {
            return;
        };
        for call in calls {
            lane.call(call, &mut self.times, &mut self.cut);
        }
        self.spill();
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some(lane) = self.now.and_then(|now| self.lanes.get_mut(now)) else {
            return;
        };
        lane.mark(mark, &mut self.times, &mut self.cut);
        self.spill();
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for CtfWriter {
    fn functions(&mut self, more: &[Function]) {
        self.losses.add_untimed(more);
        for function in more {
            let mut function = function.clone();
            self.shorten(&mut function.name);
            self.shorten(&mut function.file);
            self.info.functions.push(function);
        }
    }

    /// Closes all packets, and writes them and the facts so far. Short packets cost space: call it
    /// seldom.
    fn flush(&mut self) -> Result<(), Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        for lane in &mut self.lanes {
            lane.settle();
            let bytes = lane.packets.ready();
            if !bytes.is_empty() {
                self.folder.append(&lane.file, bytes)?;
                lane.packets.clear();
            }
        }
        self.write_facts()
    }

    fn end(&mut self, end: Ticks) {
        (self.info.end, self.trace_told) = (Some(end), false);
    }

    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        CtfWriter::finish(*self)
    }
}
