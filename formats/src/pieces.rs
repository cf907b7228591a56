//! Decoding on several cores. Whole lanes are decoded at the same time. A larger lane is decoded in pieces,
//! so one busy thread of a program is read as fast as many.
//!
//! A piece goes into a sink that knows nothing of the earlier records. The sink keeps finished results
//! apart from the records that need the past. The pieces of a lane are joined in order, while later ones
//! are still being decoded. A piece cannot be joined if its beginning was a wrong guess, or if its records
//! need more of the past than the sink kept. Then it is decoded again, in its turn, into the joined sink.
//! So each sink ends with the result of a sink that got the whole lane. Must never give a sink figures that
//! depend on the places of the cuts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Diagnostic, Error};
use crate::model::{Call, Mark, Thread};
use crate::packed::Packed;
use crate::sink::Sink;
use crate::source::{Complaints, Part, Position, Source};

/// Bytes of a piece, least and most. A smaller piece is not worth the joining. A larger piece makes the
/// others wait for the last one.
const PIECE: std::ops::RangeInclusive<u64> = 4 << 20..=64 << 20;
/// Pieces in the hands of each worker, or waiting for earlier ones. They take memory.
const AHEAD: usize = 2;

/// The kind of events that a sink gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Lanes from their beginning.
    Lanes,
    /// A piece of one lane, without knowledge of earlier records.
    Piece,
}

/// A sink that can also take a piece of a lane.
pub trait Join: Sink + Send + Sized {
    /// Adds the findings of `piece`, a sink for [`Share::Piece`]. `false`: the piece can't be judged
    /// without the earlier records. Then `self` is unchanged, and the events come again.
    fn join(&mut self, piece: Self) -> bool;
}

/// How the work is divided between threads.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// The number of threads.
    pub jobs: usize,
    /// Least bytes of a piece.
    pub piece: u64,
}

impl Division {
    /// A division that suits the source, on this many threads.
    #[must_use]
    pub fn of(source: &dyn Source, jobs: usize) -> Division {
        let bytes: u64 = (0..source.lanes())
            .map(|lane| source.lane_bytes(lane))
            .sum();
        let share = bytes / (16 * jobs.max(1) as u64);
        let piece = share.clamp(*PIECE.start(), *PIECE.end());
        Division { jobs, piece }
    }
}

