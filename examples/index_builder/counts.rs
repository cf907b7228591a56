//! How often each traced function was called, as the program itself knows it: a plain counter per
//! function and thread. Must stay exact and free of locks; tests hold traces against it.

use std::cell::Cell;
use std::fmt::Write;

macro_rules! functions {
    ($($function:ident = $name:literal,)*) => {
        /// The traced functions of this program.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Function { $($function),* }

        /// Their names in a trace, in the order of [`Function`].
        const NAMES: &[&str] = &[$($name),*];
    };
}

functions! {
    Build = "index_builder::build",
    Document = "index_builder::text::Generator::document",
    Word = "index_builder::text::Generator::word",
    IsStopWord = "index_builder::tokens::is_stop_word",
    Stem = "index_builder::tokens::stem",
    Add = "index_builder::index::Index::add",
    Merge = "index_builder::index::Index::merge",
    Encode = "index_builder::index::encode",
    Summary = "index_builder::index::Index::summary",
    Perform = "index_builder::pool::Pool::perform",
    Run = "index_builder::pool::Worker::run",
    NextJob = "index_builder::pool::Worker::next_job",
    IndexBatch = "index_builder::pool::Worker::index_batch",
}

thread_local! {
    static CALLS: [Cell<u64>; NAMES.len()] = const { [const { Cell::new(0) }; NAMES.len()] };
}

/// Counts one call on the calling thread.
#[inline]
pub(crate) fn count(function: Function) {
    CALLS.with(|calls| {
        let calls = &calls[function as usize];
        calls.set(calls.get() + 1);
    });
}

/// The calls of one thread.
pub(crate) struct Counts {
    thread: String,
    calls: Vec<u64>,
}

impl Counts {
    /// The calling thread's counts up to now, which start again from 0.
    pub(crate) fn take() -> Counts {
        // The kernel's name of the thread is what a trace shows.
        let thread = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
        let calls = CALLS.with(|calls| calls.iter().map(Cell::take).collect());
        Counts {
            thread: thread.trim_end().to_owned(),
            calls,
        }
    }
}

fn functions(calls: impl Iterator<Item = u64>) -> String {
    let mut rows = Vec::new();
    for (name, calls) in NAMES.iter().zip(calls) {
        if calls > 0 {
            rows.push(format!("{{\"name\": \"{name}\", \"calls\": {calls}}}"));
        }
    }
    format!("[{}]", rows.join(", "))
}

/// `{"functions": [{"name", "calls"}], "threads": [{"name", "functions": […]}]}`.
pub(crate) fn json(threads: &[Counts]) -> String {
    let total = |at: usize| threads.iter().map(|thread| thread.calls[at]).sum();
    let mut text = format!(
        "{{\"functions\": {},\n",
        functions((0..NAMES.len()).map(total))
    );
    let rows: Vec<String> = threads
        .iter()
        .map(|thread| {
            let calls = functions(thread.calls.iter().copied());
            // Thread names are this program's own: nothing in them needs escaping.
            format!(
                "{{\"name\": \"{}\", \"functions\": {calls}}}",
                thread.thread
            )
        })
        .collect();
    let _ = writeln!(text, "\"threads\": [{}]}}", rows.join(",\n"));
    text
}
