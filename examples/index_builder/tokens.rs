//! From text to terms: words are cut out, made small, stripped of endings. Keeps no state.

use fdr::traced;

use crate::counts::{Function, count};

/// The words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// Words too frequent to be worth an entry. A hot leaf: its calls are of interest, and not the few
/// nanoseconds that each takes.
#[traced(untimed)]
pub(crate) fn is_stop_word(word: &str) -> bool {
    count(Function::IsStopWord);
    matches!(word, "the" | "of" | "and" | "to")
}

/// Strips one ending after the other. It calls itself for each ending.
#[traced]
pub(crate) fn stem(word: &str) -> &str {
    count(Function::Stem);
    for ending in ["ing", "ed", "ly", "s"] {
        match word.strip_suffix(ending) {
            Some(shorter) if shorter.len() > 2 => return stem(shorter),
            _ => {}
        }
    }
    word
}
