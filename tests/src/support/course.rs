//! A thread's endless calls: scripts in a row, each from a seed of its own. So any part of the calls can be computed
//! without the calls before it. Must never depend on anything but seed and length.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::random::Random;
use super::script::{FUNCTIONS, Script};

/// Calls of each script but the last.
const CALLS: u64 = 10_000;
/// Its edges.
const EDGES: u64 = 2 * CALLS;

/// After so many edges of scripts, a program that leaves notes has a block of them.
pub const EVERY: u64 = 64;
/// The edges of such a block: a task of two polls.
pub const STRAND: [u8; 4] = [STRAND_WORD, STRAND_WORD + 1, STRAND_WORD, STRAND_WORD + 1];
/// The number of the task's function, behind those of scripts and the two of handlers.
pub const STRAND_WORD: u8 = 2 * (FUNCTIONS.len() as u8 + 2);
/// Edges from one block to the next.
pub const ROUND: u64 = EVERY + STRAND.len() as u64;

/// What a block's event has beside its number, so that a reader sees whether the two are of one event.
#[must_use]
pub fn check(serial: u64) -> u64 {
    Random::new(serial).bits()
}

/// What comes before a script.
#[derive(Clone, Copy, Default)]
struct Before {
    top_level_calls: u64,
    /// Of the sample.
    edges: u64,
}

/// What comes before each script of a course, by its seed, calls, sample and the top-level calls before it.
type Known = HashMap<[u64; 4], Vec<Before>>;

/// Of the courses so far, so that a long one is not made from its beginning each time.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Calls to come.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    seed: u64,
    calls: u64,
    has_blocks: bool,
    /// Of so many top-level calls the first is in the course, with all calls inside.
    one_in: u64,
    /// Top-level calls before it, which count in the sample.
    before: u64,
}

impl Course {
    /// `calls` calls in all; `u64::MAX` = as many as are wanted.
    #[must_use]
    pub fn new(seed: u64, calls: u64) -> Course {
        Course {
            seed,
            calls,
            has_blocks: false,
            one_in: 1,
            before: 0,
        }
    }

    /// The same with the edges of a block after each [`EVERY`] edges.
    #[must_use]
    pub fn with_blocks(self, has_blocks: bool) -> Course {
        Course { has_blocks, ..self }
    }

    /// The edges of the first of each `one_in` top-level calls, without blocks.
    #[must_use]
    pub fn with_sample(self, one_in: u64) -> Course {
        Course { one_in, ..self }
    }

    /// The same where the thread has made another course before.
    #[must_use]
    pub fn behind(self, other: &Course) -> Course {
        let before = other.before(u64::MAX).top_level_calls;
        Course { before, ..self }
    }

    /// How many of the first edges that are made are the course's.
    #[must_use]
    pub fn count_of(&self, made: u64) -> u64 {
        if self.one_in == 1 {
            return made;
        }
        let before = self.before(made / EDGES);
        let last = self.part(made / EDGES);
        let edges = last.map(|script| self.sampled(&script.edges(made % EDGES), before).0);
        before.edges + edges.map_or(0, |edges| edges.len() as u64)
    }

