//! Functions of a stream. A call names its function by an identifier or by a label. A mapping record ties an identifier
//! to a label, before the first call or after it. [`Names`] numbers the functions in the index pass. [`FunctionMap`]
//! has the same numbers for later passes.

use std::collections::{HashMap, HashSet};

use crate::escaped::label;
use crate::function_numbers::FunctionNumbers;
use crate::model::{Function, FunctionId};

/// The label of a function.
pub(super) fn label_of(function: &Function) -> String {
    if function.name.is_empty() {
        format!("{}", function.id)
    } else {
        label(&function.name).into_owned()
    }
}

#[derive(Debug)]
struct FunctionEntry {
    function: Function,
    /// Of a function of our klass: whether it is in the trace's table.
    listed: bool,
    /// It is final which name it has, or that it has none.
    named: bool,
    /// Our klass described it with this number.
    own: bool,
    number: u32,
}

impl FunctionEntry {
    /// Its label. Its number in the file may differ from its number here.
    fn label(&self) -> String {
        if self.own && self.function.name.is_empty() {
            FunctionId(self.number).to_string()
        } else {
            label_of(&self.function)
        }
    }

    /// Whether our klass repeats the same description. `named`: with its name.
    fn is_described_by(&self, function: &Function, named: bool) -> bool {
        let known = &self.function;
        (&known.file, known.line, known.kind) == (&function.file, function.line, function.kind)
            && (!named || known.name == function.name)
    }
}

/// The functions, during the index pass.
#[derive(Debug, Default)]
pub(super) struct Names {
    functions: Vec<FunctionEntry>,
    of_identifier: HashMap<u64, usize>,
    of_label: HashMap<String, usize>,
    used_numbers: HashSet<u32>,
    /// The last number that was given.
    last: u32,
    ties: FunctionNumbers,
    /// Identifiers in the order of their first call, if no mapping came before.
    unmapped: Vec<(u64, u64)>,
}

/// The functions of calls, once all are known.
#[derive(Debug, Default)]
pub(super) struct FunctionMap {
    pub(super) identifiers: FunctionNumbers,
    labels: HashMap<String, FunctionId>,
}

impl FunctionMap {
    /// The function of a call at `offset`.
    #[inline]
    pub(super) fn function(&self, offset: u64, naming: Naming<'_>) -> FunctionId {
        let known = match naming {
            Naming::Identifier(identifier) => self.identifiers.at(offset, identifier),
            Naming::Label(label) => {
                let label = String::from_utf8_lossy(label);
                self.labels.get(&*label).copied()
            }
        };
        known.unwrap_or_default()
    }
}

/// How a call names its function.
pub(super) enum Naming<'w> {
    Identifier(u64),
    Label(&'w [u8]),
}

impl Names {
    /// The function of a call at `offset`.
    pub(super) fn function_of(&mut self, offset: u64, naming: Naming<'_>) -> FunctionId {
        match naming {
            Naming::Identifier(identifier) => self.identifier(offset, identifier),
            Naming::Label(label) => {
                let at = self.labelled(&String::from_utf8_lossy(label));
                self.functions[at].function.id
            }
        }
    }

    fn identifier(&mut self, offset: u64, identifier: u64) -> FunctionId {
        if let Some(known) = self.of_identifier.get(&identifier) {
            return self.functions[*known].function.id;
        }
        self.unmapped.push((offset, identifier));
        let function = Function::default();
        let at = self.add(function, None, false);
        self.tie(offset, identifier, at);
        self.functions[at].function.id
    }

    fn labelled(&mut self, label: &str) -> usize {
        if let Some(&known) = self.of_label.get(label) {
            return known;
        }
        let function = Function {
            name: label.to_owned(),
            ..Function::default()
        };
        let at = self.add(function, None, false);
        self.functions[at].named = true;
        self.of_label.insert(label.to_owned(), at);
        at
    }

