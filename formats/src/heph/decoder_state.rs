//! Turns the packets of a file into items of threads. Both passes run this state machine, so the second pass sees each
//! call as the first pass planned it.

use super::facts::{self, Gathered, Meaning, OwnEvent};
use super::names::{Gap, Names, Streams};
use super::notes;
use super::record::{Event, Metadata};
use super::scan::{self, LocatedUnit, Unit};
use crate::edges::{Item, ItemContent};
use crate::error::DiagnosticList;
use crate::model::{Ticks, TraceInfo};

/// A bit of an item's offset: the item is a gap in front of a packet. The rest is the number of missing
/// events.
pub(super) const GAP: u64 = 1 << 63;
/// An event is a call: its entry and its exit.
pub(super) const RECORDS_PER_EVENT: u64 = 2;

/// The most bytes that are kept of a fact.
const MAX_FACT: usize = 64 << 20;

/// The zero of all times. They become relative to `base`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epochs {
    /// The first epoch of the file. Events in front of it count from it too.
    pub(super) first: Option<u64>,
    /// The lowest.
    pub(super) base: Option<u64>,
}

/// The content of a unit. An event may also show that earlier events are missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) gap: Option<(usize, Item)>,
    pub(super) item: Option<(usize, Item)>,
}

/// The last event, if `fdr:more` events may continue it.
#[derive(Debug)]
struct Pending {
    /// As further events name it.
    key: u64,
    offset: u64,
    /// A fact that may not be complete. `None`: a call or mark. The second pass reads its `fdr:more` events.
    fact: Option<(OwnEvent, Gathered)>,
}

/// One pass under way.
#[derive(Debug)]
pub(super) struct DecoderState {
    pub(super) epochs: Epochs,
    /// The number that is added to the times of events.
    shift: u64,
    pub(super) names: Names,
    pub(super) streams: Streams,
    pub(super) trace: Option<TraceInfo>,
    /// The place of our first event. From there on, attributes have our meaning.
    pub(super) ours: Option<u64>,
    pub(super) earliest: Option<u64>,
    pub(super) diagnostics: DiagnosticList,
    /// The beginning of the last damaged bytes.
    damage: Option<u64>,
    pending: Option<Pending>,
}

impl DecoderState {
    /// A pass from the file's start, with the known epochs.
    pub(super) fn new(epochs: Epochs) -> DecoderState {
        let first = epochs.first.unwrap_or(0);
        DecoderState {
            epochs,
            shift: first - epochs.base.unwrap_or(first).min(first),
            names: Names::default(),
            streams: Streams::default(),
            trace: None,
            ours: None,
            earliest: None,
            diagnostics: DiagnosticList::default(),
            damage: None,
            pending: None,
        }
    }

    /// The next unit of the file.
    pub(super) fn unit(&mut self, found: &LocatedUnit<'_>) -> Step {
        match &found.unit {
            Unit::Event(event) => return self.event(event, found.offset, found.size),
            Unit::Metadata(metadata) => {
                self.complete();
                self.metadata(metadata, found.offset);
            }
            Unit::Damage(what) => {
                self.complete();
                self.damage = Some(found.offset);
                self.diagnostics.add(found.offset, what.clone());
            }
        }
        Step::default()
    }

    fn metadata(&mut self, metadata: &Metadata<'_>, offset: u64) {
        let Some(epoch) = metadata.epoch() else {
            let name = facts::lossy(metadata.name);
            let bytes = metadata.value.len();
            let what = format!("option {name:?} with {bytes} bytes is unknown; it is skipped");
            return self.diagnostics.add(offset, what);
        };
        let Epochs { first, base } = &mut self.epochs;
        first.get_or_insert(epoch);
        let base = base.get_or_insert(epoch);
        self.shift = epoch.saturating_sub(*base);
        *base = epoch.min(*base);
    }

    /// A time of the file in ticks.
    pub(super) fn ticks(&self, time: u64) -> u64 {
        time.saturating_add(self.shift)
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>, offset: u64, size: u64) -> Step {
        if let Some(what) = scan::trouble(event, size) {
            self.diagnostics.add(offset, what);
        }
        let own = facts::own(event);
        if self.pending.is_some() && own != Some(OwnEvent::More) {
            self.complete();
        }
        let (start, end) = (self.ticks(event.start), self.ticks(event.end));
        if end < start {
            let what = "an event that ends before it starts: taken for one without duration";
            self.diagnostics.add(offset, what);
        }
        if event.end.checked_add(self.shift).is_none() {
            let what = "the time of an event does not fit 64 bits of ns since the first epoch";
            self.diagnostics.add(offset, what);
        }
        let gap = self.gap(event, own, offset, end);
        if let Some(own) = own {
            self.ours.get_or_insert(offset);
            if self.begin(event, own, offset) {
                return Step::default();
            }
        }
        let substream = match own {
            Some(OwnEvent::Note) => notes::substream(event),
            _ => event.substream,
        };
        let lane = self.streams.lane(event.stream, substream);
        // All other marks have no time of their own.
        if !matches!(own, Some(OwnEvent::Wall | OwnEvent::Lost)) {
            self.earliest = Some(self.earliest.map_or(start, |earliest| earliest.min(start)));
        }
        let what = match own {
            Some(_) => ItemContent::Mark,
            None => self.call(event, offset),
        };
        let end = if own.is_some() { start } else { end };
        let item = Item {
            start: Ticks(start),
            end: Ticks(end),
            what,
            offset,
        };
        let gap = gap.map(|gap| (lane, gap));
        let item = Some((lane, item));
        Step { gap, item }
    }

