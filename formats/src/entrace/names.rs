//! Functions by the metadata of their calls, and the texts that people see of an entry. Each function is kept once,
//! whatever the number of its calls.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::facts;
use super::record::{Decoded, Entry, Value, encode_metadata};
use crate::model::{Function, FunctionId};

/// The function of an entry's metadata.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By the metadata's bytes. A function has several keys if a number was written in more bytes than
    /// necessary.
    by_metadata: HashMap<Box<[u8]>, FunctionId>,
    described: HashSet<FunctionId>,
    functions: Vec<Function>,
    /// Calls of functions that the file does not describe. Their number is chosen when all functions are
    /// known.
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
        // A name of notes has no calls.
        if function.is_called() {
            self.by_metadata.entry(key.into()).or_insert(function.id);
        }
        if self.described.insert(function.id) {
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
            untimed: false,
            kind: Default::default(),
        };
        if let Some(id) = numbered(&decoded.entry) {
            let nameless = facts::labelled(metadata) == Some(id);
            if self.described.insert(id) && !nameless {
                let function = function();
                self.functions.push(Function { id, ..function });
            }
            return;
        }
        let key = decoded.metadata;
        if self.knows(key) {
            return;
        }
        let mut shortest = Vec::new();
        encode_metadata(metadata, &mut shortest);
        if let Some(&id) = self.by_metadata.get(&*shortest) {
            self.by_metadata.insert(key.into(), id);
        } else if let Some(id) = facts::labelled(metadata).filter(|id| !self.described.contains(id))
        {
            self.by_metadata.insert(key.into(), id);
        } else {
            self.open_places.insert(key.into(), self.open.len());
            self.open.push((shortest.into(), function()));
        }
    }

    /// Chooses numbers for functions that the file does not describe. Returns all functions, sorted by
    /// number.
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
                !self.described.contains(&id) && !taken.contains(&id)
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

    /// Whether a call had this metadata.
    pub(super) fn knows(&self, metadata: &[u8]) -> bool {
        self.by_metadata.contains_key(metadata) || self.open_places.contains_key(metadata)
    }

    /// The function of calls with this metadata and no number of their own.
    pub(super) fn by_metadata(&self, metadata: &[u8]) -> Option<FunctionId> {
        self.by_metadata.get(metadata).copied()
    }

    /// The function of a call. Every call has been seen.
    pub(super) fn function(&self, decoded: &Decoded<'_>) -> FunctionId {
        if let Some(id) = numbered(&decoded.entry) {
            return id;
        }
        self.by_metadata(decoded.metadata).unwrap_or_default()
    }
}

/// The number that an entry itself gives its function. An entry without a time is another program's, and
/// its attribute of that name has another meaning.
fn numbered(entry: &Entry<'_>) -> Option<FunctionId> {
    match entry.attribute("function") {
        Some(Value::U64(id)) if entry.attribute("start_ns").is_some() => {
            u32::try_from(id).ok().map(FunctionId)
        }
        _ => None,
    }
}

/// The most bytes of a text or of bytes that are shown.
const MAX_SHOWN_BYTES: usize = 64;

/// The message, and all attributes but unsigned numbers and those to `skip`.
pub(super) fn describe(entry: &Entry<'_>, skip: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    if let Some(message) = entry.message {
        text.push_str(message);
    }
    for (name, value) in &entry.attributes {
        // Crates that write this format give the message twice.
        let again = *name == "message" && entry.message.map(Value::String) == Some(*value);
        if again || skip(name) || matches!(value, Value::U64(_)) {
            continue;
        }
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}{name}=");
        put(&mut text, value, usize::MAX);
    }
    text
}

/// All attributes, for a line of the listing.
pub(super) fn attributes(text: &mut String, entry: &Entry<'_>) {
    for (name, value) in &entry.attributes {
        text.push(' ');
        short(text, name);
        text.push('=');
        put(text, value, MAX_SHOWN_BYTES);
    }
}

/// Text with invisible characters escaped, cut if it is long.
pub(super) fn short(text: &mut String, name: &str) {
    for letter in name.chars().take(MAX_SHOWN_BYTES) {
        text.extend(letter.escape_debug());
    }
    if name.chars().nth(MAX_SHOWN_BYTES).is_some() {
        text.push('…');
    }
}

fn put(text: &mut String, value: &Value<'_>, shown: usize) {
    let _ = match *value {
        Value::String(value) if shown == usize::MAX => write!(text, "{value:?}"),
        Value::String(value) => {
            text.push('"');
            short(text, value);
            text.push('"');
            Ok(())
        }
        Value::Bytes(bytes) => {
            text.push_str("0x");
            for byte in bytes.iter().take(shown) {
                let _ = write!(text, "{byte:02x}");
            }
            if bytes.len() > shown {
                text.push('…');
            }
            Ok(())
        }
        Value::Bool(value) => write!(text, "{value}"),
        Value::Float(value) => write!(text, "{value}"),
        Value::U64(value) => write!(text, "{value}"),
        Value::I64(value) => write!(text, "{value}"),
        Value::U128(value) => write!(text, "{value}"),
        Value::I128(value) => write!(text, "{value}"),
    };
}
