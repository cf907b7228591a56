//! Tasks of every kind and end, on an executor made by hand. Tests record it and look at the trace.
//!
//! ```text
//! tasks kinds
//! tasks many TASKS THREADS [WORK]
//! tasks kill
//! tasks slow
//! tasks hang CONNECTIONS
//! tasks panic
//! ```
//! `many`: each task waits four times, and each third one is dropped after two polls. The program measures its tasks
//! itself, and prints the sums. `WORK` is how long a poll is. `kill`: the program kills itself while a task waits.
//! `slow`: two of 300 tasks are slow. One task computes in its poll. The other one waits for a task inside it, which
//! waits for a thread. `hang`: connections wait for their clients, and one request waits for a lock that another one
//! never gives back. Then the program kills itself.
//! `panic`: a task panics in its second poll, while connections wait.
#![forbid(unsafe_code)]

use std::future::Future;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fdr_tests::programs::futures::{Waits, finish, poll};
use fdr_tests::programs::threads::{self, kill_process};
use fdr_tests::support::facts;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[fdr::traced]
async fn waits(times: u32) -> u32 {
    Waits(times).await;
    times
}

#[fdr::traced]
async fn outer(times: u32) -> u32 {
    let first = waits(times).await;
    first + waits(1).await
}

/// Polls both until one is ready.
struct First<A, B>(A, B);

impl<A: Future<Output = u32> + Unpin, B: Future<Output = u32> + Unpin> Future for First<A, B> {
    type Output = u32;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        match Pin::new(&mut self.0).poll(context) {
            Poll::Pending => Pin::new(&mut self.1).poll(context),
            ready => ready,
        }
    }
}

/// Polls both until both are ready.
struct Both<A, B>(Option<A>, Option<B>);

impl<A: Future + Unpin, B: Future + Unpin> Future for Both<A, B> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        fn poll_once<F: Future + Unpin>(future: &mut Option<F>, context: &mut Context<'_>) -> bool {
            let ready = |future: &mut F| Pin::new(future).poll(context).is_ready();
            if future.as_mut().is_some_and(ready) {
                *future = None;
            }
            future.is_none()
        }
        let both = &mut *self;
        match poll_once(&mut both.0, context) & poll_once(&mut both.1, context) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

#[fdr::traced]
async fn selects() -> u32 {
    First(Box::pin(slow()), Box::pin(quick())).await
}

#[fdr::traced]
async fn slow() -> u32 {
    Waits(100).await;
    1
}

#[fdr::traced]
async fn quick() -> u32 {
    Waits(1).await;
    2
}

#[fdr::traced]
async fn joins() {
    Both(Some(Box::pin(left())), Some(Box::pin(right()))).await;
}

#[fdr::traced]
async fn left() {
    Waits(2).await;
}

#[fdr::traced]
async fn right() {
    Waits(4).await;
}

#[fdr::traced]
async fn panics() {
    Waits(1).await;
    std::panic::resume_unwind(Box::new(()));
}

#[fdr::traced(untimed)]
async fn untimed() {
    Waits(1).await;
}

#[fdr::traced]
async fn spawns() -> (Boxed<u32>, Boxed<u32>) {
    Waits(1).await;
    (Box::pin(fdr::spawned(child())), Box::pin(orphan()))
}

#[fdr::traced]
async fn child() -> u32 {
    Waits(1).await;
    3
}

#[fdr::traced]
async fn orphan() -> u32 {
    Waits(1).await;
    4
}

trait Service {
    fn call(&self) -> impl Future<Output = u32> + Send;
    fn boxed(&self) -> Boxed<u32>;
}

struct Echo;

impl Service for Echo {
    #[fdr::traced]
    async fn call(&self) -> u32 {
        Waits(1).await;
        5
    }

    fn boxed(&self) -> Boxed<u32> {
        Box::pin(fdr::task!("boxed", async move {
            Waits(1).await;
            6
        }))
    }
}

/// Makes a future, which is the task.
#[fdr::traced(args, ret)]
fn boxes(times: u32) -> Boxed<u32> {
    Box::pin(async move {
        Waits(times).await;
        times
    })
}