    /// The gap in front of an event, if events are missing.
    fn gap(&mut self, event: &Event<'_>, own: Option<OwnEvent>, at: u64, end: u64) -> Option<Item> {
        let skipped = match own {
            Some(OwnEvent::Lost) => facts::number(event, "skipped"),
            _ => 0,
        };
        let Event {
            stream, counter, ..
        } = *event;
        // A number above 32 bits is damaged; then the counter decides.
        let skipped = u32::try_from(skipped).unwrap_or(0);
        match self.streams.count(stream, counter, skipped, (at, end)) {
            Gap::None => None,
            Gap::Missing {
                events,
                expected,
                end,
                offset,
            } => {
                // Damage since the stream's last event was reported before.
                if self.damage.is_none_or(|damage| damage < offset) {
                    let what = format!(
                        "{events} events of stream {stream} are missing in front of this one: its \
                         number is {counter}, not {expected}"
                    );
                    self.diagnostics.add(at, what);
                }
                let time = Ticks(end);
                Some(Item {
                    start: time,
                    end: time,
                    what: ItemContent::Mark,
                    offset: GAP | u64::from(events),
                })
            }
            Gap::Back(expected) => {
                let what = format!(
                    "stream {stream} goes back: the number of this event is {counter}, not \
                     {expected}; events came out of order, or another trace begins"
                );
                self.diagnostics.add(at, what);
                None
            }
        }
    }

    /// A call: its function and its attributes.
    #[inline]
    fn call(&mut self, event: &Event<'_>, offset: u64) -> ItemContent {
        let ours = self.ours.is_some();
        let (mut number, mut flags, mut arguments) = (None, 0, false);
        let (mut cpu, mut exit_cpu) = (None, None);
        for attribute in facts::attributes(event) {
            if !ours {
                arguments = true;
                break;
            }
            match facts::meaning(&attribute) {
                Meaning::Function(id) => number = Some(id),
                Meaning::Cpu(id) => cpu = Some(id),
                Meaning::ExitCpu(id) => exit_cpu = Some(id),
                Meaning::Flags(bits) => flags = bits,
                Meaning::Argument(_) | Meaning::Foreign => arguments = true,
            }
        }
        if flags & facts::FURTHER != 0 {
            flags &= facts::CALL_FLAGS;
            arguments = true;
            self.await_more(event, None, offset);
        }
        let function = self.names.call(event.description, number, ours);
        ItemContent::Span {
            function,
            flags,
            cpu,
            exit_cpu,
            arguments,
        }
    }

    /// Our own event. Returns whether it is a fact, or part of a fact.
    fn begin(&mut self, event: &Event<'_>, own: OwnEvent, offset: u64) -> bool {
        match own {
            OwnEvent::Wall | OwnEvent::Lost => false,
            OwnEvent::More => {
                self.go_on(event, offset);
                true
            }
            OwnEvent::Custom | OwnEvent::Typed | OwnEvent::Note => {
                self.await_more(event, None, offset);
                false
            }
            OwnEvent::Trace | OwnEvent::Function | OwnEvent::Thread => {
                let mut attributes = Gathered::default();
                attributes.add(event, 0, MAX_FACT);
                self.await_more(event, Some((own, attributes)), offset);
                true
            }
        }
    }

    /// `fdr:more` events may continue this one.
    fn await_more(&mut self, event: &Event<'_>, fact: Option<(OwnEvent, Gathered)>, offset: u64) {
        let key = facts::event_key(event.stream, event.counter);
        self.pending = Some(Pending { key, offset, fact });
    }

    /// A further event.
    fn go_on(&mut self, event: &Event<'_>, offset: u64) {
        let key = facts::continued(event);
        match &mut self.pending {
            Some(pending) if Some(pending.key) == key => {
                if let Some((_, attributes)) = &mut pending.fact {
                    attributes.add(event, 1, MAX_FACT);
                }
            }
            _ => {
                let what = "the event that this one continues is not in front of it; it is skipped";
                self.diagnostics.add(offset, what);
            }
        }
    }

    /// Ends the open fact, because no further event can continue it.
    pub(super) fn complete(&mut self) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let Some((own, mut attributes)) = pending.fact else {
            return;
        };
        attributes.unescape();
        let offset = pending.offset;
        let problem = match own {
            OwnEvent::Trace => self.describe_trace(attributes.trace()),
            OwnEvent::Function => self.names.declare(offset, attributes.function()),
            _ => self.streams.describe(attributes.thread()),
        };
        if let Some(what) = problem {
            self.diagnostics.add(offset, what);
        }
    }

    fn describe_trace(&mut self, mut info: TraceInfo) -> Option<String> {
        let anchor = info.clock.anchor;
        info.clock.anchor = anchor.map(|(Ticks(time), unix)| (Ticks(self.ticks(time)), unix));
        info.end = info.end.map(|Ticks(time)| Ticks(self.ticks(time)));
        let first = self.trace.get_or_insert_with(|| info.clone());
        // A clock's error may be NaN, which is not equal to itself.
        let comparable = |info: &TraceInfo| {
            let mut info = info.clone();
            let error = info.clock.error_ppm.take();
            (info, error.map(f64::to_bits))
        };
        // A stream knows its end last, and repeats all facts then.
        match first.end {
            None => {
                first.end = info.end;
                let is_same = comparable(first) == comparable(&info);
                first.end = first.end.filter(|_| is_same);
            }
            end => info.end = info.end.or(end),
        }
        (comparable(first) != comparable(&info)).then(|| {
            let program = info.program;
            let process = info.process;
            let process = process.map_or("unknown".into(), |process| process.to_string());
            format!(
                "another trace begins here (program {program:?}, process {process}); what it says \
                 of itself is left out"
            )
        })
    }
}
