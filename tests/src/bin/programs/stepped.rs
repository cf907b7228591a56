//! Traced calls, timed and untimed, one instruction at a time. After each instruction a handler makes traced calls, so
//! there is a signal on every instruction of a record. After which ones it makes calls is drawn from a seed. A
//! program's, and a plug-in's.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use core_affinity::CoreId;
use fdr::traced;
use fdr_tests::programs::stepping::{on_each_step, stepping};
use fdr_tests::support::facts;

static STEPPED: AtomicU64 = AtomicU64::new(0);
static HANDLED: AtomicU64 = AtomicU64::new(0);
static TRAPS: AtomicU64 = AtomicU64::new(0);
static STATE: AtomicU64 = AtomicU64::new(0);

#[traced]
#[inline(never)]
fn step() {
    STEPPED.fetch_add(1, Ordering::Relaxed);
}

#[traced(untimed)]
#[inline(never)]
fn step_untimed() {
    STEPPED.fetch_add(1, Ordering::Relaxed);
}

#[traced]
#[inline(never)]
fn handle() {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[traced(untimed)]
#[inline(never)]
fn handle_untimed() {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// The CPUs of the program and of its handler, each plus 1; 0: wherever it runs.
static CPUS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Goes to the CPU of the program (0) or of its handler (1).
fn go(whose: usize) {
    let cpu = CPUS[whose].load(Ordering::Relaxed);
    if cpu == 0 {
        return;
    }
    core_affinity::set_for_current(CoreId {
        id: cpu as usize - 1,
    });
}

/// The first two CPUs that the program may use.
fn choose_cpus() {
    let allowed = core_affinity::get_core_ids().unwrap_or_default();
    for (place, core) in CPUS.iter().zip(allowed) {
        place.store(core.id as u64 + 1, Ordering::Relaxed);
    }
}

/// Events of the program and of its handler.
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// An event, with a text whose length is drawn, so that chunks end at any place.
fn event() {
    let number = EVENTS.fetch_add(1, Ordering::Relaxed);
    let text = &"a text of at most fifty bytes, the rest being left out"[..draw() as usize % 50];
    fdr::event!("event", number, text);
}

/// Tasks of the program and of its handler.
static TASKS: AtomicU64 = AtomicU64::new(0);

#[traced]
async fn task() {
    std::future::ready(()).await;
}

/// A task that is polled once, or dropped before.
fn poll_task() {
    let number = TASKS.fetch_add(1, Ordering::Relaxed);
    let mut future = pin!(fdr::task!("around", task()));
    if number & 7 != 0 {
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_ready());
    }
}

/// Like `support::random`, in what a handler may do.
fn draw() -> u64 {
    let state = STATE.load(Ordering::Relaxed);
    let next = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    STATE.store(next, Ordering::Relaxed);
    next >> 33
}

extern "C" fn on_trap(_: i32) {
    TRAPS.fetch_add(1, Ordering::Relaxed);
    let calls = match CPUS[1].load(Ordering::Relaxed) {
        0 => [0, 0, 1, 0, 1, 3][draw() as usize % 6],
        // Seldom: the next handler's record would say again where it is.
        _ => u64::from(draw().is_multiple_of(100)),
    };
    if calls == 0 {
        return;
    }
    go(1);
    for _ in 0..calls {
        match draw() % 3 {
            // Nothing but events asks for room in this way.
            _ if EVENTS.load(Ordering::Relaxed) > 0 && draw().is_multiple_of(2) => event(),
            _ if TASKS.load(Ordering::Relaxed) > 0 && draw().is_multiple_of(2) => poll_task(),
            0 => handle_untimed(),
            _ => handle(),
        }
    }
    go(0);
}

/// What the program does besides its calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SideWork {
    /// Nothing.
    Calls,
    /// The calls are on the first CPU that the program may use, and the handler's on the second one.
    Apart,
    /// Both record events, too.
    Events,
    /// Both poll tasks, too.
    Tasks,
}

/// `stepped SEED ROUNDS [apart|events|tasks]`: does the rounds, and prints the counts.
pub(crate) fn main(words: &[&str]) {
    let [seed, rounds, rest @ ..] = words else {
        panic!("stepped SEED ROUNDS");
    };
    let (seed, rounds) = (facts::number(seed), facts::number(rounds));
    let how = match rest {
        ["apart"] => SideWork::Apart,
        ["events"] => SideWork::Events,
        ["tasks"] => SideWork::Tasks,
        _ => SideWork::Calls,
    };
    STATE.store(seed, Ordering::Relaxed);
    on_each_step(on_trap);
    if how == SideWork::Apart {
        choose_cpus();
    }
    go(0);
    step();
    for _ in 0_u64..rounds {
        // To just before the end of a chunk of 64 KiB, where most can go wrong.
        let until = draw() % 4100;
        (0..until).for_each(|_| step());
        stepping(|| {
            for nth in 0..4 {
                step();
                if how == SideWork::Events && nth % 2 == 0 {
                    event();
                }
                if how == SideWork::Tasks && nth == 1 {
                    poll_task();
                }
                step_untimed();
            }
            // Ends the chunk, where that is near, in the midst of untimed ones.
            (0..4).for_each(|_| step_untimed());
        });
    }
    println!("traps {}", TRAPS.load(Ordering::Relaxed));
    println!("stepped {}", STEPPED.load(Ordering::Relaxed));
    println!("events {}", EVENTS.load(Ordering::Relaxed));
    println!("tasks {}", TASKS.load(Ordering::Relaxed));
    println!("handled {}", HANDLED.load(Ordering::Relaxed));
    print!("{}", facts::of_statistics(&fdr::statistics()));
}
