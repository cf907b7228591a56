//! The strings of history.bin: their places, and the function that each stands for.

use std::collections::{HashMap, HashSet};

use super::meta::Meta;
use super::record::{Header, Kind, MAX_SIZE, MIN_SIZE, decode_interval};
use super::strings::label;
use crate::bytes::{ReadAt, Window};
use crate::error::{DiagnosticList, Error};
use crate::model::{Function, FunctionId};

const HISTORY: &str = "history.bin";
/// Bytes of a string that are read.
const MAX_STRING: usize = 1 << 20;
/// The most strings that are named in a file that has lost its strings.
const MAX_LOST: u64 = 1 << 16;

/// Where the strings are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StringRange {
    pub(super) from: u64,
    /// End of the last whole string.
    pub(super) to: u64,
    /// The number of complete strings.
    pub(super) complete: u64,
    /// The number of strings that intervals may refer to.
    pub(super) count: u64,
}

/// Finds the strings by the header, and reports faults. False: the end of the intervals is unknown.
pub(super) fn find(
    bytes: &dyn ReadAt,
    header: &Header,
    kinds: &[Kind],
    from: u64,
    diagnostics: &mut DiagnosticList,
) -> Result<(StringRange, bool), Error> {
    let (size, stated) = (bytes.size(), header.strings_offset);
    let inside = from <= stated && stated <= size;
    let mut place = walk(bytes, if inside { stated } else { size })?;
    if inside && place.to == size {
        if place.complete != header.strings {
            let what = format!(
                "{} strings, it says; there are {}",
                header.strings, place.complete
            );
            diagnostics.add_in(HISTORY, 56, &what);
        }
        return Ok((place, true));
    }
    let counted = after_intervals(bytes, header, kinds, from)?;
    if let Some(counted) = counted {
        let found = walk(bytes, counted)?;
        if found.to == size && found.complete == header.strings {
            let what = format!("the strings are at byte {counted}, not {stated} as it says");
            diagnostics.add_in(HISTORY, 48, &what);
            return Ok((found, true));
        }
    }
    place.count = header
        .strings
        .min(MAX_LOST.max(size / 4))
        .max(place.complete);
    let (known, stated_count) = (place.complete, header.strings);
    let what = match inside {
        true => {
            format!("{known} of {stated_count} strings can be read, the rest is cut or damaged")
        }
        false if stated > size => {
            format!("the file should have more than {stated} bytes, but ends before its strings")
        }
        false => format!("the strings are at byte {stated}, it says, which is in the header"),
    };
    diagnostics.add_in(HISTORY, place.to, &what);
    Ok((place, inside || stated > size))
}

/// Goes over the strings, as long as they are whole.
fn walk(bytes: &dyn ReadAt, from: u64) -> Result<StringRange, Error> {
    let mut window = Window::new(bytes, 64 * 1024);
    let (mut at, mut complete, end) = (from, 0, bytes.size());
    while let Some(size) = window.at(at, 4, end)?.first_chunk() {
        let next = at + 4 + u64::from(u32::from_le_bytes(*size));
        if next > end {
            break;
        }
        (at, complete) = (next, complete + 1);
    }
    let count = complete;
    Ok(StringRange {
        from,
        to: at,
        complete,
        count,
    })
}

