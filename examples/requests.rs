//! An async service: requests wait for a database, and some clients go away. An executor of forty lines polls them, so
//! the story needs no other crate. The report of its tasks tells how long requests were polled, and how long they waited:
//!
//! ```text
//! cargo build --release -p fdr-examples --example requests
//! FDR=1 target/release/examples/requests              # leaves requests.PID.1.fdr
//! fdr report --tasks requests.*.fdr                   # or with --by route
//! ```

use std::collections::VecDeque;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use fdr::traced;

type Task = Pin<Box<dyn Future<Output = u64>>>;

/// Polls its tasks in turn until all have ended, or their clients have gone.
#[derive(Default)]
struct Executor {
    tasks: VecDeque<(Task, Option<u32>)>,
    sum: u64,
    cancelled: u32,
}

impl Executor {
    /// Takes a task. After this many polls, the client of the task ends its connection.
    fn spawn(&mut self, task: impl Future<Output = u64> + 'static, patience: Option<u32>) {
        self.tasks.push_back((Box::pin(task), patience));
    }

    fn run(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        while let Some((mut task, patience)) = self.tasks.pop_front() {
            match (task.as_mut().poll(&mut context), patience) {
                (Poll::Ready(result), _) => self.sum += result,
                (Poll::Pending, Some(0)) => self.cancelled += 1,
                (Poll::Pending, _) => {
                    let patience = patience.map(|patience| patience - 1);
                    self.tasks.push_back((task, patience));
                }
            }
        }
    }
}

/// Pending once: other tasks run meanwhile.
#[derive(Default)]
struct Turn {
    is_over: bool,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Ready(());
        }
        self.is_over = true;
        Poll::Pending
    }
}

#[traced]
async fn handle(number: u64) -> u64 {
    let route = if number & 3 == 0 { "/search" } else { "/item" };
    fdr::event!("request", route, number);
    let rows = if number & 3 == 0 { 8 } else { 1 };
    let mut sum = 0;
    for row in 0..rows {
        sum += query(number + row).await;
    }
    sum
}

/// A query waits for its turn twice.
#[traced]
async fn query(row: u64) -> u64 {
    Turn::default().await;
    let found = (0..200).fold(row, |sum, step| black_box(sum ^ step));
    Turn::default().await;
    found % 10
}

fn main() {
    let mut executor = Executor::default();
    for number in 0..400 {
        let patience = (number % 100 == 0).then_some(3);
        executor.spawn(handle(number), patience);
    }
    executor.run();
    println!("{} cancelled, {} in all", executor.cancelled, executor.sum);
}