/// Decodes all lanes, the largest first, into sinks that `make` gives. There is one sink for each
/// worker, and one for each divided lane. A lane is never in two of the returned sinks.
///
/// # Errors
/// An error of a worker. The other workers finish their piece, and begin no more.
pub fn drive_pieces<S, F>(
    source: &dyn Source,
    division: Division,
    make: F,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<S>, Error>
where
    S: Join,
    F: Fn(Share) -> S + Sync,
{
    let (tasks, lanes) = plan(source, division)?;
    let crew = Crew {
        source,
        make: &make,
        progress,
        ahead: AHEAD * division.jobs.max(1),
        tasks,
        next: AtomicUsize::new(0),
        lanes,
    };
    let jobs = division.jobs.clamp(1, crew.tasks.len().max(1));
    let work = || {
        let end = Ended(&crew);
        let done = crew.work();
        if done.is_ok() {
            std::mem::forget(end);
        }
        done
    };
    let mut sinks = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..jobs).map(|_| scope.spawn(work)).collect();
        let mut sinks = vec![work()?];
        for worker in workers {
            match worker.join() {
                Ok(sink) => sinks.push(sink?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, Error>(sinks)
    })?;
    for lane in crew.lanes {
        let state = lane.state.into_inner();
        sinks.extend(state.unwrap_or_else(PoisonError::into_inner).joined);
    }
    Ok(sinks)
}

/// The unit of work that a worker takes.
enum Task {
    Lane(usize),
    /// A piece of a divided lane: the lane's place among divided ones, and the piece's number.
    Piece(usize, usize),
}

/// A divided lane.
struct Divided<S> {
    lane: usize,
    /// The beginnings of its pieces, except the first.
    cuts: Vec<Position>,
    state: Mutex<State<S>>,
    /// A piece was joined, or all work ends.
    moved: Condvar,
}

struct State<S> {
    /// Pieces that are joined.
    done: usize,
    /// Pieces that were decoded in vain.
    again: usize,
    /// `None` before the first piece, and while a worker joins.
    joined: Option<S>,
    joining: bool,
    /// The end of the joined pieces.
    reached: Position,
    complaints: Complaints,
    waiting: BTreeMap<usize, Option<Piece<S>>>,
    failed: bool,
}

/// A piece that was decoded by itself.
struct Piece<S> {
    sink: S,
    told: Vec<Diagnostic>,
    complaints: Complaints,
    reached: Position,
}

fn plan<S>(source: &dyn Source, division: Division) -> Result<(Vec<Task>, Vec<Divided<S>>), Error> {
    let mut order: Vec<(u64, usize)> = (0..source.lanes())
        .map(|lane| (source.lane_bytes(lane), lane))
        .collect();
    order.sort_by_key(|&(bytes, lane)| (std::cmp::Reverse(bytes), lane));
    let total: u64 = order.iter().map(|(bytes, _)| bytes).sum();
    let (mut tasks, mut lanes) = (Vec::new(), Vec::new());
    for (bytes, lane) in order {
        // Smaller lanes fill the gaps.
        let share = total / (2 * division.jobs.max(1) as u64);
        let large = division.jobs > 1 && bytes > share && bytes / 2 >= division.piece;
        let cuts = match large {
            true => source.cuts(lane, division.piece)?,
            false => Vec::new(),
        };
        if cuts.is_empty() {
            tasks.push(Task::Lane(lane));
            continue;
        }
        tasks.extend((0..=cuts.len()).map(|piece| Task::Piece(lanes.len(), piece)));
        let state = State {
            done: 0,
            again: 0,
            joined: None,
            joining: false,
            reached: Position::default(),
            complaints: Complaints::default(),
            waiting: BTreeMap::new(),
            failed: false,
        };
        lanes.push(Divided {
            lane,
            cuts,
            state: Mutex::new(state),
            moved: Condvar::new(),
        });
    }
    Ok((tasks, lanes))
}

struct Crew<'a, S, F> {
    source: &'a dyn Source,
    make: &'a F,
    progress: &'a (dyn Fn(u64) + Sync),
    /// How many pieces of a lane may be ahead of the joined ones.
    ahead: usize,
    tasks: Vec<Task>,
    next: AtomicUsize,
    lanes: Vec<Divided<S>>,
}

/// A worker that ends with an error or a panic ends the others too.
struct Ended<'a, 'b, S, F>(&'a Crew<'b, S, F>);

impl<S, F> Drop for Ended<'_, '_, S, F> {
    fn drop(&mut self) {
        self.0.next.store(self.0.tasks.len(), Ordering::Relaxed);
        for lane in &self.0.lanes {
            lane.lock().failed = true;
            lane.moved.notify_all();
        }
    }
}

