//! Tasks under the executor of `smol`, in the combinators of `futures`, and behind `async-trait`. Each story is a task,
//! and the tasks inside have names of their own, so the report says what became of each.

use std::time::Duration;

use futures::future::{self, BoxFuture, Either, FutureExt};
use futures::stream::{self, FuturesUnordered, StreamExt};
use futures::{join, select};
use smol::Timer;
use smol::future::{or, yield_now};

/// A future that ends after `turns` turns, and one that never ends.
macro_rules! parts {
    ($($ends:ident $never:ident),*) => {$(
        #[fdr::traced]
        async fn $ends(turns: u32) -> u32 {
            for _ in 0..turns {
                yield_now().await;
            }
            turns
        }

        #[allow(dead_code)]
        #[fdr::traced]
        async fn $never() -> u32 {
            std::future::pending().await
        }
    )*};
}

parts!(
    joined joined_never, selected selected_never, raced raced_never, timed timed_never, unordered unordered_never,
    boxed boxed_never, buffered buffered_never, spawned spawned_never, shared shared_never
);

#[fdr::traced]
async fn joins() -> u32 {
    let (one, two) = join!(joined(1), joined(3));
    let many = future::join_all((0..4).map(joined)).await;
    let tried = future::try_join(joined(1).map(Ok::<_, ()>), joined(2).map(Ok)).await;
    one + two + many.iter().sum::<u32>() + tried.map_or(0, |(one, two)| one + two)
}

/// The other future of each is dropped after polls.
#[fdr::traced]
async fn selects() -> u32 {
    let mut ends = Box::pin(selected(2).fuse());
    let mut never = Box::pin(selected_never().fuse());
    let one = select! {
        found = never => found,
        found = ends => found,
    };
    drop(never);
    let two = match future::select(Box::pin(raced_never()), Box::pin(raced(1))).await {
        Either::Left((found, _)) | Either::Right((found, _)) => found,
    };
    one + two
}

/// The first one is in time, the second one is not, and the third one is aborted.
#[fdr::traced]
async fn timeouts() -> u32 {
    let late = async |wait| {
        Timer::after(wait).await;
        0
    };
    let one = or(timed(1), late(Duration::from_secs(3_600))).await;
    let two = or(timed_never(), late(Duration::from_millis(1))).await;
    let (never, handle) = future::abortable(timed_never());
    let mut never = Box::pin(never);
    assert!(future::poll_immediate(&mut never).await.is_none());
    handle.abort();
    assert!(never.await.is_err());
    one + two
}

/// Ten futures in any order. Two more are in a second set, which is dropped before it was polled.
#[fdr::traced]
async fn sets() -> u32 {
    let mut set: FuturesUnordered<_> = (0..10).map(unordered).collect();
    let mut sum = 0;
    while let Some(found) = set.next().await {
        sum += found;
    }
    let never: FuturesUnordered<BoxFuture<'static, u32>> = FuturesUnordered::new();
    for _ in 0..2 {
        never.push(fdr::task!("unordered of nobody", unordered_never()).boxed());
    }
    sum
}

/// Streams: one with four futures at once, one with one future after the other, and one in a loop that is its own task.
#[fdr::traced]
async fn streams() -> u32 {
    let numbers = || stream::iter(1..=5);
    let sum = async |all: u32, one: u32| all + one;
    let at_once = numbers().map(buffered).buffer_unordered(4).fold(0, sum).await;
    let in_turn = numbers().then(buffered).fold(0, sum).await;
    let mut left = Box::pin(numbers().then(buffered));
    let reader = fdr::task!("reader", async move {
        let mut sum = 0;
        while let Some(number) = left.next().await {
            sum += number;
        }
        sum
    });
    at_once + in_turn + reader.await
}

/// A boxed future, one of a generic type, and clones of a shared one.
#[fdr::traced]
async fn boxes() -> u32 {
    let one: BoxFuture<'static, u32> = boxed(1).boxed();
    let other = shared(2).shared();
    let (one, two, three) = join!(one, other.clone(), other);
    one + two + three
}

#[async_trait::async_trait]
trait Store {
    async fn get(&self, key: u32) -> u32;

    /// Given by the trait.
    #[fdr::traced]
    async fn twice(&self, key: u32) -> u32 {
        self.get(key).await + self.get(key).await
    }
}

struct Memory;

#[async_trait::async_trait]
impl Store for Memory {
    #[fdr::traced(args, ret)]
    async fn get(&self, key: u32) -> u32 {
        yield_now().await;
        key
    }
}

/// Each call of the first trait is a boxed future; those of the second are of the compiler.
#[fdr::traced]
async fn methods() -> u32 {
    let store: Box<dyn Store + Sync> = Box::new(Memory);
    let found = store.twice(3).await;
    // This future is never polled.
    drop(store.get(4));
    found + Memory.fetch(1).await
}

trait Fetch {
    async fn fetch(&self, key: u32) -> u32;
}

impl Fetch for Memory {
    #[fdr::traced]
    async fn fetch(&self, key: u32) -> u32 {
        yield_now().await;
        key
    }
}

/// The executor has four tasks: three end, and one is cancelled after it has begun.
#[fdr::traced]
async fn spawns(executor: &smol::Executor<'_>) -> u32 {
    let tasks: Vec<_> = (1..4).map(|turns| executor.spawn(fdr::spawned(spawned(turns)))).collect();
    let (begun, begins) = smol::channel::bounded::<()>(1);
    let never = executor.spawn(fdr::spawned(fdr::task!("cancelled", async move {
        let _ = begun.send(()).await;
        spawned_never().await
    })));
    begins.recv().await.expect("it begins");
    assert_eq!(never.cancel().await, None);
    future::join_all(tasks).await.iter().sum()
}

#[fdr::traced]
async fn all(executor: &smol::Executor<'_>) -> [u32; 8] {
    [
        joins().await,
        selects().await,
        timeouts().await,
        sets().await,
        streams().await,
        boxes().await,
        methods().await,
        spawns(executor).await,
    ]
}

fn main() {
    let executor = smol::Executor::new();
    let (stop, stopped) = smol::channel::bounded::<()>(1);
    let found = std::thread::scope(|scope| {
        // A second thread polls, too.
        scope.spawn(|| smol::block_on(executor.run(stopped.recv())));
        let found = smol::block_on(executor.run(all(&executor)));
        drop(stop);
        found
    });
    println!("{found:?}");
}
