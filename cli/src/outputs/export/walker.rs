//! The one walk over a trace that gives exports complete calls: what began where, what ended with which arguments, and
//! what happened between. The call stack of the formats matches the calls. Calls that were entered before the first
//! record come where they begin, because [`Survey`] has found them. Of one thread, no time that is given goes back.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use fdr_formats::calls::{CallHandler, CallStack, EdgeStatus, EndedCall, Exit, OpenCall, untimed};
use fdr_formats::scale::Scale;
use fdr_formats::{
    Call, CpuId, Diagnostic, Edge, Error, FunctionId, Losses, Mark, Sink, Thread, ThreadId, Ticks,
    Writer,
};

use super::Capabilities;
use super::facts::{Facts, Lane};
use super::left_out::LeftOut;
use super::receiver::{Happening, HappeningKind, ReceivedCall, Receiver, StayNs, UnrecordedCalls};
use super::survey::Survey;
use super::value::{Value, Values, hex};

/// What is kept of an open call. It is small, because each call is moved.
#[derive(Default)]
struct EntryFacts {
    /// It was entered before the first record, and was given there.
    early: bool,
    cpu: Option<CpuId>,
    arguments: Option<Box<Arguments>>,
}

#[derive(Default)]
pub(super) struct Arguments {
    pub(super) named: Values,
    /// XRay's own, which have no names. A conversion makes them of named ones, too.
    bare: Values,
}

/// A thread on its way.
struct Line {
    lane: Lane,
    stack: CallStack<EntryFacts>,
    cpu: Option<CpuId>,
    /// The latest time of an edge that was given, and of anything.
    now: u64,
    latest: u64,
    /// Calls that were entered before the first record, innermost first, until that comes.
    earlier: Vec<FunctionId>,
    /// How many of the earlier calls have not ended.
    around: usize,
    /// The last edge was an entry.
    is_entry: bool,
}

/// Gives a trace to a receiver. As all writers, it keeps the first error to the end.
pub(super) struct Walker {
    receiver: Box<dyn Receiver>,
    pub(super) facts: Arc<Facts>,
    survey: Survey,
    holds: Capabilities,
    untimed: fdr_formats::calls::Untimed,
    scale: Scale,
    lines: Vec<Line>,
    by_id: HashMap<ThreadId, usize>,
    current: usize,
    losses: LeftOut,
    error: Option<io::Error>,
}

/// Gives the calls that end to a receiver.
struct Ending<'a> {
    receiver: &'a mut dyn Receiver,
    lane: &'a Lane,
    scale: &'a mut Scale,
    start_ns: u64,
    now: &'a mut u64,
    around: &'a mut usize,
    cpu: Option<CpuId>,
    losses: &'a mut LeftOut,
    error: &'a mut Option<io::Error>,
}

impl Ending<'_> {
    fn ns(&mut self, time: Ticks) -> u64 {
        self.scale.nanos(time).0.saturating_sub(self.start_ns)
    }

    /// Returns the time, but no earlier time than that of the last edge. Counts an edge that was moved.
    fn reach(&mut self, at: u64) -> u64 {
        self.losses.moved += u64::from(at < *self.now);
        *self.now = at.max(*self.now);
        *self.now
    }

    fn keep(&mut self, given: io::Result<()>) {
        if let Err(error) = given {
            self.error.get_or_insert(error);
        }
    }
}

impl CallHandler<EntryFacts> for Ending<'_> {
    fn missing(&mut self, _: FunctionId, exit: Exit, _: Option<&EntryFacts>) -> EntryFacts {
        EntryFacts {
            early: exit == Exit::Before,
            cpu: self.cpu,
            arguments: None,
        }
    }

    fn ended(&mut self, ended: EndedCall<EntryFacts>, _: &mut [OpenCall<EntryFacts>]) {
        if self.error.is_some() {
            return;
        }
        let (start, end) = (self.ns(ended.call.start), self.ns(ended.end));
        let function = ended.call.function;
        let EntryFacts {
            early,
            cpu,
            arguments,
        } = &ended.call.data;
        if ended.call.entry() == EdgeStatus::Missing && !early {
            let at = self.reach(start);
            let given = self.receiver.entered(self.lane, function, at);
            self.keep(given);
        }
        *self.around -= usize::from(*early && *self.around > 0);
        let at = self.reach(end);
        let none = Values::default();
        let arguments =
            arguments
                .as_ref()
                .map_or(&none, |arguments| match arguments.named.is_empty() {
                    true => &arguments.bare,
                    false => &arguments.named,
                });
        self.losses.clipped += u64::from(ended.clipped);
        self.losses.untimed += u64::from(ended.untimed);
        let call = ReceivedCall {
            function,
            start,
            end: end.max(start),
            at,
            total: self.scale.nanos(Ticks(ended.total())).0,
            own: self.scale.nanos(Ticks(ended.own())).0,
            depth: ended.depth + *self.around,
            clipped: ended.clipped,
            entry: ended.call.entry(),
            exit: ended.exit,
            untimed: ended.untimed,
            cpu: *cpu,
            arguments,
        };
        let given = self.receiver.left(self.lane, &call);
        self.keep(given);
    }
}

