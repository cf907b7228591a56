//! A thread's calls, which follow from a seed alone. So a test knows which records a trace must hold, and in which
//! order. The calls are nested and recursive.

use super::random::Random;

/// The functions, by number.
pub const FUNCTIONS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

/// The most callers of a call.
pub const DEEPEST: u64 = 40;

/// A thread's calls to come.
#[derive(Clone, Debug)]
pub struct Script {
    random: Random,
    left: u64,
}

impl Script {
    /// `calls` calls in all.
    #[must_use]
    pub fn new(seed: u64, calls: u64) -> Script {
        Script {
            random: Random::new(seed),
            left: calls,
        }
    }

    /// The function that is called next, by a function at this depth. Depth 0 is the thread's own body. `None`: the
    /// function returns.
    pub fn step(&mut self, depth: usize) -> Option<usize> {
        let returns = depth > 0 && (depth as u64 >= DEEPEST || self.random.below(2) == 0);
        if returns || self.left == 0 {
            return None;
        }
        self.left -= 1;
        Some(self.random.below(FUNCTIONS.len() as u64) as usize)
    }

    /// Every edge in order, at most the first `limit`: twice the function's number, and one more for
    /// an exit.
    #[must_use]
    pub fn edges(mut self, limit: u64) -> Vec<u8> {
        let mut edges = Vec::new();
        let mut callers: Vec<usize> = Vec::new();
        while (edges.len() as u64) < limit {
            if let Some(function) = self.step(callers.len()) {
                edges.push(2 * function as u8);
                callers.push(function);
            } else if let Some(function) = callers.pop() {
                edges.push(2 * function as u8 + 1);
            } else {
                break;
            }
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_balanced_and_of_stated_length() {
        let edges = Script::new(7, 1000).edges(u64::MAX);
        assert_eq!(edges.len(), 2000);
        let (mut open, mut deepest, mut recursive) = (Vec::new(), 0, false);
        for edge in edges {
            if edge % 2 == 0 {
                recursive |= open.last() == Some(&edge);
                open.push(edge);
            } else {
                assert_eq!(open.pop(), Some(edge - 1));
            }
            deepest = deepest.max(open.len());
        }
        assert!(open.is_empty() && deepest > 4 && recursive);
        assert_eq!(Script::new(7, 1000).edges(10).len(), 10);
    }
}
