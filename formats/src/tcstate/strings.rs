//! The strings of a history: the names of functions.

use std::collections::HashMap;

use crate::model::{Function, FunctionId, TraceInfo};

/// The names of functions, each once, numbered in the order of their use.
#[derive(Debug, Default)]
pub(super) struct Strings {
    /// The names, with the first function that had it.
    pub(super) names: Vec<(String, FunctionId)>,
    number_of_name: HashMap<String, u32>,
    number_of: HashMap<FunctionId, u32>,
    /// Calls of functions whose name another function had first.
    pub(super) shared: u64,
}

impl Strings {
    /// The number of a function's name.
    pub(super) fn number_of_function(&mut self, id: FunctionId, info: &TraceInfo) -> u32 {
        let number = match self.number_of.get(&id) {
            Some(&number) => number,
            None => self.learn(id, info),
        };
        self.shared += u64::from(self.names[number as usize].1 != id);
        number
    }

    fn learn(&mut self, id: FunctionId, info: &TraceInfo) -> u32 {
        let name = info.function(id).map_or_else(|| id.to_string(), label);
        let next = self.names.len() as u32;
        let number = *self.number_of_name.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push((name, id));
        }
        self.number_of.insert(id, number);
        number
    }

    /// The string of a number.
    pub(super) fn text(&self, number: u32) -> &str {
        let name = self.names.get(number as usize);
        name.map_or("", |(name, _)| name)
    }
}

/// The value on the call stack for a function.
pub(super) fn label(function: &Function) -> String {
    match function.name.is_empty() {
        true => function.id.to_string(),
        false => function.name.clone(),
    }
}