    /// A mapping record at `offset`.
    pub(super) fn mapping(&mut self, offset: u64, identifier: u64, label: &str) {
        let Some(&at) = self.of_identifier.get(&identifier) else {
            let at = self.labelled(label);
            return self.tie(offset, identifier, at);
        };
        let known = &mut self.functions[at];
        if !known.named {
            known.named = true;
            label.clone_into(&mut known.function.name);
            if !known.own {
                self.of_label.entry(label.to_owned()).or_insert(at);
            }
        } else if known.label() != label {
            let at = if known.own {
                let name = label.to_owned();
                let (number, known) = (known.number, known.function.clone());
                let at = self.add(Function { name, ..known }, Some(number), true);
                self.functions[at].named = true;
                at
            } else {
                self.labelled(label)
            };
            self.tie(offset, identifier, at);
        }
    }

    /// A record of our own klass at `offset`. `named`: its name is final, and no mapping gives it.
    pub(super) fn function(
        &mut self,
        offset: u64,
        identifier: u64,
        function: Function,
        listed: bool,
        named: bool,
    ) {
        let id = function.id;
        let old = self.of_identifier.get(&identifier).copied();
        let old = old.filter(|&at| {
            let known = &self.functions[at];
            known.own && known.number == id.0
        });
        let entry = old.map(|at| &self.functions[at]);
        let old = match entry.filter(|known| known.listed && listed) {
            // The description is repeated, as for late readers; its label follows.
            Some(known) if known.is_described_by(&function, named) => return,
            // The function is another program's. Its stream begins where the previous one was cut off.
            Some(_) => None,
            None => old,
        };
        let at = old.unwrap_or_else(|| self.add(Function::default(), Some(id.0), true));
        let known = &mut self.functions[at];
        (known.listed, known.named) = (listed, named || !listed);
        // The number is another one if that number is taken.
        let id = known.function.id;
        known.function = Function { id, ..function };
        if old.is_none() {
            self.tie(offset, identifier, at);
        }
    }

    fn add(&mut self, function: Function, preferred: Option<u32>, own: bool) -> usize {
        let number = preferred.unwrap_or_default();
        let preferred = preferred.filter(|&id| self.used_numbers.insert(id));
        let id = preferred.unwrap_or_else(|| {
            loop {
                self.last = self.last.wrapping_add(1);
                if self.used_numbers.insert(self.last) {
                    break self.last;
                }
            }
        });
        let id = FunctionId(id);
        self.functions.push(FunctionEntry {
            function: Function { id, ..function },
            listed: true,
            named: false,
            own,
            number,
        });
        self.functions.len() - 1
    }

    fn tie(&mut self, offset: u64, identifier: u64, at: usize) {
        let id = self.functions[at].function.id;
        let is_first = self.of_identifier.insert(identifier, at).is_none();
        // Calls may come before the mapping.
        let from = if is_first { 0 } else { offset };
        self.ties.change(from, identifier, id);
    }

    /// The functions, sorted by number; the functions of calls; and the calls whose label never came, by offset and
    /// identifier. Their functions are named by the identifier.
    pub(super) fn finish(mut self) -> (Vec<Function>, FunctionMap, Vec<(u64, u64)>) {
        let (functions, ties) = (&mut self.functions, &self.ties);
        let by_id: HashMap<FunctionId, usize> = functions
            .iter()
            .enumerate()
            .map(|(at, known)| (known.function.id, at))
            .collect();
        self.unmapped.retain(|&(offset, identifier)| {
            let id = ties.at(offset, identifier);
            let known = id
                .and_then(|id| by_id.get(&id))
                .map(|&at| &mut functions[at]);
            let Some(known) = known.filter(|known| !known.named) else {
                return false;
            };
            known.function.name = identifier.to_string();
            true
        });
        let labels = self.of_label.into_iter();
        let labels = labels.map(|(label, at)| (label, self.functions[at].function.id));
        let map = FunctionMap {
            identifiers: self.ties,
            labels: labels.collect(),
        };
        let listed = self.functions.into_iter().filter(|known| known.listed);
        let mut functions: Vec<Function> = listed.map(|known| known.function).collect();
        functions.sort_by_key(|function| function.id);
        (functions, map, self.unmapped)
    }
}
