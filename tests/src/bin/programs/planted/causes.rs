//! What makes the planted call slow, and what has to be ready for it. Each cause lasts until the call was held up for
//! [`HELD_MS`], so that a quick disk or a quick machine plants no less.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{self, Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fdr::sync as ours;
use fdr_tests::programs::threads::spawn;

use super::plan::{Cause, Plan, WORKERS};
use super::service;

/// How long the planned call is held up, at least.
pub(crate) const HELD_MS: u64 = 60;
const HELD: Duration = Duration::from_millis(HELD_MS);
/// What a task of the thread `maintenance` takes.
const TASK: Duration = Duration::from_millis(HELD_MS - 5);
/// Messages for which a channel has room.
const ROOM: usize = 512;
/// Threads or processes that take the CPU.
const NEIGHBOURS: usize = 6;
/// The bytes of the mapping and of the allocation.
const LARGE: usize = 1 << 30;
/// A page of the machine, or a part of one.
const PAGE: usize = 4096;
/// The records of the rare input: each is compared with each other.
const RECORDS: usize = 14_000;

/// How long a call was held up.
pub(crate) struct Outcome {
    pub(crate) wall_ns: u128,
    /// Of it, on a CPU.
    pub(crate) cpu_ns: u128,
}

/// A lock, of both libraries.
struct Lock {
    ours: ours::Mutex<u64>,
    theirs: sync::Mutex<u64>,
}

/// The way to the thread `maintenance`, of both libraries.
struct Sender {
    ours: ours::mpsc::SyncSender<u64>,
    theirs: sync::mpsc::SyncSender<u64>,
}

/// The other end.
pub(crate) struct Audit {
    ours: ours::mpsc::Receiver<u64>,
    theirs: sync::mpsc::Receiver<u64>,
}

impl Audit {
    /// Reads what there is.
    pub(crate) fn read(&mut self) {
        let messages = self.ours.try_iter().chain(self.theirs.try_iter());
        black_box(messages.count());
    }
}

/// What the threads share.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    sessions: Vec<Lock>,
    audits: Vec<Sender>,
    pub(crate) is_over: AtomicBool,
    /// The planned call comes next, another thread is ready for it, and it has begun.
    is_planned: AtomicBool,
    is_ready: AtomicBool,
    has_begun: AtomicBool,
    neighbours: sync::Mutex<Vec<Neighbour>>,
}

impl Shared {
    pub(crate) fn new(plan: Plan) -> (Shared, Vec<Audit>) {
        let lock = |_| Lock {
            ours: ours::Mutex::named("sessions", 0),
            theirs: sync::Mutex::new(0),
        };
        let channel = |_| {
            let (ours, our_end) = ours::mpsc::named_sync_channel("audit", ROOM);
            let (theirs, their_end) = sync::mpsc::sync_channel(ROOM);
            let audit = Audit {
                ours: our_end,
                theirs: their_end,
            };
            (Sender { ours, theirs }, audit)
        };
        let (audits, ends) = (0..WORKERS).map(channel).unzip();
        let shared = Shared {
            plan,
            sessions: (0..WORKERS).map(lock).collect(),
            audits,
            is_over: AtomicBool::new(false),
            is_planned: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
            has_begun: AtomicBool::new(false),
            neighbours: sync::Mutex::default(),
        };
        (shared, ends)
    }

    /// What each request does with the lock.
    pub(crate) fn count_session(&self, worker: usize) {
        self.take(worker);
    }

