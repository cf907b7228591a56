//! The names of functions and threads, for people.

use fdr_formats::{FunctionId, ThreadId, TraceInfo};

use super::stats::OTHERS;
use crate::ui;

/// The name of a function, for people: as the trace has it, or `#12`.
pub(crate) fn name_of(info: &TraceInfo, id: FunctionId) -> String {
    match info.function(id) {
        Some(function) if !function.name.is_empty() => function.name.clone(),
        _ if id == OTHERS => "(further functions)".into(),
        _ => id.to_string(),
    }
}

/// The file of a function, and its line. Empty and 0 if the trace does not have them.
pub(crate) fn place_of(info: &TraceInfo, id: FunctionId) -> (String, u32) {
    let function = info.function(id);
    function.map_or_else(Default::default, |function| {
        (function.file.clone(), function.line)
    })
}

/// The name of a thread, for people.
pub(crate) fn thread_name(info: &TraceInfo, id: ThreadId) -> String {
    match name_of_thread(info, id) {
        "" => id.to_string(),
        name => format!("{} ({id})", ui::clean(name)),
    }
}

/// The name alone. Empty: it has none.
pub(crate) fn name_of_thread(info: &TraceInfo, id: ThreadId) -> &str {
    let thread = info.threads.iter().find(|thread| thread.id == id);
    thread.map_or("", |thread| &thread.name)
}
