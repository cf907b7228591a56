//! The functions that the numbers of a file stand for. A number may get another function in the middle of the file: where
//! another stream begins, or another library is loaded.

use std::collections::HashMap;

use crate::model::FunctionId;

/// By number: from which byte on it stands for which function, in order.
#[derive(Debug, Default)]
pub(crate) struct FunctionNumbers(HashMap<u64, Vec<(u64, FunctionId)>>);

impl FunctionNumbers {
    /// Behind this byte, the number stands for this function.
    pub(crate) fn change(&mut self, from: u64, number: u64, function: FunctionId) {
        self.0.entry(number).or_default().push((from, function));
    }

    /// The function of a number that stands at this byte. `None`: the number has no function there.
    #[inline]
    pub(crate) fn at(&self, offset: u64, number: u64) -> Option<FunctionId> {
        let changes = self.0.get(&number)?;
        let before = changes.partition_point(|&(from, _)| from < offset);
        let (_, function) = changes.get(before.checked_sub(1)?)?;
        Some(*function)
    }
}
