//! A thread's endless calls: scripts in a row, each from a seed of its own. So any part of the calls can be computed
//! without the calls before it. Must never depend on anything but seed and length.

use super::random::Random;
use super::script::Script;

/// Calls of each script but the last.
const CALLS: u64 = 10_000;
/// Its edges.
const EDGES: u64 = 2 * CALLS;

/// Calls to come.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    seed: u64,
    calls: u64,
}

impl Course {
    /// `calls` calls in all; `u64::MAX` = as many as are wanted.
    #[must_use]
    pub fn new(seed: u64, calls: u64) -> Course {
        Course { seed, calls }
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
}