impl Walker {
    /// A walk that begins. What is known of the trace as a whole is given at once.
    ///
    /// # Errors
    /// Where nothing can be written.
    pub(super) fn new(
        receiver: Box<dyn Receiver>,
        facts: Arc<Facts>,
        survey: Survey,
        holds: Capabilities,
    ) -> io::Result<Walker> {
        let mut walker = Walker {
            receiver,
            untimed: untimed(&facts.info),
            scale: Scale::new(facts.info.clock.frequency),
            survey,
            holds,
            lines: Vec::new(),
            by_id: HashMap::new(),
            current: 0,
            losses: LeftOut::default(),
            error: None,
            facts,
        };
        let facts = walker.facts.clone();
        if holds.moments {
            for moment in &facts.info.moments {
                let mut values = Values::default();
                values.add("number", Value::Unsigned(moment.number));
                let lane = Lane {
                    process: facts.process(),
                    ..Lane::default()
                };
                let happening = Happening {
                    at: facts.ns(moment.time),
                    what: HappeningKind::Moment,
                    name: &moment.name,
                    values: &values,
                };
                walker.receiver.happened(&lane, &happening)?;
            }
        }
        Ok(walker)
    }

    /// A thread that was not there before.
    fn begin(&mut self, thread: &Thread) -> io::Result<Line> {
        let lane = self.facts.lane(self.lines.len(), thread);
        self.receiver.thread(&lane)?;
        if let Some(counts) = thread.counts {
            let mut values = Values::default();
            for (name, count) in [
                ("recorded", counts.recorded),
                ("readable", counts.readable),
                ("overwritten", counts.overwritten),
                ("dropped", counts.dropped),
                ("summarised", counts.summarised),
            ] {
                values.add(name, Value::Unsigned(count));
            }
            let happening = Happening {
                at: 0,
                what: HappeningKind::Counts,
                name: "records",
                values: &values,
            };
            self.receiver.happened(&lane, &happening)?;
        }
        if let (true, Some(states)) = (self.holds.states, &self.facts.states) {
            let (from, until) = (self.facts.start, self.facts.end);
            for stay in states.between(thread.id, from, until) {
                let Some(state) = stay.state else { continue };
                let stay = StayNs {
                    from: self.facts.ns(stay.from),
                    until: self.facts.ns(stay.until),
                    state,
                    cpu: stay.cpu,
                };
                self.receiver.stayed(&lane, &stay)?;
            }
        }
        let earlier = self.survey.take_earlier(thread.id);
        Ok(Line {
            lane,
            stack: CallStack::new().with_untimed(self.untimed.clone()),
            cpu: None,
            now: 0,
            latest: 0,
            around: earlier.len(),
            earlier,
            is_entry: false,
        })
    }

    /// Splits what a call needs from its line.
    fn line(
        &mut self,
    ) -> Option<(
        &mut CallStack<EntryFacts>,
        &mut Vec<FunctionId>,
        &mut bool,
        Ending<'_>,
    )> {
        let line = self.lines.get_mut(self.current)?;
        let ending = Ending {
            receiver: &mut *self.receiver,
            lane: &line.lane,
            scale: &mut self.scale,
            start_ns: self.facts.start_ns(),
            now: &mut line.now,
            around: &mut line.around,
            cpu: line.cpu,
            losses: &mut self.losses,
            error: &mut self.error,
        };
        Some((
            &mut line.stack,
            &mut line.earlier,
            &mut line.is_entry,
            ending,
        ))
    }

    fn call(&mut self, call: &Call) {
        let Some((stack, earlier, is_entry, mut ending)) = self.line() else {
            return;
        };
        let time = ending.ns(call.time);
        for function in std::mem::take(earlier).into_iter().rev() {
            let at = ending.reach(time);
            let given = ending.receiver.entered(ending.lane, function, at);
            ending.keep(given);
        }
        *is_entry = call.edge == Edge::Entry;
        if call.edge == Edge::Entry {
            let kept = EntryFacts {
                early: false,
                cpu: ending.cpu,
                arguments: None,
            };
            stack.enter(call, kept);
            let at = ending.reach(time);
            let given = ending.receiver.entered(ending.lane, call.function, at);
            ending.keep(given);
        } else {
            stack.exit(call, &mut ending);
        }
    }

    fn short_calls(&mut self, time: Ticks, calls: u64, ticks: u64) -> io::Result<()> {
        let Some((stack, _, _, mut ending)) = self.line() else {
            return Ok(());
        };
        let before = stack.previous_edge();
        let ticks = stack.short_calls(time, ticks);
        let from = ending.ns(before.unwrap_or(time));
        let from = from.max(*ending.now);
        let until = from + ending.scale.nanos(Ticks(ticks)).0;
        *ending.now = until;
        ending
            .receiver
            .short(ending.lane, &UnrecordedCalls { from, until, calls })
    }

