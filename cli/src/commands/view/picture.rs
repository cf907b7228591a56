//! What a picture shows of a thread in a stretch of time, for a number of pixels. Calls that are shorter than a
//! pixel are joined. States, gaps and events are shown, too.

use std::sync::Arc;

use fdr_formats::calls::{CallStack, EndedCall, OpenCall, Untimed};
use fdr_formats::states::{States, Stay};
use fdr_formats::{Call, Edge, Error, Mark, Sink, Source, ThreadId, Ticks};
use foldhash::HashSet;

use super::cpus::CpuStay;
use super::filler::{frames, item_of};
use super::index::{Index, Sign};
use super::pyramid::{Item, MAX_DEPTH, Run};
use super::stretch;
use super::waits::Wait;

/// The most calls of a thread that are searched for a picture, so that calls that match the search are seen.
const MAX_SEARCHED: usize = 2_000_000;

/// What is drawn of one thread.
#[derive(Debug, Default)]
pub(super) struct Picture {
    /// Calls by depth.
    pub(super) rows: Vec<Vec<Item>>,
    pub(super) states: Vec<Stay>,
    pub(super) signs: Vec<(u64, Sign)>,
    pub(super) cpus: Vec<CpuStay>,
    pub(super) waits: Vec<Wait>,
    /// Until when the thread was read.
    pub(super) until: Option<u64>,
    /// Calls that are shorter than this number of ticks are joined, even if they are wider than a pixel.
    pub(super) coarse: u64,
}

/// Rows whose short calls are joined.
pub(super) struct Rows {
    done: Vec<Vec<Item>>,
    pending: Vec<Option<Run>>,
    pixel: u64,
    /// Functions that are looked for: a run with a call of one of them has its colour.
    found: HashSet<u32>,
}

impl Rows {
    pub(super) fn new(pixel: u64) -> Rows {
        Rows::with_found(pixel, &HashSet::default())
    }

    fn with_found(pixel: u64, found: &HashSet<u32>) -> Rows {
        Rows {
            done: Vec::new(),
            pending: Vec::new(),
            pixel,
            found: found.clone(),
        }
    }

    pub(super) fn push(&mut self, depth: usize, item: Item) {
        if depth >= MAX_DEPTH {
            return;
        }
        if self.done.len() <= depth {
            self.done.resize_with(depth + 1, Vec::new);
            self.pending.resize(depth + 1, None);
        }
        let pending = &mut self.pending[depth];
        if item.ticks() >= self.pixel {
            self.done[depth].extend(pending.take().map(|run| run.item));
            self.done[depth].push(item);
            return;
        }
        let (pixel, found) = (self.pixel, &self.found);
        if let Some(run) = pending {
            let before = run.item.function;
            if run.extend(&item, pixel) {
                let functions = [before, item.function];
                let is_found = functions.into_iter().find(|of| found.contains(of));
                run.item.function = is_found.unwrap_or(run.item.function);
                return;
            }
        }
        let earlier = pending.replace(Run::new(item));
        self.done[depth].extend(earlier.map(|run| run.item));
    }

    pub(super) fn finish(mut self) -> Vec<Vec<Item>> {
        for (row, pending) in self.done.iter_mut().zip(self.pending) {
            row.extend(pending.map(|run| run.item));
        }
        self.done
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewport {
    pub(super) from: u64,
    pub(super) to: u64,
    /// Ticks of a pixel.
    pub(super) pixel: u64,
}

/// Draws a thread.
///
/// # Errors
/// If the trace has to be read for it, and can't be.
pub(super) fn of_thread(
    source: &dyn Source,
    index: &Index,
    states: Option<&Arc<States>>,
    untimed: &Untimed,
    thread: usize,
    viewport: Viewport,
    found: &HashSet<u32>,
) -> Result<Picture, Error> {
    let mut picture = Picture::default();
    let Viewport { from, to, pixel } = viewport;
    let id = source.info().threads.get(thread).map(|thread| thread.id);
    let can_read_again = index.can_read_again(thread);
    let read_again = match index.line(thread) {
        None => return Ok(picture),
        Some(line) => {
            // In runs of other levels, calls that are looked for may be hidden.
            let lowest = line.pyramid.lowest();
            let has_all = !found.is_empty() && lowest.least == 0 && lowest.items() <= MAX_SEARCHED;
            let level = if has_all {
                lowest
            } else {
                line.pyramid.level(pixel)
            };
            let is_coarse = level.least > pixel.max(1);
            let read_again = is_coarse && can_read_again;
            let mut rows = Rows::with_found(pixel, found);
            for (depth, row) in level.rows.iter().enumerate().filter(|_| !read_again) {
                row.between(from, to)
                    .for_each(|item| rows.push(depth, item));
            }
            for (depth, frame) in line.open.iter().enumerate() {
                let item = Item::call(frame.start, line.last, frame.function, 0);
                rows.push(depth, item);
            }
            picture.rows = rows.finish();
            picture.until = (!line.is_done).then_some(line.last);
            picture.coarse = if is_coarse && !read_again {
                level.least
            } else {
                0
            };
            let first = line.signs.partition_point(|(time, _)| *time < from);
            // A gap may begin before.
            let first = first.saturating_sub(1);
            let signs = line.signs.get(first..).unwrap_or(&[]).iter();
            picture.signs = thin(signs.take_while(|(time, _)| *time <= to), pixel);
            picture.cpus = line.cpus.between(from, to, pixel);
            picture.waits = line.waits.between(from, to, pixel);
            read_again
        }
    };
    if read_again {
        picture.rows = deep(source, index, untimed, thread, viewport)?;
    }
    if let (Some(states), Some(id)) = (states, id) {
        picture.states = of_states(states, id, viewport);
    }
    Ok(picture)
}

/// One event for each pixel is enough; gaps and breaks stay.
fn thin<'a>(signs: impl Iterator<Item = &'a (u64, Sign)>, pixel: u64) -> Vec<(u64, Sign)> {
    let mut kept: Vec<(u64, Sign)> = Vec::new();
    let mut last = None;
    for sign in signs {
        let is_mark = matches!(sign.1, Sign::Gap { .. } | Sign::Break);
        let is_near = last.is_some_and(|last: u64| sign.0.saturating_sub(last) < pixel);
        if is_mark || !is_near {
            kept.push(*sign);
            if !is_mark {
                last = Some(sign.0);
            }
        }
    }
    kept
}

/// The states, where those shorter than a pixel are joined to the longest among them.
fn of_states(states: &States, thread: ThreadId, viewport: Viewport) -> Vec<Stay> {
    let mut kept: Vec<Stay> = Vec::new();
    let mut longest = 0;
    for stay in states.between(thread, Ticks(viewport.from), Ticks(viewport.to)) {
        let ticks = stay.until.since(stay.from).0;
        let joined = kept.last_mut().filter(|last| {
            let is_same = last.state == stay.state && last.cpu == stay.cpu;
            is_same || stay.until.since(last.from).0 < viewport.pixel
        });
        match joined {
            Some(last) => {
                if ticks > longest {
                    (last.state, last.cpu, longest) = (stay.state, stay.cpu, ticks);
                }
                last.until = stay.until;
            }
            None => {
                longest = ticks;
                kept.push(stay);
            }
        }
    }
    kept
}

/// The calls of a stretch that is read from the trace.
struct Reader<'a> {
    stack: CallStack<()>,
    rows: Rows,
    viewport: Viewport,
    end: Option<Ticks>,
    take: &'a mut dyn FnMut(&mut Rows, usize, Item),
}

