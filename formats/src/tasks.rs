//! What the recorder counts of tasks beside their notes: three functions for each traced `async fn`, whose totals
//! ([`FunctionTotals`](crate::model::FunctionTotals)) are of tasks. Their names are that of the function, with one of
//! the words below behind it. So every reader of totals keeps them, also one that knows nothing of tasks. Pure.
//!
//! | function | a call with a time | its total | its self time | a call without a time |
//! | --- | --- | --- | --- | --- |
//! | [`FINISHED`] | a task that finished | elapsed | busy | |
//! | [`DROPPED`] | a task that was dropped | elapsed | busy | one that was dropped before its first poll |
//! | [`BUSY`] | a task that finished or was dropped | busy | busy | a task that began |

/// Tasks that finished.
pub const FINISHED: &str = " {finished tasks}";
/// Tasks that were dropped.
pub const DROPPED: &str = " {dropped tasks}";
/// How long tasks were polled.
pub const BUSY: &str = " {polled tasks}";

/// The kind of tasks that a function's totals count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalKind {
    /// [`FINISHED`].
    Finished,
    /// [`DROPPED`].
    Dropped,
    /// [`BUSY`].
    Busy,
}

/// The function whose tasks are counted under that name, and what is counted. `None`: the name is that of a function.
#[must_use]
pub fn of_name(name: &str) -> Option<(&str, TotalKind)> {
    let words = [
        (FINISHED, TotalKind::Finished),
        (DROPPED, TotalKind::Dropped),
        (BUSY, TotalKind::Busy),
    ];
    words
        .into_iter()
        .find_map(|(word, counted)| Some((name.strip_suffix(word)?, counted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_is_counted() {
        assert_eq!(
            of_name("a::b {dropped tasks}"),
            Some(("a::b", TotalKind::Dropped))
        );
        assert_eq!(
            of_name("a::b {finished tasks}"),
            Some(("a::b", TotalKind::Finished))
        );
        assert_eq!(
            of_name("a::b {polled tasks}"),
            Some(("a::b", TotalKind::Busy))
        );
        assert_eq!(of_name("a::b"), None);
    }
}
