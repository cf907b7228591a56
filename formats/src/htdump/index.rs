//! The first pass over a file: record by record, by the klasses that were announced before, and over
//! what is damaged. Must never read a record whose size it only guesses.

use std::collections::HashSet;

use super::gather::{Gathered, Index, Told};
use super::meaning::{Label, Meaning};
use super::record::{self, HEADER_SIZE, Header, MAX_RECORD};
use super::schema::{Schema, shown};
use super::scout::Scout;
use super::walk::{Event, Found, Tables, Walker};
use crate::bytes::{ByteOrder, ReadAt};
use crate::error::Error;

pub(super) const WINDOW: usize = 256 * 1024;
/// Reads all of a file.
pub(super) fn index(file: &dyn ReadAt) -> Result<Index, Error> {
    let mut head = [0; 64];
    let count = file.read_at(0, &mut head)?;
    let Some(order) = record::order(&head[..count]) else {
        let what = "no HTDUMP: it begins neither with a byte order nor with HawkTracer's klasses";
        return Err(Error::format(0, what));
    };
    let mut indexer = Indexer {
        tables: Tables::default(),
        learner: Learner {
            schema: Schema::new(),
            checked: HashSet::new(),
            last: None,
            generation: 0,
        },
        gathered: Gathered::default(),
    };
    if !head.starts_with(&[0; 4]) {
        let what = format!(
            "the stream does not begin with its byte order: taken for {}-endian",
            word(order)
        );
        indexer.gathered.told.add(0, what);
    }
    indexer.tables.set_order(0, order);
    indexer.file(file)?;
    let Indexer {
        tables, gathered, ..
    } = indexer;
    Ok(gathered.finish(tables))
}

/// The name of a byte order.
pub(super) fn word(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little",
        ByteOrder::Big => "big",
    }
}

/// Makes layouts when the first record of a klass comes, and when a klass has changed.
struct Learner {
    schema: Schema,
    /// Klasses whose layout is that of the schema's generation.
    checked: HashSet<u32>,
    last: Option<u32>,
    generation: u64,
}

impl Learner {
    /// Sees to it that records of the klass can be read from here on. Returns whether they lie in
    /// another way than before, or why they can't be read.
    fn prepare(&mut self, klass: u32, offset: u64, tables: &mut Tables) -> Result<bool, String> {
        if self.generation != self.schema.generation {
            self.generation = self.schema.generation;
            (self.checked, self.last) = (HashSet::new(), None);
        }
        if self.last == Some(klass) {
            return Ok(false);
        }
        let mut is_new = false;
        if !self.checked.contains(&klass) {
            let layout = self.schema.layout(klass)?;
            is_new = tables.layout(klass, offset) != Some(&layout);
            if is_new && !tables.learn(klass, offset, layout) {
                return Err("klasses change more often than any program's".to_owned());
            }
            self.checked.insert(klass);
        }
        self.last = Some(klass);
        Ok(is_new)
    }

    /// Takes in the description of a klass, where the record is one.
    fn take(&mut self, event: &Event<'_>, told: &mut Told) {
        let text = |name| String::from_utf8_lossy(event.text(name));
        match event.layout.meaning {
            Meaning::Klass => {
                let (id, count) = (event.named("info_klass_id"), event.named("field_count"));
                let name = text("event_klass_name");
                self.schema.announce(id as u32, &name, count as u8);
            }
            Meaning::Field => {
                let (type_name, name) = (text("field_type"), text("field_name"));
                let described = self.schema.describe(
                    event.named("info_klass_id") as u32,
                    &type_name,
                    &name,
                    event.named("size"),
                    event.named("data_type") as u8,
                );
                if let Err(what) = described {
                    told.add(event.offset, what);
                }
            }
            _ => {}
        }
    }
}