impl<S: Join, F: Fn(Share) -> S + Sync> Crew<'_, S, F> {
    fn work(&self) -> Result<S, Error> {
        let mut own = (self.make)(Share::Lanes);
        // Relaxed: the counter hands out tasks and publishes nothing.
        while let Some(task) = self.tasks.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            match *task {
                Task::Lane(lane) => self.source.decode(lane, &mut own, self.progress)?,
                Task::Piece(lane, piece) => {
                    if let Some(lane) = self.lanes.get(lane) {
                        self.piece(lane, piece)?;
                    }
                }
            }
        }
        Ok(own)
    }

    /// Decodes a piece, and joins the pieces that can be joined.
    fn piece(&self, lane: &Divided<S>, piece: usize) -> Result<(), Error> {
        let Some(alone) = lane.turn(piece, self.ahead) else {
            return Ok(());
        };
        let decoded = match alone {
            true => Some(self.decode(lane, piece)?),
            false => None,
        };
        lane.lock().waiting.insert(piece, decoded);
        while let Some((piece, decoded, mut state)) = lane.take() {
            let mut joined = state.joined.take();
            drop(state);
            joined = Some(self.join(lane, piece, joined, decoded)?);
            state = lane.lock();
            (state.joined, state.joining) = (joined, false);
            lane.moved.notify_all();
        }
        Ok(())
    }

    fn decode(&self, lane: &Divided<S>, piece: usize) -> Result<Piece<S>, Error> {
        let share = match piece {
            0 => Share::Lanes,
            _ => Share::Piece,
        };
        let (mut sink, mut told) = ((self.make)(share), Vec::new());
        let mut complaints = Complaints::default();
        let mut aside = Aside {
            sink: &mut sink,
            told: &mut told,
        };
        let reached = self.source.decode_part(
            &lane.part(piece),
            &mut aside,
            &mut complaints,
            self.progress,
        )?;
        Ok(Piece {
            sink,
            told,
            complaints,
            reached,
        })
    }

    /// Adds the next piece of a lane to the earlier ones. No other worker is joining.
    fn join(
        &self,
        lane: &Divided<S>,
        piece: usize,
        joined: Option<S>,
        decoded: Option<Piece<S>>,
    ) -> Result<S, Error> {
        let (mut reached, mut complaints) = {
            let state = lane.lock();
            (state.reached, state.complaints)
        };
        let part = lane.part(piece);
        let (alone, mut again) = (decoded.is_some(), false);
        let mut sink = match (joined, decoded) {
            (None, Some(first)) => {
                let mut sink = first.sink;
                complaints.join(&first.complaints, first.told, &mut sink);
                reached = first.reached;
                sink
            }
            (joined, decoded) => {
                let mut sink = joined.unwrap_or_else(|| (self.make)(Share::Lanes));
                let fits = decoded.filter(|_| reached.confirms(&part.from));
                again = !fits.is_some_and(|piece| {
                    let fits = sink.join(piece.sink);
                    if fits {
                        complaints.join(&piece.complaints, piece.told, &mut sink);
                        reached = piece.reached;
                    }
                    fits
                });
                sink
            }
        };
        if again {
            let part = Part {
                from: reached,
                ..part
            };
            let done = &|_| {};
            reached = self
                .source
                .decode_part(&part, &mut sink, &mut complaints, done)?;
        }
        let is_last = piece == lane.cuts.len();
        if let Some(rest) = complaints.rest().filter(|_| is_last) {
            sink.diagnostic(rest);
        }
        let mut state = lane.lock();
        (state.reached, state.complaints) = (reached, complaints);
        state.done += 1;
        state.again += usize::from(again && alone);
        drop(state);
        Ok(sink)
    }
}

impl<S> Divided<S> {
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, piece: usize) -> Part {
        let from = piece
            .checked_sub(1)
            .and_then(|before| self.cuts.get(before));
        Part {
            lane: self.lane,
            from: from.copied().unwrap_or_default(),
            to: self.cuts.get(piece).copied(),
        }
    }

    /// Waits until the piece is not too far ahead. Returns whether to decode it by itself: not if half
    /// the pieces of this lane were decoded in vain. `None`: all work ends.
    fn turn(&self, piece: usize, ahead: usize) -> Option<bool> {
        let mut state = self.lock();
        loop {
            if state.failed {
                return None;
            }
            if piece < state.done + ahead {
                return Some(piece == 0 || state.again <= 2 + state.done / 2);
            }
            let waited = self.moved.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next piece, if it is there and no worker is joining. The caller is then the lane's only
    /// joiner.
    #[allow(clippy::type_complexity)]
    fn take(&self) -> Option<(usize, Option<Piece<S>>, MutexGuard<'_, State<S>>)> {
        let mut state = self.lock();
        let piece = state.done;
        if state.joining || state.failed {
            return None;
        }
        let decoded = state.waiting.remove(&piece)?;
        state.joining = true;
        Some((piece, decoded, state))
    }
}

/// The sink of a piece. It puts diagnostics aside, because only the first hundred problems of a lane are
/// reported.
struct Aside<'a, S> {
    sink: &'a mut S,
    told: &'a mut Vec<Diagnostic>,
}

impl<S: Sink> Sink for Aside<'_, S> {
    fn thread(&mut self, thread: &Thread) {
        self.sink.thread(thread);
    }

    fn calls(&mut self, calls: &[Call]) {
        self.sink.calls(calls);
    }

    fn packed(&mut self, packed: &Packed<'_>) {
        self.sink.packed(packed);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.sink.mark(mark);
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.told.push(diagnostic);
    }
}

#[cfg(test)]
#[path = "pieces_tests.rs"]
mod tests;
