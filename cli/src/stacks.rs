//! Follows the calls of each thread on a call stack, for commands that look at each call: a pass takes the calls as
//! they end.

use fdr_formats::calls::{
    CallHandler, CallStack, EdgeStatus, EndedCall, Exit, OpenCall, Untimed, untimed,
};
use fdr_formats::notes::NoteKind;
use fdr_formats::{
    Call, CpuId, Diagnostic, Edge, FunctionId, Mark, Sink, Source, Thread, ThreadId, Ticks,
};
use foldhash::{HashMap, HashMapExt};

use crate::ui;

/// What a pass over the trace does with its calls.
pub(crate) trait Pass: Send {
    /// What is known of an open call.
    type Data: Copy + Default + Send;

    /// The calls up to the next such call are of this thread.
    fn thread(&mut self, thread: ThreadId);

    /// A call was entered inside the call that `caller` belongs to.
    fn entered(&mut self, function: FunctionId, caller: Self::Data) -> Self::Data {
        let _ = (function, caller);
        Self::Data::default()
    }

    /// A call has ended. `is_open`: it was open when the trace was written, and lasts until then.
    fn ended(&mut self, ended: &EndedCall<Self::Data>, is_open: bool);

    /// The program left a note inside the call that `caller` belongs to.
    fn note(&mut self, caller: Self::Data, time: Ticks, kind: NoteKind, body: &[u8]) {
        let _ = (caller, time, kind, body);
    }

    /// The innermost open call made calls that left no records.
    fn short_calls(&mut self, caller: Self::Data, time: Ticks, calls: u64, ticks: u64) {
        let _ = (caller, time, calls, ticks);
    }

    /// Something in the trace is wrong.
    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        let _ = diagnostic;
    }

    /// The thread runs on that CPU from here on.
    fn cpu(&mut self, cpu: CpuId) {
        let _ = cpu;
    }
}

/// Passes that run together, which takes less time than one after the other.
pub(crate) struct Together<P, const N: usize>(pub(crate) [P; N]);

/// What each of them knows of an open call.
#[derive(Clone, Copy)]
pub(crate) struct EachData<D, const N: usize>([D; N]);

impl<D: Default, const N: usize> Default for EachData<D, N> {
    fn default() -> EachData<D, N> {
        EachData(std::array::from_fn(|_| D::default()))
    }
}

impl<P: Pass, const N: usize> Pass for Together<P, N> {
    type Data = EachData<P::Data, N>;

    fn thread(&mut self, thread: ThreadId) {
        self.0.iter_mut().for_each(|pass| pass.thread(thread));
    }

    fn entered(&mut self, function: FunctionId, caller: Self::Data) -> Self::Data {
        EachData(std::array::from_fn(|at| {
            self.0[at].entered(function, caller.0[at])
        }))
    }

    fn ended(&mut self, ended: &EndedCall<Self::Data>, is_open: bool) {
        for (at, pass) in self.0.iter_mut().enumerate() {
            pass.ended(&ended.with_data(ended.call.data.0[at]), is_open);
        }
    }

    fn note(&mut self, caller: Self::Data, time: Ticks, kind: NoteKind, body: &[u8]) {
        for (pass, caller) in self.0.iter_mut().zip(caller.0) {
            pass.note(caller, time, kind, body);
        }
    }

    fn short_calls(&mut self, caller: Self::Data, time: Ticks, calls: u64, ticks: u64) {
        for (pass, caller) in self.0.iter_mut().zip(caller.0) {
            pass.short_calls(caller, time, calls, ticks);
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        for pass in &mut self.0 {
            pass.diagnostic(diagnostic.clone());
        }
    }

    fn cpu(&mut self, cpu: CpuId) {
        self.0.iter_mut().for_each(|pass| pass.cpu(cpu));
    }
}

/// A pass as a sink.
struct Stacks<P: Pass> {
    pass: P,
    untimed: Untimed,
    end: Option<Ticks>,
    /// A thread has ended when another one begins.
    one_by_one: bool,
    threads: Vec<(ThreadId, CallStack<P::Data>)>,
    by_id: HashMap<ThreadId, usize>,
    current: usize,
}

/// The receiver of a stack's ended calls.
struct Receiver<'a, P> {
    pass: &'a mut P,
    end: Option<Ticks>,
}

