//! A thread that is told what to do: recorded calls, or a control's, alone or in company. Must look at what the
//! other thread writes only between stretches of calls.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use super::process;
use crate::floor::{self, RDTSC, RDTSCP, RECORDS, Ring};
use crate::work::{Body, Caller, Variant};

/// How many stretches that count are wanted in a turn, which ends after some time whatever it has.
const STRETCHES: usize = 150;
const LIMIT: Duration = Duration::from_millis(1000);

/// The other thread says how far it is so often in a stretch.
const STEPS: u64 = 20;

/// What the controls write: words of two pages.
#[repr(align(4096))]
pub(super) struct Words([AtomicU64; 1024]);

impl Words {
    /// All 0.
    pub(super) fn new() -> Words {
        Words([const { AtomicU64::new(0) }; 1024])
    }
}

/// Places of the other thread's word; the measured one has word 0.
pub(super) const SAME_LINE: usize = 1;
pub(super) const NEXT_LINE: usize = 8;
pub(super) const FAR_LINE: usize = 512;

/// What a thread does.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// Recorded calls.
    Traced,
    /// Without times: nothing hides what memory costs.
    Untimed,
    /// The floor, with its cursor in that word: loaded and stored at every call, as a recorder's is.
    Cursor(usize),
    /// The floor, and a count of calls in that word, by an instruction that needs the line at once.
    Counter(usize),
    /// No clock: a word that is loaded and stored at every call.
    Bare(usize),
}

impl Work {
    /// Calls of a stretch.
    fn stretch(self) -> u64 {
        match self {
            Work::Traced | Work::Cursor(_) | Work::Counter(_) => 1_000,
            Work::Untimed | Work::Bare(_) => 10_000,
        }
    }
}

/// What two threads know of each other. In lines of its own, which are looked at between stretches.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Company {
    /// Calls that the other thread has made.
    calls: AtomicU64,
    pub(super) stop: AtomicBool,
}

pub(super) enum Order {
    /// Says who it is, after one recorded call.
    Begin(Sender<u32>),
    /// Stretches of calls, in company where there is one.
    Measure(Work, Option<Arc<Company>>, Sender<Stretches>),
    /// Calls until it is told to stop; says so when the first are made.
    Accompany(Work, Arc<Company>, Sender<()>),
}

/// What a turn gave.
#[derive(Default)]
pub(super) struct Stretches {
    /// ns of a call, of each stretch that counts.
    pub(super) ns: Vec<f64>,
    /// How many there were.
    pub(super) all: usize,
}