    /// Whether it has those.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        self.has_blocks
    }

    /// Calls in all.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Edges in all.
    #[must_use]
    pub fn edges(&self) -> u64 {
        self.calls.saturating_mul(2)
    }

    /// The script at that place in the row; `None` behind the last.
    #[must_use]
    pub fn part(&self, number: u64) -> Option<Script> {
        let left = self.calls.checked_sub(number.checked_mul(CALLS)?)?;
        let seed = Random::new(self.seed ^ number.rotate_left(32)).bits();
        (left > 0).then(|| Script::new(seed, left.min(CALLS)))
    }

    /// `count` edges from that one on, in the words of [`Script::edges`]; fewer where the course ends.
    #[must_use]
    pub fn window(&self, from: u64, count: u64) -> Vec<u8> {
        if self.one_in > 1 {
            return self.of_sample(from, count);
        }
        if !self.has_blocks {
            return self.of_scripts(from, count);
        }
        let round = from / ROUND;
        let rounds = (from % ROUND).saturating_add(count).div_ceil(ROUND);
        let edges = self.of_scripts(round * EVERY, rounds.saturating_mul(EVERY));
        let mut window = Vec::with_capacity(edges.len() + edges.len() / 8);
        for round in edges.chunks(EVERY as usize) {
            window.extend_from_slice(round);
            if round.len() as u64 == EVERY {
                window.extend(STRAND);
            }
        }
        window.drain(..((from % ROUND) as usize).min(window.len()));
        window.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        window
    }

    /// The same of the scripts alone.
    fn of_scripts(&self, from: u64, count: u64) -> Vec<u8> {
        let mut window = Vec::new();
        let mut number = from / EDGES;
        let mut skip = (from % EDGES) as usize;
        while (window.len() as u64) < count {
            let Some(script) = self.part(number) else {
                break;
            };
            let wanted = skip as u64 + (count - window.len() as u64);
            let edges = script.edges(wanted);
            window.extend_from_slice(edges.get(skip..).unwrap_or_default());
            (number, skip) = (number + 1, 0);
        }
        window
    }

    /// The same of the sample.
    fn of_sample(&self, from: u64, count: u64) -> Vec<u8> {
        let mut window = Vec::new();
        for number in 0.. {
            let Some(script) = self.part(number).filter(|_| (window.len() as u64) < count) else {
                break;
            };
            if self.before(number + 1).edges > from {
                let before = self.before(number);
                let (edges, _) = self.sampled(&script.edges(u64::MAX), before);
                let skip = from.saturating_sub(before.edges) as usize;
                window.extend_from_slice(edges.get(skip..).unwrap_or_default());
            }
        }
        window.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        window
    }

    /// What comes before the script at that place in the row, or before the end.
    fn before(&self, number: u64) -> Before {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = [self.seed, self.calls, self.one_in, self.before];
        let begin = Before {
            top_level_calls: self.before,
            edges: 0,
        };
        let row = known.entry(key).or_insert_with(|| vec![begin]);
        let mut last = row.last().copied().unwrap_or_default();
        while row.len() as u64 <= number {
            let Some(script) = self.part(row.len() as u64 - 1) else {
                break;
            };
            let (edges, top_level_calls) = self.sampled(&script.edges(u64::MAX), last);
            last = Before {
                top_level_calls,
                edges: last.edges + edges.len() as u64,
            };
            row.push(last);
        }
        row.get(number as usize).copied().unwrap_or(last)
    }

    /// Of a script's first edges, those that are in the sample, and how many top-level calls there were up to them.
    fn sampled(&self, edges: &[u8], before: Before) -> (Vec<u8>, u64) {
        let (mut depth, mut top) = (0_u64, before.top_level_calls);
        let is_sampled = |edge: &&u8| {
            let is_entry = edge.is_multiple_of(2);
            top += u64::from(is_entry && depth == 0);
            depth = if is_entry { depth + 1 } else { depth - 1 };
            (top - 1).is_multiple_of(self.one_in)
        };
        let sampled = edges.iter().filter(is_sampled).copied().collect();
        (sampled, top)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_parts_of_the_whole() {
        let course = Course::new(5, 25_000);
        let whole = course.window(0, u64::MAX);
        assert_eq!(whole.len() as u64, course.edges());
        for (from, count) in [(0, 1), (19_999, 2), (20_000, 20_001), (49_990, 100)] {
            let end = (from + count).min(whole.len());
            let window = course.window(from as u64, count as u64);
            assert!(window == whole[from..end], "{count} from {from}");
        }
        assert_ne!(whole[..100], whole[20_000..20_100]);
        assert!(course.window(50_000, 1).is_empty());
    }

    #[test]
    fn a_sample_has_whole_top_level_calls() {
        let all = Course::new(5, 25_000);
        let course = all.with_sample(3);
        let whole = course.window(0, 50_000);
        assert_eq!(whole.len() as u64, course.count_of(u64::MAX));
        assert!((10_000..25_000).contains(&whole.len()), "{}", whole.len());
        let first = all.window(0, 100);
        let end = first.iter().scan(0, |depth, edge| {
            *depth += if edge % 2 == 0 { 1 } else { -1 };
            Some(*depth)
        });
        let end = end.take_while(|depth| *depth > 0).count() + 1;
        assert_eq!(whole[..end], first[..end]);
        assert_eq!(course.count_of(end as u64), end as u64);
        assert_eq!(course.count_of(end as u64 + 2), end as u64);
        let last = whole.len() - 1;
        let second = Course::new(6, 100);
        assert_ne!(all.before(u64::MAX).top_level_calls % 3, 0);
        let same = second.with_sample(3).window(0, 200);
        assert_ne!(second.with_sample(3).behind(&all).window(0, 200), same);
        for (from, count) in [(0, 1), (5_999, 20), (3_000, 9_000), (last, 1)] {
            let window = course.window(from as u64, count as u64);
            assert!(window == whole[from..from + count], "{count} from {from}");
        }
        // The place of each top-level call tells which are in the sample, over the ends of scripts.
        let mut expected = Vec::new();
        let (mut depth, mut top) = (0, 0_u64);
        for (made, edge) in (1..).zip(all.window(0, 50_000)) {
            top += u64::from(depth == 0);
            depth += if edge % 2 == 0 { 1 } else { -1 };
            if (top - 1).is_multiple_of(3) {
                expected.push(edge);
            }
            if made % 997 == 0 {
                assert_eq!(course.count_of(made), expected.len() as u64, "{made}");
            }
        }
        assert!(whole == expected);
        assert_eq!(all.with_sample(1).window(7, 9), all.window(7, 9));
    }

    #[test]
    fn blocks_stand_after_so_many_edges() {
        let (plain, course) = (Course::new(5, 80), Course::new(5, 80).with_blocks(true));
        let mut whole = plain.window(0, u64::MAX);
        whole.splice(128..128, STRAND);
        whole.splice(64..64, STRAND);
        assert_eq!(course.window(0, u64::MAX), whole);
        for (from, count) in [(0, 64), (60, 6), (66, 70), (150, 100), (168, 1), (500, 1)] {
            let end = (from + count).min(whole.len());
            let window = course.window(from as u64, count as u64);
            assert!(window == whole[from.min(end)..end], "{count} from {from}");
        }
    }
}