impl Sink for Reader<'_> {
    fn calls(&mut self, calls: &[Call]) {
        let (rows, end, take) = (&mut self.rows, self.end, &mut self.take);
        let (from, to) = (self.viewport.from, self.viewport.to);
        for call in calls {
            if call.edge == Edge::Entry {
                self.stack.enter(call, ());
                continue;
            }
            let mut keep = |ended: EndedCall<()>, _: &mut [OpenCall<()>]| {
                let item = item_of(&ended, end);
                if item.end >= from && item.start <= to {
                    take(rows, ended.depth, item);
                }
            };
            self.stack.exit(call, &mut keep);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        match *mark {
            Mark::Lost { .. } => self.stack.lose(),
            Mark::Break { .. } => self.stack.doubt(),
            Mark::ShortCalls { time, calls, ticks } => {
                let start = self.stack.previous_edge().unwrap_or(time).0;
                let depth = self.stack.open().len();
                self.stack.short_calls(time, ticks);
                let item = Item::short(start, time.0.max(start), calls);
                if item.end >= self.viewport.from && item.start <= self.viewport.to {
                    (self.take)(&mut self.rows, depth, item);
                }
            }
            _ => {}
        }
    }
}

fn deep(
    source: &dyn Source,
    index: &Index,
    untimed: &Untimed,
    thread: usize,
    viewport: Viewport,
) -> Result<Vec<Vec<Item>>, Error> {
    let least = index
        .line(thread)
        .map_or(0, |line| line.pyramid.lowest().least);
    let mut take = |rows: &mut Rows, depth: usize, item: Item| rows.push(depth, item);
    let mut reader = Reader {
        stack: CallStack::new().with_untimed(untimed.clone()),
        rows: Rows::new(viewport.pixel),
        viewport,
        end: source.info().end,
        take: &mut take,
    };
    // A call of `least` ticks or more is in the index. Any other call that is open where the stretch ends, ends within
    // `least` ticks.
    let to = viewport.to.saturating_add(least);
    stretch::read(source, index, thread, (viewport.from, to), &mut reader)?;
    let (open, latest) = (
        frames(&reader.stack).collect::<Vec<_>>(),
        reader.stack.latest(),
    );
    let mut rows = reader.rows;
    if let Some(line) = index.line(thread) {
        let level = line.pyramid.lowest();
        for (depth, frame) in open
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.start <= viewport.to)
        {
            let known = level
                .rows
                .get(depth)
                .and_then(|row| row.starting(frame.start));
            let known = known.filter(|item| item.function == frame.function);
            let item = Item::call(frame.start, latest.0, frame.function, 0);
            rows.push(depth, known.unwrap_or(item));
        }
    }
    Ok(rows.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_the_searched_functions_colour() {
        // Three calls within a pixel of 100 ticks, the longest first, and one behind it.
        let calls = [(0, 50, 1), (60, 70, 2), (80, 99, 3), (200, 210, 1)];
        let drawn = |found: &[u32]| {
            let mut rows = Rows::with_found(100, &found.iter().copied().collect());
            for (start, end, function) in calls {
                rows.push(0, Item::call(start, end, function, 0));
            }
            let rows = rows.finish();
            let seen = rows[0].iter().map(|item| (item.function, item.calls()));
            seen.collect::<Vec<_>>()
        };
        assert_eq!(drawn(&[]), [(1, 3), (1, 1)]);
        assert_eq!(drawn(&[2]), [(2, 3), (1, 1)]);
        assert_eq!(drawn(&[3]), [(3, 3), (1, 1)]);
        assert_eq!(drawn(&[9]), [(1, 3), (1, 1)]);
    }
}