    /// Something that is no call, at its time or at the last one.
    pub(super) fn give(
        &mut self,
        time: Option<Ticks>,
        what: HappeningKind,
        name: &str,
        values: &Values,
    ) -> io::Result<()> {
        let Some(line) = self.lines.get_mut(self.current) else {
            return Ok(());
        };
        let at = time
            .map_or(line.latest, |time| self.facts.ns(time))
            .max(line.now);
        line.latest = line.latest.max(at);
        let happening = Happening {
            at,
            what,
            name,
            values,
        };
        self.receiver.happened(&line.lane, &happening)
    }

    /// The arguments of the innermost open call.
    pub(super) fn arguments(&mut self) -> Option<&mut Arguments> {
        let line = self.lines.get_mut(self.current)?;
        let open = line.stack.open_mut().last_mut()?;
        Some(open.data.arguments.get_or_insert_default())
    }

    /// The arguments of the innermost open call of a function.
    pub(super) fn arguments_of(&mut self, function: FunctionId) -> Option<&mut Arguments> {
        let line = self.lines.get_mut(self.current)?;
        let mut open = line.stack.open_mut().iter_mut();
        let open = open.rfind(|open| open.function == function)?;
        Some(open.data.arguments.get_or_insert_default())
    }

    fn pass(&mut self, mark: &Mark<'_>) -> io::Result<()> {
        let mut values = Values::default();
        match *mark {
            Mark::Cpu { time, cpu } => {
                if let Some(line) = self.lines.get_mut(self.current) {
                    line.cpu = Some(cpu);
                }
                values.add("cpu", Value::Unsigned(cpu.0.into()));
                self.give(Some(time), HappeningKind::Cpu, "", &values)
            }
            Mark::Argument { value } => {
                let line = self.lines.get(self.current);
                if line.is_some_and(|line| line.is_entry)
                    && let Some(arguments) = self.arguments()
                {
                    let name = format!("argument_{}", arguments.bare.iter().count());
                    arguments.bare.add(&name, Value::Unsigned(value));
                }
                Ok(())
            }
            Mark::Lost { records } => {
                if let Some((stack, ..)) = self.line() {
                    stack.lose();
                }
                values.add("records", Value::Unsigned(records));
                self.give(None, HappeningKind::Lost, "records are missing", &values)
            }
            Mark::Break { time } => {
                if let Some((stack, ..)) = self.line() {
                    stack.doubt();
                }
                self.give(
                    Some(time),
                    HappeningKind::Break,
                    "the clock jumped",
                    &values,
                )
            }
            Mark::ShortCalls { time, calls, ticks } => self.short_calls(time, calls, ticks),
            Mark::Note { time, kind, body } => self.note(time, kind, body),
            Mark::Custom { time, data, .. } => {
                values.add("data", hex(data));
                self.give(Some(time), HappeningKind::Payload, "custom event", &values)
            }
            Mark::Typed { time, kind, data } => {
                values.add("kind", Value::Unsigned(kind.into()));
                values.add("data", hex(data));
                self.give(Some(time), HappeningKind::Payload, "typed event", &values)
            }
            Mark::Wall { .. } | Mark::Threshold { .. } => Ok(()),
        }
    }
}

impl Sink for Walker {
    fn thread(&mut self, thread: &Thread) {
        if let Some(&known) = self.by_id.get(&thread.id) {
            self.current = known;
            return;
        }
        self.losses.thread(thread);
        match self.begin(thread) {
            Ok(line) => {
                self.current = self.lines.len();
                self.by_id.insert(thread.id, self.current);
                self.lines.push(line);
            }
            Err(error) => drop(self.error.get_or_insert(error)),
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        if self.lines.is_empty() && self.error.is_none() {
            self.thread(&Thread::default());
        }
        for call in calls {
            if self.error.is_some() {
                return;
            }
            self.call(call);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if self.lines.is_empty() || self.error.is_some() {
            return;
        }
        self.losses.mark(mark);
        if let Err(error) = self.pass(mark) {
            self.error.get_or_insert(error);
        }
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for Walker {
    fn finish(mut self: Box<Self>) -> Result<Losses, Error> {
        let end = self.facts.info.end;
        for at in 0..self.lines.len() {
            self.current = at;
            if let Some((stack, _, _, mut ending)) = self.line() {
                stack.finish(end, &mut ending);
            }
        }
        if let Some(error) = self.error {
            return Err(error.into());
        }
        let mut losses = self.losses.losses(&self.facts, self.holds);
        self.receiver.losses(&mut losses);
        self.receiver.finish()?;
        Ok(losses)
    }
}