/// A thread's life: it does what it is told, until nobody can tell it anything any more.
pub(super) fn obey(core: CoreId, floor: Variant, words: &Words, orders: &Receiver<Order>) {
    core_affinity::set_for_current(core);
    let callers = [Variant::Traced, Variant::Untimed].map(|twin| Caller::new(Body::Leaf, twin));
    let [Ok(mut traced), Ok(mut untimed)] = callers else {
        return;
    };
    let mut ring = Ring::new();
    let mut make = |work, calls| match work {
        Work::Traced => traced.call(calls),
        Work::Untimed => untimed.call(calls),
        Work::Bare(word) => bare(calls, &words.0[word]),
        Work::Cursor(word) | Work::Counter(word) => {
            let counted = matches!(work, Work::Counter(_));
            let control = match floor {
                Variant::FloorRdtsc => control::<RDTSC>,
                _ => control::<RDTSCP>,
            };
            control(calls, &mut ring, &words.0[word], counted)
        }
    };
    // Whoever asked may have given up: then nobody needs the answer.
    for order in orders {
        match order {
            Order::Begin(say) => {
                make(Work::Traced, 1);
                let _ = say.send(process::thread_id());
            }
            Order::Measure(work, company, say) => {
                let stretch = || make(work, work.stretch());
                let _ = say.send(stretches(company.as_deref(), LIMIT, stretch));
            }
            Order::Accompany(work, company, runs) => {
                let step = work.stretch() / STEPS;
                make(work, step);
                let _ = runs.send(());
                while !company.stop.load(Ordering::Relaxed) {
                    let calls = make(work, step);
                    company.calls.fetch_add(calls, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Takes stretches until enough of them count.
fn stretches(
    company: Option<&Company>,
    limit: Duration,
    mut make: impl FnMut() -> u64,
) -> Stretches {
    let calls_of_other = || company.map(|company| company.calls.load(Ordering::Relaxed));
    let mut found = Stretches::default();
    let since = Instant::now();
    while found.ns.len() < STRETCHES && since.elapsed() < limit {
        let (before, from) = (calls_of_other(), Instant::now());
        let calls = make();
        let ns = from.elapsed().as_nanos() as f64 / calls as f64;
        let together = before.zip(calls_of_other()).is_none_or(|(before, after)| {
            let made = after - before;
            made >= calls / 2 && made <= calls * 2
        });
        found.all += 1;
        if together {
            found.ns.push(ns);
        }
    }
    found
}

/// Leaves of the floor, with a cursor or a count of them in memory.
fn control<const CLOCK: u8>(calls: u64, ring: &mut Ring, word: &AtomicU64, counted: bool) -> u64 {
    let base = ring.base();
    let mut at = 0;
    for x in 0..calls {
        if !counted {
            at = word.load(Ordering::Relaxed) as usize % RECORDS;
        }
        let (result, next) = floor::leaf::<CLOCK>(x, base, at);
        if counted {
            word.fetch_add(1, Ordering::Relaxed);
        } else {
            word.store(next as u64, Ordering::Relaxed);
        }
        at = next;
        black_box(result);
    }
    calls
}

fn bare(calls: u64, word: &AtomicU64) -> u64 {
    for _ in 0..calls {
        let value = word.load(Ordering::Relaxed);
        word.store(black_box(value.wrapping_add(1)), Ordering::Relaxed);
    }
    calls
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn words_of_the_controls_are_where_they_are_said_to_be() {
        let words = Words::new();
        let line = |word: usize| (&raw const words.0[word]).addr() / 64;
        assert_eq!(line(SAME_LINE), line(0));
        assert_eq!(line(NEXT_LINE), line(0) + 1);
        assert!(line(FAR_LINE) >= line(0) + 64);
    }

    #[test]
    fn only_stretches_in_company_count() {
        let company = Company::default();
        let mut turn = 0;
        // The other one makes as many, none, and very many.
        let found = stretches(Some(&company), Duration::MAX, || {
            let made = [100, 0, 1_000][turn % 3];
            turn += 1;
            company.calls.fetch_add(made, Ordering::Relaxed);
            100
        });
        assert_eq!(found.ns.len(), STRETCHES);
        assert_eq!((found.all, turn), (3 * STRETCHES - 2, 3 * STRETCHES - 2));
        let alone = stretches(None, Duration::MAX, || 100);
        assert_eq!((alone.ns.len(), alone.all), (STRETCHES, STRETCHES));
    }

    #[test]
    fn threads_do_what_they_are_told() {
        let words = Words::new();
        let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied())
        else {
            return;
        };
        thread::scope(|scope| {
            let (orders, received) = channel();
            let words = &words;
            scope.spawn(move || obey(core, Variant::FloorRdtsc, words, &received));
            for work in [Work::Counter(SAME_LINE), Work::Bare(FAR_LINE)] {
                let (say, found) = channel();
                let order = Order::Measure(work, None, say);
                orders.send(order).expect("the thread lives");
                let found = found.recv().expect("the thread lives");
                assert!(found.all > 0 && found.ns.iter().all(|&ns| ns > 0.0));
            }
            drop(orders);
        });
        let made = |word: usize| words.0[word].load(Ordering::Relaxed);
        assert!(made(SAME_LINE) >= 1_000 && made(SAME_LINE).is_multiple_of(1_000));
        assert!(made(FAR_LINE) >= 10_000 && made(FAR_LINE).is_multiple_of(10_000));
        assert_eq!(made(0), 0);
    }
}