    fn take(&self, worker: usize) {
        let lock = &self.sessions[worker];
        if self.plan.is_ours {
            *lock.ours.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        } else {
            *lock.theirs.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
    }

    /// What each request does with the channel: a message without room is lost.
    pub(crate) fn audit(&self, worker: usize, state: u64) {
        let audits = &self.audits[worker];
        if self.plan.is_ours {
            let _ = audits.ours.try_send(state);
        } else {
            let _ = audits.theirs.try_send(state);
        }
    }

    /// Makes ready what the planned call needs. The calling thread is in no traced call.
    pub(crate) fn prepare(&self) {
        match self.plan.cause {
            Cause::Lock | Cause::Channel => {
                self.is_planned.store(true, Ordering::Release);
                until(|| self.is_ready.load(Ordering::Acquire));
            }
            Cause::Neighbour => {
                let neighbour = match self.plan.is_ours {
                    true => Neighbour::thread,
                    false => Neighbour::process,
                };
                let neighbours = (0..NEIGHBOURS).map(|_| neighbour()).collect();
                *self.neighbours.lock().expect("no panic") = neighbours;
            }
            _ => {}
        }
    }

    /// A task of the thread `maintenance`. If the planned call waits for it, it ends when that has waited.
    pub(crate) fn task(&self, task: usize) {
        let is_planned = self.is_planned.load(Ordering::Acquire) && self.plan.task == task;
        if !is_planned || self.is_ready.load(Ordering::Acquire) {
            thread::sleep(TASK);
            return;
        }
        let lock = &self.sessions[self.plan.worker];
        let is_lock = self.plan.cause == Cause::Lock;
        let _ours = (is_lock && self.plan.is_ours).then(|| lock.ours.lock());
        let _theirs = (is_lock && !self.plan.is_ours).then(|| lock.theirs.lock());
        self.is_ready.store(true, Ordering::Release);
        until(|| self.has_begun.load(Ordering::Acquire));
        thread::sleep(HELD);
    }

    /// The planned call is in here.
    pub(crate) fn happens(&self, worker: usize, state: &mut u64) -> Option<Outcome> {
        let (since, cpu) = (Instant::now(), cpu_time());
        let took = || cpu_time().saturating_sub(cpu);
        self.has_begun.store(true, Ordering::Release);
        match self.plan.cause {
            Cause::None => return None,
            Cause::Lock => self.take(worker),
            Cause::Channel => self.fill(worker, *state),
            Cause::Fsync => fsync(since),
            Cause::Neighbour => self.be_disturbed(since, cpu, state),
            Cause::Faults => touch(took),
            Cause::Quadratic => *state ^= compare_all(*state),
            Cause::Allocation => *state ^= allocate(*state),
        }
        Some(Outcome {
            wall_ns: since.elapsed().as_nanos(),
            cpu_ns: took().as_nanos(),
        })
    }

    /// Sends more messages than there is room for.
    fn fill(&self, worker: usize, state: u64) {
        let audits = &self.audits[worker];
        for _ in 0..=ROOM {
            if self.plan.is_ours {
                audits.ours.send(state).expect("a receiver");
            } else {
                audits.theirs.send(state).expect("a receiver");
            }
        }
    }

    /// Works until others had its CPU for long enough.
    fn be_disturbed(&self, since: Instant, cpu: Duration, state: &mut u64) {
        let here = this_cpu();
        pin(&[here]);
        let mut neighbours = self.neighbours.lock().expect("no panic");
        neighbours
            .iter_mut()
            .for_each(|neighbour| neighbour.begin(here));
        let lost = || {
            since
                .elapsed()
                .saturating_sub(cpu_time().saturating_sub(cpu))
        };
        while lost() < HELD {
            for _ in 0..1000 {
                *state = black_box(state.rotate_left(5) ^ 0x9E37_79B9).wrapping_mul(0x2545_F491);
            }
        }
        neighbours.iter_mut().for_each(Neighbour::end);
        pin(&all_cpus());
    }
}

/// Looks from time to time whether it is so.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_micros(200));
    }
}

/// Writes to the disk until that has taken its time.
fn fsync(since: Instant) {
    let path = format!("planted-{}.journal", std::process::id());
    let mut file = File::create(&path).expect("a file of the current folder");
    let block = [7; 1 << 16];
    while since.elapsed() < HELD {
        file.write_all(&block).expect("room");
        file.sync_all().expect("a disk");
    }
    std::fs::remove_file(path).expect("it is there");
}

