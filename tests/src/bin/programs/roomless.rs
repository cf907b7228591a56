//! More threads than the ring file has rings for. Records of threads without a ring are counted, and a ring that
//! becomes free is used again. `over`: a dozen threads, one of which ends meanwhile. `stepped`: one instruction at a
//! time, with handlers that record. `reap`: one thread ends without notifying the recorder. The program counts all
//! calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fdr::traced;
use fdr_tests::counted_functions;
use fdr_tests::programs::calls::repeat;
use fdr_tests::programs::stepping::{on_each_step, stepping};
use fdr_tests::programs::threads::{self, use_up_keys, wait_for_input};
use fdr_tests::support::facts;

counted_functions!(work: traced, work_untimed: traced(untimed));

/// A thread that receives numbers of calls, makes these calls, and sends an answer after each.
struct Worker {
    orders: Sender<u64>,
    done: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn new(name: String) -> Worker {
        let (orders, received) = channel::<u64>();
        let (say, done) = channel();
        let run = move || {
            for calls in received {
                repeat(calls, work);
                say.send(()).expect("somebody waits");
            }
        };
        Worker {
            orders,
            done,
            thread: threads::spawn(&name, run),
        }
    }

    fn begin(&self, calls: u64) {
        self.orders.send(calls).expect("it takes orders");
    }

    fn wait(&self) {
        self.done.recv().expect("it has done so");
    }

    fn make(&self, calls: u64) {
        self.begin(calls);
        self.wait();
    }

    fn end(self) {
        drop(self.orders);
        self.thread.join().expect("its end");
    }
}

fn dropped() -> u64 {
    fdr::statistics().missing.dropped
}

/// Twelve threads, and then one ends.
fn over() {
    let mut workers: Vec<Worker> = (0..12).map(|at| Worker::new(format!("t{at}"))).collect();
    workers.iter().for_each(|worker| worker.make(1));
    workers.iter().for_each(|worker| worker.begin(10_000));
    workers.iter().for_each(Worker::wait);
    println!("crowded {}", dropped());
    workers.remove(1).end();
    let next = workers.remove(6);
    next.make(100);
    workers.iter().for_each(|worker| worker.make(10));
    println!("later {}", dropped());
    workers.push(next);
    println!("records {}", CALLS.records());
    print!("{}", facts::of_statistics(&fdr::statistics()));
    // Keeps all threads alive until the reader of the ring has finished.
    wait_for_input("waiting");
    workers.into_iter().for_each(Worker::end);
}

static STATE: AtomicU64 = AtomicU64::new(0);
static TRAPS: AtomicU64 = AtomicU64::new(0);

/// Makes calls after some instructions.
extern "C" fn on_trap(_: i32) {
    TRAPS.fetch_add(1, Ordering::Relaxed);
    let state = STATE.load(Ordering::Relaxed);
    let state = state.wrapping_mul(6_364_136_223_846_793_005);
    STATE.store(state.wrapping_add(1), Ordering::Relaxed);
    match state >> 33 & 31 {
        0 => work(),
        1 => work_untimed(),
        _ => {}
    }
}

/// In each round a thread begins without a ring and gets one later, between two instructions or within a
/// handler.
fn stepped(rounds: u64) {
    on_each_step(on_trap);
    STATE.store(rounds, Ordering::Relaxed);
    for round in 0..rounds {
        let holder = Worker::new(format!("holder{round}"));
        holder.make(1);
        let steps = move || {
            let some = || {
                work();
                work_untimed();
                work();
            };
            stepping(some);
            // Goes on to a call at which the thread asks for a ring again.
            repeat(round % 64, work);
            stepping(some);
            holder.end();
            stepping(some);
        };
        threads::run(&format!("steps{round}"), steps);
    }
    println!("traps {}", TRAPS.load(Ordering::Relaxed));
}

/// A thread has no ring until the recorder finds that the other thread has ended.
fn reap() {
    use_up_keys();
    fdr::enable().expect("it can be recorded");
    let holder = Worker::new("holder".into());
    holder.make(1);
    work();
    println!("crowded {}", dropped());
    holder.end();
    let deadline = Instant::now() + Duration::from_secs(60);
    while fdr::statistics().missing.threads == 0 {
        assert!(Instant::now() < deadline, "nobody looked");
        repeat(10, work);
    }
    let before = dropped();
    repeat(1000, work);
    println!("later {}", dropped() - before);
}

pub(crate) fn main(words: &[&str]) {
    match words {
        ["over"] => return over(),
        ["stepped"] => stepped(40),
        ["reap"] => reap(),
        other => panic!("no such way: {other:?}"),
    }
    println!("records {}", CALLS.records());
    print!("{}", facts::of_statistics(&fdr::statistics()));
}
