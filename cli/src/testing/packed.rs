//! Random calls in groups of about a hundred, as a source gives them.

use fdr_formats::Ticks;
use fdr_formats::packed::Word;

/// Calls of a thread as XRay's words, some hundreds at a time, each with the time before it. The numbers of
/// some functions are that far above the others'.
pub(crate) fn batches(seed: u64, far: u64) -> Vec<(Ticks, Vec<Word>)> {
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
                    let far = if high && next(50) == 0 { far } else { 0 };
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
