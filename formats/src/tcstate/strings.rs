//! The strings of a history: the names of functions. Must never hold a name twice.

use std::collections::HashMap;

use crate::model::{Function, FunctionId, TraceInfo};

/// Function ids below this find their string by index.
const LISTED: u32 = 1 << 20;

/// The names of functions, each once, numbered in the order of their use.
#[derive(Debug, Default)]
pub(super) struct Strings {
    /// The names, with the first function that had it.
    pub(super) names: Vec<(String, FunctionId)>,
    number_of: HashMap<String, u32>,
    listed: Vec<Option<u32>>,
    others: HashMap<u32, u32>,
    /// Calls of functions whose name another function had first.
    pub(super) shared: u64,
}

impl Strings {
    #[inline]
    pub(super) fn of(&mut self, id: FunctionId, info: &TraceInfo) -> u32 {
        let known = match self.listed.get(id.0 as usize) {
            Some(&known) => known,
            None => self.others.get(&id.0).copied(),
        };
        let number = known.unwrap_or_else(|| self.learn(id, info));
        self.shared += u64::from(self.names[number as usize].1 != id);
        number
    }

    #[cold]
    fn learn(&mut self, id: FunctionId, info: &TraceInfo) -> u32 {
        let name = info.function(id).map_or_else(|| id.to_string(), label);
        let next = self.names.len() as u32;
        let number = *self.number_of.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push((name, id));
        }
        if id.0 < LISTED {
            let least = (id.0 as usize + 1).max(self.listed.len());
            self.listed.resize(least, None);
            self.listed[id.0 as usize] = Some(number);
        } else {
            self.others.insert(id.0, number);
        }
        number
    }
}

/// The value on the call stack for a function.
pub(super) fn label(function: &Function) -> String {
    match function.name.is_empty() {
        true => function.id.to_string(),
        false => function.name.clone(),
    }
}
