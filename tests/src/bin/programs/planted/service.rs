//! The functions of the service. Each does a little work that varies, and holds the place at which its call may be
//! slow.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fdr::traced;
use fdr_tests::support::random::Random;

use super::causes::{Audit, HELD_MS, Outcome, Shared};
use super::plan::{Function, TASKS};

/// A thread that serves requests.
pub(crate) struct Worker {
    place: usize,
    shared: Arc<Shared>,
    random: Random,
    /// The calls of the planned function in the planned request are counted from 1. `None`: this request is another one.
    occurrences: Option<u64>,
    pub(crate) outcome: Option<Outcome>,
    zeros: File,
    nothing: File,
    state: u64,
    body: Vec<u8>,
}

impl Worker {
    pub(crate) fn new(place: usize, shared: Arc<Shared>, seed: u64) -> Worker {
        Worker {
            random: Random::new(seed.rotate_left(32) ^ place as u64),
            place,
            shared,
            occurrences: None,
            outcome: None,
            zeros: File::open("/dev/zero").expect("null(4)"),
            nothing: File::options()
                .write(true)
                .open("/dev/null")
                .expect("null(4)"),
            state: 0,
            body: Vec::with_capacity(4096),
        }
    }

    /// Outside of all traced calls.
    pub(crate) fn begins(&mut self, request: u64) {
        let plan = &self.shared.plan;
        let is_planned = plan.worker == self.place && plan.request == request;
        self.occurrences = is_planned.then_some(0);
        if is_planned {
            self.shared.prepare();
        }
    }

    /// Does about `units` units of work in a call of that function.
    fn work(&mut self, function: Function, units: u64) {
        let plan = &self.shared.plan;
        if let Some(count) = self
            .occurrences
            .as_mut()
            .filter(|_| plan.function == function)
        {
            *count += 1;
            if *count == plan.occurrence {
                self.outcome = self.shared.happens(self.place, &mut self.state);
            }
        }
        let units = units * (48 + self.random.below(32));
        for _ in 0..units {
            self.state =
                black_box(self.state.rotate_left(5) ^ 0x9E37_79B9).wrapping_mul(0x2545_F491);
        }
    }

    /// Waits for the next requests.
    #[traced]
    pub(crate) fn poll(&mut self) {
        thread::sleep(Duration::from_micros(700 + self.random.below(600)));
    }

    #[traced]
    pub(crate) fn serve(&mut self) {
        self.work(Function::Serve, 2);
        self.parse();
        self.authorize();
        self.route();
        self.handle();
        self.respond();
    }

    #[traced]
    fn parse(&mut self) {
        for _ in 0..3 {
            self.tokenize();
        }
        self.work(Function::Parse, 2);
        self.decode();
    }

    #[traced]
    fn tokenize(&mut self) {
        self.work(Function::Tokenize, 1);
    }

    #[traced]
    fn decode(&mut self) {
        self.work(Function::Decode, 3);
    }

    #[traced]
    fn authorize(&mut self) {
        self.work(Function::Authorize, 2);
        self.find_session();
    }

    #[traced]
    fn find_session(&mut self) {
        // In the planned request, another thread may have the lock until the planned call waits for it.
        if self.occurrences.is_none() {
            self.shared.count_session(self.place);
        }
        self.work(Function::FindSession, 2);
    }

    #[traced]
    fn route(&mut self) {
        self.work(Function::Route, 1);
    }

    #[traced]
    fn handle(&mut self) {
        self.load();
        self.validate();
        self.work(Function::Handle, 3);
        self.apply();
        self.store();
    }

    #[traced]
    fn load(&mut self) {
        self.read_cache();
        self.work(Function::Load, 2);
        self.read_cache();
    }

    /// One look in fifty misses.
    #[traced]
    fn read_cache(&mut self) {
        self.work(Function::ReadCache, 1);
        if self.random.below(50) == 0 {
            let mut page = [0; 4096];
            self.zeros.read_exact(&mut page).expect("zeros");
        }
    }

    #[traced]
    fn validate(&mut self) {
        self.work(Function::Validate, 2);
    }

    /// One change in twenty is twice as large.
    #[traced]
    fn apply(&mut self) {
        let units = if self.random.below(20) == 0 { 8 } else { 4 };
        self.work(Function::Apply, units);
    }

    #[traced]
    fn store(&mut self) {
        self.work(Function::Store, 1);
        self.encode();
        self.append();
    }

    #[traced]
    fn encode(&mut self) {
        self.work(Function::Encode, 2);
        self.body.clear();
        self.body
            .extend(self.state.to_le_bytes().iter().cycle().take(256));
    }

    #[traced]
    fn append(&mut self) {
        self.work(Function::Append, 1);
        self.nothing.write_all(&self.body).expect("nothing refuses");
    }

    #[traced]
    fn respond(&mut self) {
        self.render();
        self.work(Function::Respond, 1);
        self.shared.audit(self.place, self.state);
        self.send();
    }

    #[traced]
    fn render(&mut self) {
        self.work(Function::Render, 3);
        self.encode();
    }

    #[traced]
    fn send(&mut self) {
        self.work(Function::Send, 1);
        self.nothing.write_all(&self.body).expect("nothing refuses");
    }
}

/// The tasks of the thread `maintenance`, each of which takes its time.
pub(crate) fn maintain(shared: &Shared, audits: &mut [Audit]) {
    for (place, _) in TASKS.iter().enumerate() {
        match place {
            0 => compact(shared),
            1 => snapshot(shared),
            _ => sweep(shared),
        }
        audits.iter_mut().for_each(Audit::read);
    }
}

/// Merges what `append` has written.
#[traced]
fn compact(shared: &Shared) {
    merge();
    shared.task(0);
}

#[traced]
fn merge() {
    let mut runs: Vec<u32> = (0..512_u32).rev().collect();
    runs.sort_unstable();
    black_box(runs);
}

#[traced]
fn snapshot(shared: &Shared) {
    shared.task(1);
}

#[traced]
fn sweep(shared: &Shared) {
    shared.task(2);
}

/// Looks at the process itself.
#[traced]
pub(crate) fn sample() {
    thread::sleep(Duration::from_millis(HELD_MS / 12));
    let stat = std::fs::read_to_string("/proc/self/stat").expect("proc(5)");
    black_box(stat);
}

/// Takes the CPU of a call that is in its way.
#[traced]
pub(crate) fn reindex(mut goes_on: impl FnMut() -> bool) {
    let mut state = 1_u64;
    while goes_on() {
        for _ in 0..1000 {
            state = black_box(state.rotate_left(7).wrapping_mul(3));
        }
    }
}