#[fdr::traced]
fn makes(times: u32) -> impl Future<Output = u32> {
    let twice = 2 * times;
    async move {
        Waits(twice).await;
        twice
    }
}

#[fdr::traced(untimed)]
fn makes_untimed() -> impl Future<Output = ()> {
    async {
        Waits(1).await;
    }
}

#[fdr::traced]
async fn moves() -> u32 {
    Waits(3).await;
    7
}

#[fdr::traced]
async fn left_open() {
    Waits(1_000).await;
}

fn kinds() {
    assert_eq!(finish(waits(2)), (2, 3));
    assert_eq!(finish(outer(2)), (3, 4));
    assert_eq!(finish(selects()), (2, 2));
    finish(joins());
    let caught = catch_unwind(|| finish(panics()));
    assert!(caught.is_err());
    finish(untimed());
    let ((mut child, mut orphan), _) = finish(spawns());
    while poll(child.as_mut()).is_pending() | poll(orphan.as_mut()).is_pending() {}
    finish(Echo.call());
    finish(Echo.boxed());
    assert_eq!(finish(boxes(2)), (2, 3));
    assert_eq!(finish(makes(2)), (4, 5));
    finish(makes_untimed());
    drop((boxes(1), makes(1)));
    drop(fdr::task!("never polled", waits(1)));
    {
        let mut dropped = pin!(fdr::task!("dropped", Waits(10)));
        assert!(poll(dropped.as_mut()).is_pending());
    }
    let mut moving: Boxed<u32> = Box::pin(moves());
    for number in 0..4 {
        let is_ready;
        (moving, is_ready) = threads::run(&format!("thread {number}"), move || {
            let is_ready = poll(moving.as_mut()).is_ready();
            (moving, is_ready)
        });
        assert_eq!(is_ready, number == 3);
    }
    let mut open = Box::pin(left_open());
    assert!(poll(open.as_mut()).is_pending());
    assert!(poll(open.as_mut()).is_pending());
    print!("{}", facts::of_statistics(&fdr::statistics()));
    std::process::exit(0);
}

/// What the program knows of its tasks.
#[derive(Default)]
struct TaskTotals {
    finished: u64,
    dropped: u64,
    polls: u64,
    busy: Duration,
    elapsed: Duration,
}

#[fdr::traced]
async fn request(work: u32) -> u32 {
    let mut sum = 0;
    for _ in 0..4 {
        sum = spin(work).wrapping_add(sum);
        Waits(1).await;
    }
    sum
}

fn spin(work: u32) -> u32 {
    black_box((0..work).map(black_box).fold(0, u32::wrapping_add))
}

/// Runs a share of the tasks, ten at a time.
fn share(tasks: u64, work: u32) -> TaskTotals {
    let mut known = TaskTotals::default();
    let mut done = 0;
    while done < tasks {
        let some = 10.min(tasks - done);
        let mut open: Vec<_> = (0..some)
            .map(|nth| {
                (
                    done + nth,
                    Box::pin(request(work)),
                    None,
                    Duration::ZERO,
                    0_u64,
                )
            })
            .collect();
        done += some;
        while !open.is_empty() {
            open.retain_mut(|(number, future, first, busy, polls)| {
                let start = Instant::now();
                first.get_or_insert(start);
                let is_ready = poll(future.as_mut()).is_ready();
                *busy += start.elapsed();
                *polls += 1;
                let is_dropped = *number % 3 == 0 && *polls == 2;
                if is_ready {
                    known.finished += 1;
                    known.elapsed += first.map_or(Duration::ZERO, |first| first.elapsed());
                } else if is_dropped {
                    known.dropped += 1;
                } else {
                    return true;
                }
                known.polls += *polls;
                known.busy += *busy;
                false
            });
        }
    }
    known
}

