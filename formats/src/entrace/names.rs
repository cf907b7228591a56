//! Functions by the metadata of their calls. Each is kept once, however often it is called.

use std::collections::{HashMap, HashSet};

use super::entry::{Decoded, Entry, Value, encode_metadata};
use super::facts;
use crate::model::{Function, FunctionId};

/// Which function an entry's metadata stands for.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By the metadata's bytes. More than one, where a number was written in more bytes than it
    /// needs.
    by_metadata: HashMap<Box<[u8]>, FunctionId>,
    known: HashSet<FunctionId>,
    functions: Vec<Function>,
    /// Calls of functions that the file does not describe: a number is chosen when all are known.
    open: Vec<(Box<[u8]>, Function)>,
    open_places: HashMap<Box<[u8]>, usize>,
}

impl Names {
    /// A function that the file describes.
    pub(super) fn describe(&mut self, function: Function) {
        let label = facts::label(function.id);
        let name = if function.name.is_empty() {
            &label
        } else {
            &function.name
        };
        let metadata = facts::metadata(name, &function.file, function.line);
        let mut key = Vec::new();
        encode_metadata(&metadata, &mut key);
        self.by_metadata.entry(key.into()).or_insert(function.id);
        if self.known.insert(function.id) {
            self.functions.push(function);
        }
    }

    /// A call, seen for the first time or again.
    pub(super) fn call(&mut self, decoded: &Decoded<'_>) {
        let Entry { metadata, .. } = &decoded.entry;
        let function = || Function {
            id: FunctionId(0),
            name: metadata.name.to_owned(),
            file: metadata.file.unwrap_or_default().to_owned(),
            line: metadata.line.unwrap_or_default(),
        };
        if let Some(id) = numbered(&decoded.entry) {
            let nameless = facts::labelled(metadata) == Some(id);
            if self.known.insert(id) && !nameless {
                let function = function();
                self.functions.push(Function { id, ..function });
            }
            return;
        }
        let key = decoded.metadata;
        if self.by_metadata.contains_key(key) || self.open_places.contains_key(key) {
            return;
        }
        let mut shortest = Vec::new();
        encode_metadata(metadata, &mut shortest);
        if let Some(&id) = self.by_metadata.get(&*shortest) {
            self.by_metadata.insert(key.into(), id);
        } else if let Some(id) = facts::labelled(metadata).filter(|id| !self.known.contains(id)) {
            self.by_metadata.insert(key.into(), id);
        } else {
            self.open_places.insert(key.into(), self.open.len());
            self.open.push((shortest.into(), function()));
        }
    }

    /// Chooses numbers for functions that the file does not describe, and gives all functions,
    /// sorted by number.
    pub(super) fn settle(&mut self) -> Vec<Function> {
        let mut next = 1;
        let taken: HashSet<FunctionId> = self.by_metadata.values().copied().collect();
        let mut chosen: HashMap<Box<[u8]>, FunctionId> = HashMap::new();
        let mut ids = Vec::new();
        for (shortest, function) in std::mem::take(&mut self.open) {
            // The description may have come after the call.
            let known = self.by_metadata.get(&shortest).or(chosen.get(&shortest));
            if let Some(&id) = known {
                ids.push(id);
                continue;
            }
            let free = |id: &u32| {
                let id = FunctionId(*id);
                !self.known.contains(&id) && !taken.contains(&id)
            };
            let id = FunctionId((next..u32::MAX).find(free).unwrap_or(u32::MAX));
            next = id.0.saturating_add(1);
            self.functions.push(Function { id, ..function });
            chosen.insert(shortest, id);
            ids.push(id);
        }
        for (key, place) in std::mem::take(&mut self.open_places) {
            let id = ids.get(place).copied().unwrap_or_default();
            self.by_metadata.insert(key, id);
        }
        let mut functions = std::mem::take(&mut self.functions);
        functions.sort_by_key(|function| function.id);
        functions
    }

    /// The function of a call. Every call has been seen.
    #[inline]
    pub(super) fn function(&self, decoded: &Decoded<'_>) -> FunctionId {
        if let Some(id) = numbered(&decoded.entry) {
            return id;
        }
        let id = self.by_metadata.get(decoded.metadata);
        id.copied().unwrap_or_default()
    }
}

/// The number that an entry gives its function itself.
#[inline]
fn numbered(entry: &Entry<'_>) -> Option<FunctionId> {
    match entry.attribute("function") {
        Some(Value::U64(id)) => u32::try_from(id).ok().map(FunctionId),
        _ => None,
    }
}