/// Says what is odd about a layout, at the first record that has it.
fn tell(event: &Event<'_>, told: &mut Told) {
    let (layout, klass, offset) = (event.layout, event.header.klass, event.offset);
    let name = shown(&layout.name);
    if layout.assumed {
        let what = format!("klass {klass} was not announced: read as HawkTracer's {name}");
        told.add(offset, what);
    }
    let Meaning::Call { label, .. } = layout.meaning else {
        return;
    };
    let is_label = |at| matches!(label, Label::Text(label) if label == at);
    let places = layout.places.iter().enumerate();
    let left: Vec<String> = places
        .filter(|&(at, place)| !place.kind.is_number() && !is_label(at))
        .map(|(_, place)| shown(&place.name))
        .take(3)
        .collect();
    if !left.is_empty() {
        let left = left.join(", ");
        let what =
            format!("calls of klass {name} have fields that are no numbers: {left}; left out");
        told.add(offset, what);
    }
}

struct Indexer {
    tables: Tables,
    learner: Learner,
    gathered: Gathered,
}

impl Indexer {
    fn file(&mut self, file: &dyn ReadAt) -> Result<(), Error> {
        let mut walker = Walker::new(file, WINDOW);
        let mut scout = Scout::new(file);
        let (mut offset, size) = (0, file.size());
        while offset < size {
            let next = scout.after(offset)?;
            let (end, is_last) = (next.unwrap_or(size), next.is_none());
            let what = match self.record(&mut walker, offset, end, is_last)? {
                Ok(bytes) => {
                    offset += bytes;
                    continue;
                }
                Err(what) => what,
            };
            // Records have no size, so the next that is sure to be one is where a stream begins.
            let to = next.unwrap_or(size);
            let up_to = if next.is_some() {
                format!("up to byte {to}, where another stream begins")
            } else {
                "up to the end".to_owned()
            };
            let left = to - offset;
            let what = format!("{what}: {left} bytes are left out, {up_to}");
            self.gathered.told.add(offset, what);
            self.tables.skip(offset, to);
            offset = to;
        }
        Ok(())
    }

    /// Takes in the record at `offset`, which must end at `end` at the latest, where another stream
    /// begins if it is not the last. Returns its bytes, or what is wrong.
    fn record(
        &mut self,
        walker: &mut Walker<'_>,
        offset: u64,
        end: u64,
        is_last: bool,
    ) -> Result<Result<u64, String>, Error> {
        let order = self.tables.order(offset);
        let view = walker.view(offset, HEADER_SIZE)?;
        let Some(Header { klass, .. }) = Header::decode(view, order) else {
            return Ok(Err("the file ends within a record's header".to_owned()));
        };
        let is_new = match self.learner.prepare(klass, offset, &mut self.tables) {
            Ok(is_new) => is_new,
            Err(what) => return Ok(Err(format!("{what}, so its records have no known size"))),
        };
        // Not looked at: it may be long, and others like it may follow behind the next beginning.
        let least = self.tables.layout(klass, offset);
        let least = least.map_or(0, |layout| layout.least as u64);
        if !is_last && least > end - offset {
            return Ok(Err(format!("a record of klass {klass} is not whole")));
        }
        let (size, order) = match walker.at(offset, &self.tables)? {
            Found::Event(event) if event.size() > end - offset => {
                return Ok(Err(format!("a record of klass {klass} is not whole")));
            }
            Found::Event(event)
                if event.layout.meaning == Meaning::Endianness && event.named("endianness") > 1 =>
            {
                let order = event.named("endianness");
                return Ok(Err(format!("byte order {order} is neither 0 nor 1")));
            }
            Found::Event(event) => {
                let told = &mut self.gathered.told;
                if is_new {
                    tell(&event, told);
                }
                self.learner.take(&event, told);
                (event.size(), self.gathered.take(&event))
            }
            Found::Cut => {
                return Ok(Err(format!(
                    "the file ends within a record of klass {klass}"
                )));
            }
            Found::Long => {
                let limit = MAX_RECORD >> 20;
                return Ok(Err(format!(
                    "a record of klass {klass} is longer than {limit} MiB"
                )));
            }
            Found::Unknown(klass) => {
                return Ok(Err(format!("klass {klass} was not announced")));
            }
        };
        if let Some(order) = order {
            self.tables.set_order(offset + size, order);
        }
        Ok(Ok(size))
    }
}