/// The end of the intervals, if each of them is whole.
fn after_intervals(
    bytes: &dyn ReadAt,
    header: &Header,
    kinds: &[Kind],
    from: u64,
) -> Result<Option<u64>, Error> {
    let mut window = Window::new(bytes, 64 * 1024);
    let (mut at, end) = (from, bytes.size());
    if header.intervals > end / MIN_SIZE as u64 {
        return Ok(None);
    }
    for _ in 0..header.intervals {
        match decode_interval(window.at(at, MAX_SIZE, end)?, kinds) {
            Ok((_, size)) => at += size as u64,
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// A string as it was found.
pub(super) struct StringEntry<'a> {
    pub(super) number: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) text: &'a str,
    /// The fault of the string.
    pub(super) fault: Option<&'static str>,
}

/// Visits the readable strings until the visitor says false.
pub(super) fn each(
    bytes: &dyn ReadAt,
    place: StringRange,
    visit: &mut dyn FnMut(&StringEntry<'_>) -> bool,
) -> Result<(), Error> {
    let mut window = Window::new(bytes, MAX_STRING + 4);
    let mut at = place.from;
    for number in 0..place.complete {
        let Some(&size) = window.at(at, 4, place.to)?.first_chunk() else {
            break;
        };
        let size = u64::from(u32::from_le_bytes(size));
        let shown = usize::try_from(size).unwrap_or(MAX_STRING).min(MAX_STRING);
        let view = window.at(at + 4, shown, place.to)?;
        let view = view.get(..shown).unwrap_or(view);
        let text = String::from_utf8_lossy(view);
        let fault = if size > MAX_STRING as u64 {
            Some("a string of more than 1 MiB; its beginning is taken")
        } else if matches!(text, std::borrow::Cow::Owned(_)) {
            Some("a string is no UTF-8; what is not is U+FFFD")
        } else {
            None
        };
        let found = StringEntry {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            offset: at,
            size: 4 + size,
            text: &text,
            fault,
        };
        if !visit(&found) {
            break;
        }
        at += 4 + size;
    }
    Ok(())
}

/// The function of each string.
pub(super) struct Names {
    /// The functions of meta.json, sorted.
    functions: Vec<Function>,
    /// The functions that the trace has no number for.
    invented: Vec<Function>,
    /// The function of a string, by the number in meta.json.
    by_number: HashMap<u32, FunctionId>,
    by_name: HashMap<String, FunctionId>,
    used_ids: HashSet<FunctionId>,
    /// The number for the next function that the trace does not list.
    next: u32,
}

impl Names {
    /// The names of the functions in meta.json.
    pub(super) fn new(meta: &Meta) -> Names {
        let functions = meta.info.functions.clone();
        let mut by_name = HashMap::new();
        for function in &functions {
            by_name.entry(label(function)).or_insert(function.id);
        }
        let listed = functions.iter().map(|function| function.id);
        let others = meta.strings.iter().map(|&(_, id)| id);
        Names {
            by_number: meta.strings.iter().copied().collect(),
            by_name,
            used_ids: listed.chain(others).collect(),
            functions,
            invented: Vec::new(),
            next: 1,
        }
    }

    /// The function of a string, and whether meta.json agrees.
    pub(super) fn function(&mut self, number: u32, text: &str) -> (FunctionId, bool) {
        let stated = self.by_number.get(&number).copied();
        if let Some(id) = stated.filter(|&id| self.is_called(id, text)) {
            return (id, true);
        }
        let agrees = stated.is_none();
        if let Some(&id) = self.by_name.get(text) {
            return (id, agrees);
        }
        // The name of a function without a name.
        let bare = text
            .strip_prefix('#')
            .and_then(|number| number.parse().ok());
        let bare = bare.map(FunctionId).filter(|id| id.to_string() == text);
        match bare.filter(|id| !self.used_ids.contains(id)) {
            Some(id) => (id, agrees),
            None => (self.invent(text), agrees),
        }
    }

    fn is_called(&self, id: FunctionId, text: &str) -> bool {
        let place = self
            .functions
            .binary_search_by_key(&id, |function| function.id);
        match place.ok().and_then(|place| self.functions.get(place)) {
            Some(function) => label(function) == text,
            None => id.to_string() == text,
        }
    }

    /// The function of a string that can't be read.
    pub(super) fn without_text(&mut self, number: u32) -> FunctionId {
        match self.by_number.get(&number) {
            Some(&id) => id,
            None => self.invent(&format!("(string {number} of {HISTORY})")),
        }
    }

    fn invent(&mut self, name: &str) -> FunctionId {
        while self.used_ids.contains(&FunctionId(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let id = FunctionId(self.next);
        self.used_ids.insert(id);
        self.by_name.insert(name.to_owned(), id);
        self.invented.push(Function {
            id,
            name: name.to_owned(),
            ..Function::default()
        });
        id
    }

    /// All functions, sorted by their number.
    pub(super) fn finish(mut self) -> Vec<Function> {
        self.functions.append(&mut self.invented);
        self.functions.sort_by_key(|function| function.id);
        self.functions
    }
}
