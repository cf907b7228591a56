//! The operating system's view of the threads while they were recorded: when each one ran, was preempted, or waited;
//! where it was when a sample was taken; and the system's own sums. [`Schedule`] is the plain list, as files have it.
//! [`crate::states`] computes how long a thread was in which state.

use super::{CpuId, ThreadId, Ticks};

/// What a thread does, as the scheduler of the operating system sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It has a CPU.
    Running = 0,
    /// It was taken from its CPU and would go on.
    Preempted = 1,
    /// It waits for something, or, after that, for a CPU: the end of the wait itself can't be seen without privileges.
    Waiting = 2,
}

impl State {
    /// All of them, in the order of their numbers.
    pub const ALL: [State; 3] = [State::Running, State::Preempted, State::Waiting];

    /// The state with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<State> {
        State::ALL.get(usize::from(number)).copied()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Preempted => "preempted",
            State::Waiting => "waiting",
        }
    }
}

/// A context switch: from here on, a thread is in another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When.
    pub time: Ticks,
    /// Which thread. 0: all threads.
    pub thread: ThreadId,
    /// The CPU that it got or left.
    pub cpu: CpuId,
    /// The new state. `None`: not known from here on.
    pub to: Option<State>,
}

/// A sample of a page fault stands for this many page faults of its thread.
pub const FAULTS_OF_SAMPLE: u64 = 64;

/// Why a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The thread had used another stretch of processor time.
    Time = 0,
    /// The thread had touched another [`FAULTS_OF_SAMPLE`] pages that were not mapped yet.
    PageFault = 1,
}

impl Cause {
    /// The cause with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Cause> {
        match number {
            0 => Some(Cause::Time),
            1 => Some(Cause::PageFault),
            _ => None,
        }
    }
}

/// Where a thread was at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub time: Ticks,
    /// Which thread.
    pub thread: ThreadId,
    /// Its CPU.
    pub cpu: CpuId,
    /// Why.
    pub cause: Cause,
    /// Its program counter.
    pub address: u64,
}

/// A file that was loaded into the program: the addresses of its code. A sample may also have an address in no known
/// file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    /// An address less this is the address that the file itself has for it.
    pub bias: u64,
    /// Its build id; empty: it has none.
    pub build: Vec<u8>,
    /// The path of the file.
    pub path: String,
}

/// What the operating system had counted for a thread until a moment: `/proc/PID/task/TID/schedstat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// When it was read.
    pub time: Ticks,
    /// Which thread.
    pub thread: ThreadId,
    /// Time on a CPU, in ns.
    pub running_ns: u64,
    /// Time of waiting for a CPU, in ns.
    pub run_delay_ns: u64,
    /// How often it got a CPU.
    pub times: u64,
}

/// The states of threads that a trace knows, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The context switches. A switch of all threads (number 0) to `None` says where the list begins, where switches
    /// were lost, and where it ends.
    pub switches: Vec<Switch>,
    /// The samples.
    pub samples: Vec<Sample>,
    /// The accounts.
    pub accounts: Vec<Account>,
    /// The files whose code the samples are in.
    pub modules: Vec<Module>,
    /// The switches of each thread state all that is known of it. Otherwise they imply more: who leaves a CPU was on it
    /// before, and who gets a CPU takes it from another thread.
    pub is_complete: bool,
}

impl Schedule {
    /// Whether there are neither switches, samples nor accounts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty() && self.samples.is_empty() && self.accounts.is_empty()
    }

    /// Adds what another list has.
    pub fn append(&mut self, mut other: Schedule) {
        self.switches.append(&mut other.switches);
        self.samples.append(&mut other.samples);
        self.accounts.append(&mut other.accounts);
        self.modules.append(&mut other.modules);
        self.is_complete &= other.is_complete;
    }
}
