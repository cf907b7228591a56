//! The spans of the subscriber. Each has a slot. Its id has the number of the slot, and how often the slot was used. So
//! the id of an ended span finds nothing. Each slot has a lock, and only threads that use the same span wait for it. A
//! thread takes its own free slots first. Slots are never freed. No thread waits for free slots, because an allocator
//! may make spans, too.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use tracing_core::span::Id;

use crate::span::Span;

#[derive(Default)]
struct Slot(Mutex<Content>);

#[derive(Default)]
struct Content {
    /// How often the slot was used.
    uses: u32,
    /// How many handles of the span there are.
    handles: usize,
    span: Option<Span>,
}

const _: () = assert!(size_of::<Slot>() <= 120);

/// Slots of the first page. Each page has twice the slots of the one before.
const FIRST: u32 = 64;
const PAGES: usize = 25;

static SLOTS: [OnceLock<Box<[Slot]>>; PAGES] = [const { OnceLock::new() }; PAGES];

/// How many slots were ever used.
static USED: AtomicU32 = AtomicU32::new(0);

/// Free slots of no thread.
static FREE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// How many free slots go from a thread to the others, and back.
const BATCH: usize = 32;

/// Free slots of a thread.
struct FreeSlots(Vec<u32>);

thread_local! {
    static OWN: RefCell<FreeSlots> = const { RefCell::new(FreeSlots(Vec::new())) };
}

impl Drop for FreeSlots {
    fn drop(&mut self) {
        if let Some(mut free) = free() {
            free.append(&mut self.0);
        }
    }
}

/// The free slots that belong to no thread. `None` while another thread uses the list.
fn free() -> Option<MutexGuard<'static, Vec<u32>>> {
    match FREE.try_lock() {
        Ok(free) => Some(free),
        Err(TryLockError::Poisoned(free)) => Some(free.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn lock(slot: &Slot) -> MutexGuard<'_, Content> {
    slot.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a span, with one handle.
pub(crate) fn add(span: Span) -> Id {
    let own = OWN.try_with(|own| own.try_borrow_mut().ok()?.take());
    let number = own.ok().flatten().unwrap_or_else(new_number);
    let uses = slot(number).map_or(0, |slot| {
        let mut content = lock(slot);
        content.uses = content.uses.wrapping_add(1);
        content.handles = 1;
        content.span = Some(span);
        content.uses
    });
    // Not 0, because the number is not the largest one.
    Id::from_u64(u64::from(uses) << 32 | u64::from(number.saturating_add(1)))
}

impl FreeSlots {
    fn take(&mut self) -> Option<u32> {
        if let Some(mut free) = self.0.is_empty().then(free).flatten() {
            let from = free.len().saturating_sub(BATCH);
            self.0.extend(free.drain(from..));
        }
        self.0.pop()
    }

    fn give(&mut self, number: u32) {
        self.0.push(number);
        if let Some(mut free) = (self.0.len() > 2 * BATCH).then(free).flatten() {
            free.extend(self.0.drain(..BATCH));
        }
    }
}

fn new_number() -> u32 {
    let more = |used: u32| used.checked_add(1);
    // If there are no more slots, this number belongs to no slot.
    USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .unwrap_or(u32::MAX)
}

/// The slot of that number. `None`: the number is too large for a slot.
fn slot(number: u32) -> Option<&'static Slot> {
    let page = (number / FIRST + 1).ilog2();
    let slots = SLOTS.get(page as usize)?;
    let before = FIRST * ((1 << page) - 1);
    let slots = slots.get_or_init(|| {
        let slots = (0..FIRST << page).map(|_| Slot::default());
        slots.collect()
    });
    slots.get((number - before) as usize)
}

/// The content of the slot of a span. `None`: the span has ended, or its id comes from another subscriber.
fn content(id: &Id) -> Option<MutexGuard<'static, Content>> {
    let (number, uses) = (id.into_u64() as u32, (id.into_u64() >> 32) as u32);
    let number = number.checked_sub(1)?;
    // A page that is not used is not made.
    let known = number < USED.load(Ordering::Relaxed);
    let content = lock(slot(number).filter(|_| known)?);
    (content.uses == uses).then_some(content)
}

/// Does something with a span.
#[inline]
pub(crate) fn with<T>(id: &Id, with: impl FnOnce(&mut Span) -> T) -> Option<T> {
    content(id)?.span.as_mut().map(with)
}

/// There is one more handle of a span.
pub(crate) fn keep(id: &Id) {
    if let Some(mut content) = content(id) {
        content.handles += 1;
    }
}

/// There is one handle less of a span. If it was the last one, this gives the span.
pub(crate) fn release(id: &Id) -> Option<Span> {
    let span = {
        let mut content = content(id)?;
        content.handles = content.handles.saturating_sub(1);
        match content.handles {
            0 => content.span.take()?,
            _ => return None,
        }
    };
    let number = (id.into_u64() as u32).saturating_sub(1);
    let given = OWN.try_with(|own| {
        own.try_borrow_mut().is_ok_and(|mut own| {
            own.give(number);
            true
        })
    });
    if let Some(mut free) = (!given.unwrap_or(false)).then(free).flatten() {
        free.push(number);
    }
    Some(span)
}

#[cfg(test)]
mod tests {
    use tracing::{Level, span};

    use super::*;
    use crate::place::find_or_add;

    #[test]
    fn every_number_has_a_slot_of_its_own() {
        let numbers = [0, 1, 63, 64, 191, 192, 447, 448, 100_000];
        let slots = numbers.map(|number| std::ptr::from_ref(slot(number).expect("a slot")).addr());
        for (at, one) in slots.iter().enumerate() {
            assert!(slots.iter().skip(at + 1).all(|other| one != other));
        }
        assert!(slot(u32::MAX).is_none());
    }

    fn a_span() -> Span {
        // The subscriber of this thread alone, without which there are no metadata.
        let registry = tracing_subscriber::registry();
        let metadata = tracing::subscriber::with_default(registry, || {
            span!(Level::INFO, "a span").metadata().expect("metadata")
        });
        Span::new(find_or_add(metadata), None, 0)
    }

    #[test]
    fn the_id_of_an_ended_span_finds_nothing() {
        let id = add(a_span());
        keep(&id);
        assert!(release(&id).is_none(), "one handle is left");
        assert_eq!(with(&id, |span| span.task()), Some(0));
        assert!(release(&id).is_some());
        // The slot is used again, and the id is another one.
        let next = add(a_span());
        assert_eq!(next.into_u64() as u32, id.into_u64() as u32);
        assert_ne!(next, id);
        assert!(with(&id, |_| ()).is_none() && release(&id).is_none());
        keep(&id);
        assert!(release(&next).is_some());
        // Ids of anybody else.
        for id in [1, u64::from(u32::MAX), 1 << 32, u64::MAX, 1 << 31] {
            assert!(with(&Id::from_u64(id), |_| ()).is_none(), "{id}");
        }
    }

    #[test]
    fn spans_that_end_elsewhere_leave_their_slots() {
        let most = || USED.load(Ordering::Relaxed);
        let before = most();
        for _ in 0..20 {
            let ids: Vec<Id> = (0..100).map(|_| add(a_span())).collect();
            let end = move || ids.iter().all(|id| release(id).is_some());
            assert!(std::thread::spawn(end).join().expect("its end"));
        }
        // Each thread gives its slots back when it ends. Other tests use some.
        assert!(most() - before < 300, "{}", most() - before);
    }
}
