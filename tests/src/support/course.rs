//! A thread's endless calls: scripts in a row, each from a seed of its own. So any part of the calls can be computed
//! without the calls before it.

use super::random::Random;
use super::script::{FUNCTIONS, Script};

/// Calls of each script but the last.
const CALLS: u64 = 10_000;
/// Its edges.
const EDGES: u64 = 2 * CALLS;

/// A program that leaves notes has a block of notes after each this many edges of scripts.
pub const EVERY: u64 = 64;
/// The edges of such a block: a task of two polls.
pub const STRAND: [u8; 4] = [STRAND_WORD, STRAND_WORD + 1, STRAND_WORD, STRAND_WORD + 1];
/// The number of the task's function, behind those of scripts.
pub const STRAND_WORD: u8 = 2 * FUNCTIONS.len() as u8;
/// Edges from one block to the next.
pub const ROUND: u64 = EVERY + STRAND.len() as u64;

/// What a block's event has beside its number, so that a reader sees whether the two are of one event.
#[must_use]
pub fn check(serial: u64) -> u64 {
    Random::new(serial).bits()
}

/// Calls to come.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    seed: u64,
    calls: u64,
    has_blocks: bool,
}

impl Course {
    /// `calls` calls in all; `u64::MAX` = as many as are wanted.
    #[must_use]
    pub fn new(seed: u64, calls: u64) -> Course {
        Course {
            seed,
            calls,
            has_blocks: false,
        }
    }

    /// The same with the edges of a block after each [`EVERY`] edges.
    #[must_use]
    pub fn with_blocks(self, has_blocks: bool) -> Course {
        Course { has_blocks, ..self }
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
