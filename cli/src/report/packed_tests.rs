//! Packed calls and single ones, in haste and with care: the figures must be the same.

use fdr_formats::packed::{Packed, Word};
use fdr_formats::pieces::Share;
use fdr_formats::{Call, Diagnostic, Function, FunctionId, Mark, Sink, Thread, Ticks};

use super::engine::{Engine, gather};
use super::stats::LOW;
use crate::testing::{MemoryTrace, entry, exit};

/// The function that, untimed, makes an engine look at every call with care.
const CARE: u32 = 77;

fn engine(careful: bool) -> Engine {
    let mut trace = MemoryTrace::default();
    trace.info.functions = vec![Function {
        id: FunctionId(CARE),
        untimed: careful,
        ..Function::default()
    }];
    let mut engine = Engine::new(&trace, false, Share::Lanes);
    engine.thread(&Thread::default());
    engine.calls(&[entry(1 << 40, CARE), exit(1 << 40, CARE)]);
    engine
}

/// Gives every call by itself.
struct Single(Engine);

impl Sink for Single {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        calls.iter().for_each(|call| self.0.calls(&[*call]));
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, _: Diagnostic) {}
}

/// Calls of a thread as XRay's words, some hundreds at a time, each with the time before it.
fn batches(seed: u64) -> Vec<(Ticks, Vec<Word>)> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % limit
    };
    let (mut time, mut open, mut batches) = (1_u64 << 40, Vec::new(), Vec::new());
    // Some go back, some have functions with high numbers, and some odd edges.
    let (back, high, odd) = (
        seed.is_multiple_of(3),
        seed.is_multiple_of(5),
        seed.is_multiple_of(2),
    );
    for _ in 0..12 {
        let base = time;
        let words = (0..1 + next(700)).map(|_| {
            let delta = next(5000);
            time += delta;
            let enter = open.is_empty() || next(100) < 50 || (odd && next(200) == 0);
            let (id, action) = match enter {
                true => {
                    let far = if high && next(50) == 0 { LOW as u64 } else { 0 };
                    open.push(1 + next(20) + far);
                    (
                        open[open.len() - 1],
                        if odd && next(9) == 0 { 3 } else { 0 },
                    )
                }
                false => {
                    let id = open.pop().unwrap_or(1);
                    let lost = odd && next(100) == 0;
                    let id = if lost { 1 + next(25) } else { id };
                    (id, if odd && next(9) == 0 { 2 } else { 1 })
                }
            };
            (delta << 32 | id << 4 | action << 1).to_le_bytes()
        });
        batches.push((Ticks(base), words.collect()));
        if back {
            time -= next(20_000);
        }
    }
    batches
}

fn figures(engine: Engine) -> String {
    let mut figures = gather(vec![engine], false);
    figures.functions.remove(&FunctionId(CARE));
    let Some(part) = figures.threads.first() else {
        return String::new();
    };
    let thread = (part.first, part.last, part.records, part.synthetic);
    format!("{thread:?} {:?} {:?}", figures.flaws, figures.functions)
}

#[test]
fn haste_changes_no_figure() {
    for seed in 1..60 {
        let batches = batches(seed);
        let packed = |careful| {
            let mut engine = engine(careful);
            for (base, words) in &batches {
                let (packed, _) = Packed::new(*base, words);
                assert_eq!(packed.len(), words.len());
                engine.packed(&packed);
            }
            figures(engine)
        };
        let mut single = Single(engine(false));
        for (base, words) in &batches {
            single.packed(&Packed::new(*base, words).0);
        }
        let careful = packed(true);
        assert_eq!(packed(false), careful, "{seed}");
        assert_eq!(figures(single.0), careful, "{seed}");
    }
}
