//! Many tasks that measure themselves, from both sides: `request` inside of its body, and [`Measured`] around its polls.
//! What the recorder calls busy must lie between the two sums. Each tenth request is dropped after two polls.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, yield_now};

/// Tasks that are open at a time.
const AT_ONCE: usize = 64;

/// Sums of all tasks, in nanoseconds.
struct Sums {
    finished: AtomicU64,
    dropped: AtomicU64,
    busy: AtomicU64,
    elapsed: AtomicU64,
    waiting: AtomicU64,
    busy_inside: AtomicU64,
    elapsed_inside: AtomicU64,
}

static SUMS: Sums = Sums {
    finished: AtomicU64::new(0),
    dropped: AtomicU64::new(0),
    busy: AtomicU64::new(0),
    elapsed: AtomicU64::new(0),
    waiting: AtomicU64::new(0),
    busy_inside: AtomicU64::new(0),
    elapsed_inside: AtomicU64::new(0),
};

fn add(sum: &AtomicU64, time: Duration) {
    sum.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

#[fdr::traced]
async fn request(work: u64) -> u64 {
    let first = Instant::now();
    let mut sum = 0;
    for turn in 0..4_u64 {
        let start = Instant::now();
        sum ^= (0..work).fold(turn, |sum, step| black_box(sum.rotate_left(5) ^ step));
        add(&SUMS.busy_inside, start.elapsed());
        yield_now().await;
    }
    add(&SUMS.elapsed_inside, first.elapsed());
    sum
}

/// Measures the polls of a future from outside. If `patience` is a number, it drops the future after that many polls.
struct Measured<F> {
    inner: Option<Pin<Box<F>>>,
    patience: Option<u32>,
    first: Option<Instant>,
    busy: Duration,
}

impl<F: Future> Future for Measured<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        let start = Instant::now();
        let polled = inner.as_mut().poll(context);
        let end = Instant::now();
        let first = *this.first.get_or_insert(start);
        this.busy += end - start;
        if let Some(polls) = &mut this.patience {
            *polls -= 1;
        }
        let is_dropped = polled.is_pending() && this.patience == Some(0);
        if polled.is_pending() && !is_dropped {
            return Poll::Pending;
        }
        let elapsed = match is_dropped {
            true => {
                this.inner = None;
                SUMS.dropped.fetch_add(1, Ordering::Relaxed);
                first.elapsed()
            }
            false => {
                SUMS.finished.fetch_add(1, Ordering::Relaxed);
                add(&SUMS.elapsed, end - first);
                end - first
            }
        };
        add(&SUMS.busy, this.busy);
        add(&SUMS.waiting, elapsed.saturating_sub(this.busy));
        match polled {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => Poll::Ready(None),
        }
    }
}

/// Runs `tasks` tasks, and prints the sums.
pub async fn run(tasks: u64, work: u64) {
    let mut set = JoinSet::new();
    for number in 0..tasks {
        if set.len() == AT_ONCE {
            set.join_next().await;
        }
        set.spawn(Measured {
            inner: Some(Box::pin(request(work))),
            patience: (number % 10 == 0).then_some(2),
            first: None,
            busy: Duration::ZERO,
        });
    }
    while set.join_next().await.is_some() {}
    let sums = [
        ("finished", &SUMS.finished),
        ("dropped", &SUMS.dropped),
        ("busy", &SUMS.busy),
        ("elapsed", &SUMS.elapsed),
        ("waiting", &SUMS.waiting),
        ("busy_inside", &SUMS.busy_inside),
        ("elapsed_inside", &SUMS.elapsed_inside),
    ];
    for (name, sum) in sums {
        println!("{name} {}", sum.load(Ordering::Relaxed));
    }
}
