//! The last panic of a trace. The recorder leaves an event at each panic, so that a trace of another reason has it, too.

use fdr_formats::calls::EndedCall;
use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::{Error, Function, FunctionId, Source, ThreadId, Ticks, TraceInfo, note_words};

use crate::report::names::{name_of, name_of_thread};
use crate::stacks::{self, Pass};
use crate::ui;

/// The name of the event, and of its fields.
const EVENT: &str = "panic";
const MESSAGE: &str = "message";
const PLACE: &str = "at";

/// A panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastPanic {
    pub(crate) time: Ticks,
    pub(crate) thread: ThreadId,
    message: String,
    place: String,
}

impl LastPanic {
    /// The last one of the trace, if there is one.
    ///
    /// # Errors
    /// If the trace can't be read.
    pub(crate) fn find(source: &dyn Source) -> Result<Option<LastPanic>, Error> {
        let info = source.info();
        let is_event = |function: &&Function| function.name == EVENT && !function.is_called();
        let Some(event) = info.functions.iter().find(is_event) else {
            return Ok(None);
        };
        let make = || PanicPass {
            info,
            event: event.id,
            thread: ThreadId(0),
            last: None,
        };
        let passes = stacks::run_on(source, ui::jobs(), make)?;
        let all = passes.into_iter().filter_map(|pass| pass.last);
        Ok(all.max_by_key(|panic| panic.time))
    }

    /// As `panic in thread 71 (worker) at src/main.rs:7: index out of bounds`, the words of a trace that a panic made.
    pub(crate) fn in_words(&self, info: &TraceInfo) -> String {
        let name = match name_of_thread(info, self.thread) {
            "" => String::new(),
            name => format!(" ({})", ui::clean(name)),
        };
        let thread = self.thread.0;
        format!(
            "panic in thread {thread}{name} at {}: {}",
            self.place, self.message
        )
    }
}

struct PanicPass<'a> {
    info: &'a TraceInfo,
    event: FunctionId,
    thread: ThreadId,
    last: Option<LastPanic>,
}

impl Pass for PanicPass<'_> {
    type Data = ();

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn ended(&mut self, _: &EndedCall<()>, _: bool) {}

    fn note(&mut self, (): (), time: Ticks, kind: NoteKind, body: &[u8]) {
        let is_later = self.last.as_ref().is_none_or(|last| last.time <= time);
        if kind != NoteKind::Event || !is_later || !body.starts_with(&self.event.0.to_le_bytes()) {
            return;
        }
        let Some(Note::Event { fields, .. }) = Note::decode(kind, body) else {
            return;
        };
        let text = |name: &str| {
            let field = fields
                .iter()
                .find(|field| name_of(self.info, FunctionId(field.name)) == name);
            let text = field
                .map(|field| field.value.to_string())
                .unwrap_or_default();
            ui::clean(note_words::unquoted(&text)).into_owned()
        };
        self.last = Some(LastPanic {
            time,
            thread: self.thread,
            message: text(MESSAGE),
            place: text(PLACE),
        });
    }
}