/// Maps a lot of memory, and touches page after page.
fn touch(took: impl Fn() -> Duration) {
    let (rights, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    // SAFETY: a new mapping.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), LARGE, rights, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED, "memory");
    // SAFETY: the mapping that was made above.
    unsafe { libc::madvise(start, LARGE, libc::MADV_NOHUGEPAGE) };
    for page in 0..LARGE / PAGE {
        // SAFETY: the byte is in the mapping, which no other code knows.
        unsafe { start.cast::<u8>().add(page * PAGE).write_volatile(1) };
        if page % 256 == 0 && took() >= HELD {
            break;
        }
    }
    // SAFETY: no code uses the mapping any longer.
    unsafe { libc::munmap(start, LARGE) };
}

/// Mixes each record with each. The loops call no function, so samples are in this one without optimizations, too.
fn compare_all(state: u64) -> u64 {
    let records = (0..RECORDS as u64).map(|number| number.wrapping_mul(state | 1));
    let records: Vec<u64> = records.collect();
    let (records, count) = (black_box(records.as_slice()), records.len());
    let mut mixed = 0;
    let mut at = 0;
    while at < count {
        let mut other = 0;
        while other < count {
            mixed = (mixed >> 1) ^ records[at] ^ records[other];
            other += 1;
        }
        at += 1;
    }
    mixed
}

/// Fills a gigabyte.
fn allocate(state: u64) -> u64 {
    let bytes = vec![state as u8 | 1; LARGE];
    u64::from(black_box(&bytes)[LARGE / 2])
}

/// The thread or process that takes the CPU.
enum Neighbour {
    Thread(
        sync::mpsc::Sender<usize>,
        Arc<AtomicBool>,
        Option<thread::JoinHandle<()>>,
    ),
    Process(Child, ChildStdin),
}

impl Neighbour {
    fn thread() -> Neighbour {
        let (begins, begin) = sync::mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&is_over);
        let thread = spawn("reindex", move || {
            let Ok(cpu) = begin.recv() else { return };
            pin(&[cpu]);
            service::reindex(|| !theirs.load(Ordering::Relaxed));
        });
        Neighbour::Thread(begins, is_over, Some(thread))
    }

    /// Starts a process that takes the CPU, and waits until it has printed that it is ready.
    fn process() -> Neighbour {
        let program = std::env::current_exe().expect("the path of this program");
        let mut child = Command::new(program)
            .args(["planted", "spin"])
            .env_remove("FDR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = child.stdout.take().expect("piped");
        let _ = BufReader::new(output).read_line(&mut String::new());
        let input = child.stdin.take().expect("piped");
        Neighbour::Process(child, input)
    }

    fn begin(&mut self, cpu: usize) {
        match self {
            Neighbour::Thread(begins, ..) => begins.send(cpu).expect("it waits"),
            Neighbour::Process(_, input) => writeln!(input, "{cpu}").expect("it reads"),
        }
    }

    fn end(&mut self) {
        match self {
            Neighbour::Thread(_, is_over, _) => is_over.store(true, Ordering::Relaxed),
            Neighbour::Process(child, _) => child.kill().expect("it runs"),
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        match self {
            Neighbour::Thread(.., thread) => {
                let ended = thread.take().map(thread::JoinHandle::join);
                assert!(ended.is_some_and(|ended| ended.is_ok()));
            }
            Neighbour::Process(child, _) => {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// The program that takes the CPU. It runs until it is killed. If the service has died, it ends by itself.
pub(crate) fn spin_as_told() {
    println!("ready");
    let mut line = String::new();
    let _ = stdin().read_line(&mut line);
    if let Ok(cpu) = line.trim().parse() {
        pin(&[cpu]);
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(10) {
            black_box(line.len());
        }
    }
}

/// The CPU time of the calling thread.
fn cpu_time() -> Duration {
    // SAFETY: `timespec` is plain data.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn this_cpu() -> usize {
    // SAFETY: it has no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).expect("a CPU")
}

/// The CPUs that the process may use. Its first thread is never pinned.
fn all_cpus() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is plain data.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is ours, and of that size.
    unsafe { libc::sched_getaffinity(std::process::id() as i32, size_of_val(&set), &mut set) };
    // SAFETY: the number is within the set.
    let has = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(has).collect()
}

/// The calling thread runs on those CPUs only.
fn pin(cpus: &[usize]) {
    // SAFETY: `cpu_set_t` is plain data.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus {
        // SAFETY: the number is within the set.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    // SAFETY: `set` is ours, and of that size.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
}