fn many(tasks: u64, threads: u64, work: u32) {
    let start = Instant::now();
    let workers: Vec<_> = (0..threads)
        .map(|_| std::thread::spawn(move || share(tasks / threads, work)))
        .collect();
    let mut all = TaskTotals::default();
    for worker in workers {
        let known = worker.join().expect("a worker");
        all.finished += known.finished;
        all.dropped += known.dropped;
        all.polls += known.polls;
        all.busy += known.busy;
        all.elapsed += known.elapsed;
    }
    println!(
        "finished {} dropped {} polls {} busy_ns {} elapsed_ns {} took_ns {}",
        all.finished,
        all.dropped,
        all.polls,
        all.busy.as_nanos(),
        all.elapsed.as_nanos(),
        start.elapsed().as_nanos()
    );
    print!("{}", facts::of_statistics(&fdr::statistics()));
}

fn kill() {
    finish(waits(3));
    let mut open = pin!(AssertUnwindSafe(left_open()));
    assert!(poll(open.as_mut()).is_pending());
    kill_process();
}

/// Is pending until the flag is set.
struct Until<'a>(&'a AtomicBool);

impl Future for Until<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.0.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

#[fdr::traced(args)]
async fn serve(number: u32, flag: &AtomicBool) -> u32 {
    fdr::event!(
        "serve",
        route = if number.is_multiple_of(2) {
            "even"
        } else {
            "odd"
        }
    );
    let work = if number == 100 { LONG } else { Duration::ZERO };
    compute(work);
    query(number, flag).await;
    number
}

#[fdr::traced]
async fn query(number: u32, flag: &AtomicBool) {
    match number {
        200 => Until(flag).await,
        _ => Waits(1).await,
    }
}

#[fdr::traced]
fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[fdr::traced]
fn compact(time: Duration, flag: &AtomicBool) {
    std::thread::sleep(time);
    flag.store(true, Ordering::Release);
}

/// Far above what a busy machine does to a task.
const LONG: Duration = Duration::from_millis(400);

fn two_slow() {
    let flag = AtomicBool::new(false);
    for number in 0..300 {
        let mut task = pin!(serve(number, &flag));
        if poll(task.as_mut()).is_ready() {
            continue;
        }
        if number == 200 {
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().name("compactor".into());
                let _ = thread.spawn_scoped(scope, || compact(LONG, &flag));
            });
        }
        finish(task);
    }
}

#[fdr::traced(args)]
async fn connection(number: u32) {
    match number {
        0 => locked_request(number).await,
        _ => read_frame().await,
    }
}

#[fdr::traced]
async fn read_frame() {
    Waits(1_000).await;
}

#[fdr::traced]
async fn locked_request(number: u32) {
    fdr::event!("take_lock", name = "accounts", number);
    lock().await;
}

#[fdr::traced]
async fn lock() {
    Waits(1_000).await;
}

/// The connections are made by a task that waits for more of them.
#[fdr::traced]
async fn accept(connections: u32) -> Vec<Boxed<()>> {
    let spawn = |number| -> Boxed<()> { Box::pin(fdr::spawned(connection(number))) };
    let all: Vec<_> = (0..connections).map(spawn).collect();
    Waits(1).await;
    all
}

fn hang(connections: u32) {
    let (mut all, _) = finish(accept(connections));
    for connection in &mut all {
        assert!(poll(connection.as_mut()).is_pending());
    }
    // The request is polled once more, and so is the last connection.
    for connection in [0, all.len() - 1] {
        assert!(poll(all[connection].as_mut()).is_pending());
    }
    kill_process();
}

#[fdr::traced(args)]
async fn handle(number: u32) {
    Waits(1).await;
    check(number).await;
}

#[fdr::traced]
async fn check(number: u32) {
    panic!("number {number}");
}

fn panicked() {
    let mut waiting = [1, 2, 3].map(|number| Box::pin(connection(number)));
    for connection in &mut waiting {
        assert!(poll(connection.as_mut()).is_pending());
    }
    assert!(catch_unwind(|| finish(handle(7))).is_err());
}

pub(crate) fn main(words: &[&str]) {
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    match words[0] {
        "many" => {
            let work = number(3).unwrap_or(200) as u32;
            many(number(1).unwrap_or(1_000), number(2).unwrap_or(2), work);
        }
        "kill" => kill(),
        "slow" => two_slow(),
        "panic" => panicked(),
        "hang" => hang(number(1).unwrap_or(10) as u32),
        _ => kinds(),
    }
}
