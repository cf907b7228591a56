//! Functions on the reading side: from descriptions and numbers of the file to the function ids of
//! the neutral model, which every number is only once. Must never give a function a different id
//! later: calls have it by then.

use std::collections::{BTreeMap, HashMap};

use super::facts::{self, FunctionFacts};
use crate::model::{Function, FunctionId};

/// Ids from here downwards are given to functions that a trace of ours does not declare. The other
/// formats' ids end here too.
const HIGHEST: u32 = (1 << 28) - 1;

#[derive(Debug)]
struct Entry {
    function: Function,
    /// By `fdr:function`.
    declared: bool,
}

/// All functions so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    entries: BTreeMap<FunctionId, Entry>,
    /// The first function of each name, as it stands in the file.
    by_name: HashMap<Box<[u8]>, FunctionId>,
    /// The function that a number of the file means now.
    by_number: HashMap<u32, FunctionId>,
    given: u32,
}

impl Names {
    /// The function of a call. `ours`: the trace declares its functions.
    #[inline]
    pub(super) fn call(&mut self, name: &[u8], number: Option<u32>, ours: bool) -> FunctionId {
        let known = match number {
            Some(number) => self.by_number.get(&number),
            None => self.by_name.get(name),
        };
        match known {
            Some(&id) => id,
            None => self.undeclared(name, number, ours),
        }
    }

    #[cold]
    fn undeclared(&mut self, name: &[u8], number: Option<u32>, ours: bool) -> FunctionId {
        let id = match number {
            Some(number) => self.place(number),
            None => self.free(ours),
        };
        match number {
            Some(number) => drop(self.by_number.insert(number, id)),
            None => drop(self.by_name.insert(name.into(), id)),
        }
        let mut name = facts::lossy(name);
        if number.is_some_and(|number| name == label(number)) {
            name.clear();
        }
        let function = Function {
            id,
            name,
            ..Function::default()
        };
        let declared = false;
        self.entries.insert(id, Entry { function, declared });
        id
    }

    /// A function is described. Returns what to say if its number had another one before.
    pub(super) fn declare(&mut self, facts: FunctionFacts) -> Option<String> {
        let FunctionFacts {
            id,
            name,
            file,
            line,
            untimed,
        } = facts;
        let Some(number) = id else {
            return Some("a function without a number; it is skipped".into());
        };
        let mut told = None;
        let adopted = self.by_name.get(name.as_bytes()).copied();
        let adopted =
            adopted.filter(|id| self.entries.get(id).is_some_and(|entry| !entry.declared));
        let known = self.by_number.get(&number).copied().or(adopted);
        let id = match known.and_then(|id| self.entries.get(&id)) {
            None => self.place(number),
            Some(entry) if !entry.declared => entry.function.id,
            Some(Entry { function, .. }) => {
                if (&function.name, &function.file, function.line) == (&name, &file, line) {
                    return None;
                }
                let id = self.free(true);
                told = Some(format!(
                    "function #{number} is described as another one than before: it is #{} from \
                     here on",
                    id.0
                ));
                id
            }
        };
        self.by_number.insert(number, id);
        if !name.is_empty() {
            self.by_name.entry(name.as_bytes().into()).or_insert(id);
        }
        let function = Function {
            id,
            name,
            file,
            line,
            untimed,
        };
        let declared = true;
        self.entries.insert(id, Entry { function, declared });
        told
    }

    /// The number itself as id, if no function has it.
    fn place(&mut self, number: u32) -> FunctionId {
        let id = FunctionId(number);
        if self.entries.contains_key(&id) {
            self.free(true)
        } else {
            id
        }
    }

    /// An id that no function has: the lowest ones in other programs' traces, which have no numbers.
    fn free(&mut self, ours: bool) -> FunctionId {
        loop {
            let id = FunctionId(if ours {
                HIGHEST.wrapping_sub(self.given)
            } else {
                self.given + 1
            });
            self.given += 1;
            if !self.entries.contains_key(&id) {
                return id;
            }
        }
    }

    /// Those that have a name or a place, sorted by id.
    pub(super) fn finish(self) -> Vec<Function> {
        let known = self
            .entries
            .into_values()
            .filter(|entry| entry.declared || !entry.function.name.is_empty());
        known.map(|entry| entry.function).collect()
    }
}

/// What a function without a name is called.
pub(super) fn label(number: u32) -> String {
    format!("#{number}")
}
