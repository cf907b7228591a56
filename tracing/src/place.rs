//! Places of the program that make spans or events, with the sites that the recorder has for them. A place is known from
//! the first time that `tracing` shows it while the recorder is up. It is found by the address of its metadata, without
//! a lock, and is never freed.

use std::iter::successors;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use fdr::dynamic::{CallSite, Level, SITES_OF_TASKS, register};
use tracing_core::field::Field;
use tracing_core::{Level as Importance, Metadata};

/// Where spans or events come from.
pub(crate) struct SpanSource {
    pub(crate) metadata: &'static Metadata<'static>,
    /// The site of its calls or events. The sites of tasks and of fields stand behind it.
    pub(crate) site: &'static CallSite,
    /// The same site; for a span, also the sites of its tasks.
    pub(crate) sites: &'static [CallSite],
    /// The names of its fields.
    fields: &'static [CallSite],
    pub(crate) level: Level,
    /// How many of its spans ended after one entry, up to [`MAX_SINGLE_ENTRIES`]. Or [`TASKS`]: its spans are tasks.
    once: AtomicU32,
    next: Next,
}

/// The next place whose address has the same bucket.
type Next = OnceLock<&'static SpanSource>;

const BUCKETS: usize = 1024;

static PLACES: [Next; BUCKETS] = [const { OnceLock::new() }; BUCKETS];

/// Held while a place is added.
static ADDING: Mutex<()> = Mutex::new(());

/// The spans of the place are tasks.
const TASKS: u32 = u32::MAX;

/// After this many spans that were entered only once, the spans of the place count as calls.
const MAX_SINGLE_ENTRIES: u32 = 8;

/// How the spans of a place are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not known yet: each span may become a task.
    NotKnown,
    /// Each one is entered once.
    Calls,
    /// They are entered several times.
    Tasks,
}

/// The place of that metadata, if it is known.
#[inline]
pub(crate) fn find(metadata: &Metadata<'_>) -> Option<&'static SpanSource> {
    let key = ptr::from_ref(metadata).addr();
    chain(key).find(|place| place.key() == key)
}

/// The place of that metadata.
pub(crate) fn find_or_add(metadata: &'static Metadata<'static>) -> &'static SpanSource {
    find(metadata).unwrap_or_else(|| {
        let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        find(metadata).unwrap_or_else(|| add(metadata))
    })
}

fn bucket(key: usize) -> &'static Next {
    // Metadata are 8-byte aligned statics of more than 100 bytes.
    let mixed = (key >> 3) ^ (key >> 13);
    &PLACES[mixed % BUCKETS]
}

fn chain(key: usize) -> impl Iterator<Item = &'static SpanSource> {
    let first = bucket(key).get().copied();
    successors(first, |place| place.next.get().copied())
}

#[cold]
fn add(metadata: &'static Metadata<'static>) -> &'static SpanSource {
    let place: &'static SpanSource = Box::leak(Box::new(SpanSource::new(metadata)));
    let last = chain(place.key()).last();
    let end = last.map_or_else(|| bucket(place.key()), |last| &last.next);
    // No other thread adds places meanwhile.
    let _ = end.set(place);
    place
}

impl SpanSource {
    fn new(metadata: &'static Metadata<'static>) -> SpanSource {
        let names: Vec<&'static str> = std::iter::once(name_of(metadata))
            .chain(metadata.fields().iter().map(|field| field.name()))
            .collect();
        let names: &'static [&'static str] = names.leak();
        let named = |name: &'static &'static str| {
            let file = metadata.file().unwrap_or_default();
            CallSite::new::<()>(file, metadata.line().unwrap_or_default()).named(name)
        };
        let mut sites = Vec::new();
        for (at, name) in names.iter().enumerate() {
            match at {
                0 if metadata.is_span() => sites.extend(named(name).with_tasks()),
                0 => sites.push(named(name).event()),
                _ => sites.push(CallSite::new::<()>("", 0).named(name).only_name()),
            }
        }
        let own = if metadata.is_span() {
            SITES_OF_TASKS
        } else {
            1
        };
        let (sites, fields) = register(sites).split_at(own);
        SpanSource {
            metadata,
            site: &sites[0],
            sites,
            fields,
            level: level_of(*metadata.level()),
            once: AtomicU32::new(0),
            next: OnceLock::new(),
        }
    }

    fn key(&self) -> usize {
        ptr::from_ref(self.metadata).addr()
    }

    /// How many fields its spans or events may have.
    pub(crate) fn fields(&self) -> usize {
        self.fields.len()
    }

    /// The name of a field.
    #[inline]
    pub(crate) fn name(&self, field: &Field) -> Option<&'static CallSite> {
        self.fields.get(field.index())
    }

    /// How the spans of this place are recorded.
    pub(crate) fn kind(&self) -> Kind {
        match self.once.load(Ordering::Relaxed) {
            TASKS => Kind::Tasks,
            MAX_SINGLE_ENTRIES.. => Kind::Calls,
            _ => Kind::NotKnown,
        }
    }

    /// A span was entered again.
    pub(crate) fn has_tasks(&self) {
        self.once.store(TASKS, Ordering::Relaxed);
    }

    /// A span has ended that was entered once.
    pub(crate) fn had_call(&self) {
        let once = self.once.load(Ordering::Relaxed);
        if once < MAX_SINGLE_ENTRIES {
            let more = once + 1;
            // If another thread changes it meanwhile, that counts.
            let change = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = self.once.compare_exchange(once, more, change.0, change.1);
        }
    }
}

/// `target::name`. For an event without a name of its own, the file and the line replace the name.
fn name_of(metadata: &'static Metadata<'static>) -> &'static str {
    let (target, name) = (metadata.target(), metadata.name());
    let place = metadata.file().zip(metadata.line());
    let name = match place.filter(|_| !metadata.is_span() && has_no_name(name)) {
        Some((file, line)) => {
            let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
            format!("{target}::{file}:{line}")
        }
        None => format!("{target}::{name}"),
    };
    name.leak()
}

/// Whether `tracing` made the name of an event from its file and line.
fn has_no_name(name: &str) -> bool {
    name.starts_with("event ") || name.starts_with("enabled ")
}

fn level_of(importance: Importance) -> Level {
    match importance {
        Importance::ERROR => Level::Error,
        Importance::WARN => Level::Warn,
        Importance::INFO => Level::Info,
        Importance::DEBUG => Level::Debug,
        Importance::TRACE => Level::Trace,
    }
}