impl<P: Pass> CallHandler<P::Data> for Receiver<'_, P> {
    fn missing(&mut self, _: FunctionId, _: Exit, _: Option<&P::Data>) -> P::Data {
        P::Data::default()
    }

    fn ended(&mut self, ended: EndedCall<P::Data>, _: &mut [OpenCall<P::Data>]) {
        let is_last = self.end.is_none_or(|end| ended.end >= end);
        let is_open = ended.exit != EdgeStatus::Measured && is_last;
        self.pass.ended(&ended, is_open);
    }
}

impl<P: Pass> Stacks<P> {
    fn finish(&mut self, place: usize) {
        if let Some((thread, stack)) = self.threads.get_mut(place) {
            self.pass.thread(*thread);
            let (pass, end) = (&mut self.pass, self.end);
            stack.finish(end, &mut Receiver { pass, end });
        }
    }
}

impl<P: Pass> Sink for Stacks<P> {
    fn thread(&mut self, thread: &Thread) {
        let known = self.threads.get(self.current);
        if known.is_none_or(|(id, _)| *id != thread.id) {
            if self.one_by_one {
                self.finish(self.current);
            }
            let (threads, untimed) = (&mut self.threads, &self.untimed);
            self.current = *self.by_id.entry(thread.id).or_insert_with(|| {
                threads.push((thread.id, CallStack::new().with_untimed(untimed.clone())));
                threads.len() - 1
            });
        }
        self.pass.thread(thread.id);
    }

    fn calls(&mut self, calls: &[Call]) {
        if self.threads.is_empty() {
            self.thread(&Thread::default());
        }
        let (_, stack) = &mut self.threads[self.current];
        let (pass, end) = (&mut self.pass, self.end);
        let mut receiver = Receiver { pass, end };
        for call in calls {
            if call.edge == Edge::Entry {
                let caller = stack.open().last().map(|open| open.data);
                let data = receiver
                    .pass
                    .entered(call.function, caller.unwrap_or_default());
                stack.enter(call, data);
            } else {
                stack.exit(call, &mut receiver);
            }
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.pass.diagnostic(diagnostic);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some((_, stack)) = self.threads.get_mut(self.current) else {
            return;
        };
        match mark {
            Mark::Lost { .. } => stack.lose(),
            Mark::Break { .. } => stack.doubt(),
            Mark::ShortCalls { time, calls, ticks } => {
                let ticks = stack.short_calls(*time, *ticks);
                let caller = stack.open().last().map(|open| open.data);
                self.pass
                    .short_calls(caller.unwrap_or_default(), *time, *calls, ticks);
            }
            Mark::Cpu { cpu, .. } => self.pass.cpu(*cpu),
            Mark::Note { time, kind, body } => {
                let caller = stack.open().last().map(|open| open.data);
                self.pass
                    .note(caller.unwrap_or_default(), *time, *kind, body);
            }
            _ => {}
        }
    }
}

/// Runs a pass over the trace on all cores. Returns the passes of the workers.
///
/// # Errors
/// If the trace can't be read.
pub(crate) fn run<P: Pass>(
    source: &dyn Source,
    make: impl Fn() -> P + Sync,
) -> Result<Vec<P>, fdr_formats::Error> {
    run_on(source, ui::jobs(), make)
}

/// The same on at most `jobs` threads.
///
/// # Errors
/// If the trace can't be read.
pub(crate) fn run_on<P: Pass>(
    source: &dyn Source,
    jobs: usize,
    make: impl Fn() -> P + Sync,
) -> Result<Vec<P>, fdr_formats::Error> {
    let untimed = untimed(source.info());
    let stacks = || Stacks {
        pass: make(),
        untimed: untimed.clone(),
        end: source.info().end,
        one_by_one: crate::trace::has_lane_for_each_thread(source),
        threads: Vec::new(),
        by_id: HashMap::new(),
        current: 0,
    };
    let done = ui::drive_on(source, jobs, stacks)?;
    let passes = done.into_iter().map(|mut stacks| {
        for place in 0..stacks.threads.len() {
            stacks.finish(place);
        }
        stacks.pass
    });
    Ok(passes.collect())
}
