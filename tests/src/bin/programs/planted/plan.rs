//! Which call is slow, and why: drawn from the seed.

use fdr_tests::support::random::Random;

use super::causes::Outcome;

/// Threads that serve requests. Two more threads do what the service does besides.
pub(crate) const WORKERS: usize = 6;

/// Why a call is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No call is.
    None,
    /// Another thread holds a lock.
    Lock,
    /// A file is written to the disk.
    Fsync,
    /// Others take the CPU.
    Neighbour,
    /// The first touch of each page of a mapping.
    Faults,
    /// A loop within a loop over a rare input.
    Quadratic,
    /// A channel is full.
    Channel,
    /// A large allocation.
    Allocation,
}

impl Cause {
    const ALL: [(&'static str, Cause); 8] = [
        ("none", Cause::None),
        ("lock", Cause::Lock),
        ("fsync", Cause::Fsync),
        ("neighbour", Cause::Neighbour),
        ("faults", Cause::Faults),
        ("quadratic", Cause::Quadratic),
        ("channel", Cause::Channel),
        ("allocation", Cause::Allocation),
    ];

    pub(crate) fn named(name: &str) -> Option<Cause> {
        let mut all = Cause::ALL.iter();
        all.find(|(known, _)| *known == name)
            .map(|(_, cause)| *cause)
    }

    fn name(self) -> &'static str {
        let mut all = Cause::ALL.iter();
        all.find(|(_, cause)| *cause == self)
            .map_or("", |(name, _)| name)
    }
}

/// A function in which a call may be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Serve,
    Parse,
    Tokenize,
    Decode,
    Authorize,
    FindSession,
    Route,
    Handle,
    Load,
    ReadCache,
    Validate,
    Apply,
    Store,
    Encode,
    Append,
    Respond,
    Render,
    Send,
}

impl Function {
    /// With its name, and how often a request calls it.
    const ALL: [(Function, &'static str, u64); 18] = [
        (Function::Serve, "serve", 1),
        (Function::Parse, "parse", 1),
        (Function::Tokenize, "tokenize", 3),
        (Function::Decode, "decode", 1),
        (Function::Authorize, "authorize", 1),
        (Function::FindSession, "find_session", 1),
        (Function::Route, "route", 1),
        (Function::Handle, "handle", 1),
        (Function::Load, "load", 1),
        (Function::ReadCache, "read_cache", 2),
        (Function::Validate, "validate", 1),
        (Function::Apply, "apply", 1),
        (Function::Store, "store", 1),
        (Function::Encode, "encode", 2),
        (Function::Append, "append", 1),
        (Function::Respond, "respond", 1),
        (Function::Render, "render", 1),
        (Function::Send, "send", 1),
    ];
}

/// What `maintain` calls, in this order.
pub(crate) const TASKS: [&str; 3] = ["compact", "snapshot", "sweep"];

/// The call that is slow.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cause: Cause,
    seed: u64,
    pub(crate) function: Function,
    pub(crate) worker: usize,
    pub(crate) request: u64,
    /// Which of the request's calls of the function.
    pub(crate) occurrence: u64,
    /// The task of the thread `maintenance` that is waited for: a place in [`TASKS`].
    pub(crate) task: usize,
    /// The first of two ways of a cause: a lock or a channel of `fdr::sync`, and not of `std::sync`; threads of this
    /// process, and not other processes.
    pub(crate) is_ours: bool,
}

impl Plan {
    pub(crate) fn new(cause: Cause, seed: u64, requests: u64) -> Plan {
        let mut random = Random::new(seed ^ (cause as u64) << 32);
        let (function, _, times) = Function::ALL[random.below(Function::ALL.len() as u64) as usize];
        Plan {
            cause,
            seed,
            function,
            worker: random.below(WORKERS as u64) as usize,
            // Not among the first, which are slow for other reasons.
            request: requests / 4 + random.below(requests / 2),
            occurrence: 1 + random.below(times),
            task: random.below(TASKS.len() as u64) as usize,
            is_ours: random.below(2) == 0,
        }
    }

    /// The line that says what was planted.
    pub(crate) fn row(&self, outcome: Option<&Outcome>) -> String {
        let (cause, seed) = (self.cause.name(), self.seed);
        let Some(outcome) = outcome else {
            return format!("{{\"cause\":\"{cause}\",\"seed\":{seed}}}");
        };
        let mut all = Function::ALL.iter();
        let name = all.find(|(function, ..)| *function == self.function);
        let name = name.map_or("", |(_, name, _)| name);
        let worker = worker_name(self.worker);
        let (way, other) = self.way();
        let (thread, function) = match other {
            Some((thread, function)) => (
                format!("\"{thread}\""),
                format!("\"planted::service::{function}\""),
            ),
            None => ("null".to_owned(), "null".to_owned()),
        };
        format!(
            "{{\"cause\":\"{cause}\",\"seed\":{seed},\"function\":\"planted::service::Worker::{name}\",\
             \"thread\":\"{worker}\",\"request\":{},\"occurrence\":{},\"way\":\"{way}\",\
             \"other_thread\":{thread},\"other_function\":{function},\"wall_ns\":{},\"cpu_ns\":{}}}",
            self.request, self.occurrence, outcome.wall_ns, outcome.cpu_ns,
        )
    }

    /// How the cause is brought about, and the other thread with its function.
    fn way(&self) -> (&'static str, Option<(&'static str, &'static str)>) {
        match (self.cause, self.is_ours) {
            (Cause::Lock | Cause::Channel, is_ours) => (
                if is_ours { "fdr" } else { "std" },
                Some(("maintenance", TASKS[self.task])),
            ),
            (Cause::Neighbour, true) => ("threads", Some(("reindex", "reindex"))),
            (Cause::Neighbour, false) => ("processes", None),
            _ => ("", None),
        }
    }
}

pub(crate) fn worker_name(place: usize) -> String {
    format!("worker-{place}")
}
