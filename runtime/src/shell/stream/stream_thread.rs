//! The work of the stream's thread: from the rings through the writers to the receivers. It reads one chunk of
//! each ring in turn, so no thread overwrites its ring while the ring of another one is emptied. If no receiver
//! can take anything, it reads nothing. The rings then keep what they can, and overwritten records are counted.
//! A thread of the program must never wait for this thread.

mod end;

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use core::sync::atomic::Ordering;

use fdr_formats::model::Thread;
use fdr_formats::xray::ChunkDecoder;
use fdr_formats::{Losses, ThreadId};

use super::control::{CONTROL, Totals};
use super::endpoint::Endpoint;
use super::receiver::{AllReceivers, Batch, Receiver, Sent};
use crate::dump::tail::{Next, Tail};
use crate::ring::Ring;
use crate::ring::counts;
use crate::ring::layout::{CHUNK, Slot, state};
use crate::shell::sites::TableHandle;
use crate::shell::state::State;
use crate::shell::trace_info;
use crate::sys;

/// A batch is handed over when it has this many function records, or after each round.
const BATCH: u64 = 32 * 1024;

/// How often chunks that are not filled are read.
const PARTIAL: Duration = Duration::from_millis(100);

/// How long to wait for receivers that are behind the others. It waits once for each.
const LAG: Duration = Duration::from_millis(20);

/// A thread of the program whose records are read.
struct Followed {
    tail: Tail,
    decoder: ChunkDecoder,
    thread: Thread,
    /// Whether any record of the thread was ever taken.
    was_received: Rc<Cell<bool>>,
}

/// The state of the stream's thread.
pub(super) struct StreamThread {
    ring: &'static Ring,
    state: &'static State,
    table: TableHandle,
    endpoint: Endpoint,
    receivers: Vec<Receiver>,
    slots: HashMap<usize, Followed>,
    buffer: Box<[u8; CHUNK]>,
    batch: Batch,
    /// Batches that some receiver has not taken yet.
    in_flight: Vec<Rc<Batch>>,
    totals: Totals,
    /// The reason why there is no trace.
    pub(super) failed: Option<io::Error>,
    pub(super) losses: Losses,
}

impl StreamThread {
    /// `place` is the path of the trace, if the trace is not sent to an address.
    pub(super) fn new(
        ring: &'static Ring,
        state: &'static State,
        table: TableHandle,
        place: PathBuf,
    ) -> StreamThread {
        let target = state.config.format.0;
        let endpoint = match state.config.address.clone() {
            Some(address) => Endpoint::to_address(target, address),
            None => Endpoint::to_path(target, place, state.output().makes_folders()),
        };
        let buffer = vec![0; CHUNK].into_boxed_slice();
        StreamThread {
            ring,
            state,
            table,
            endpoint,
            receivers: Vec::new(),
            slots: HashMap::new(),
            buffer: buffer.try_into().unwrap_or_else(|_| Box::new([0; CHUNK])),
            batch: Batch::default(),
            in_flight: Vec::new(),
            totals: Totals::default(),
            failed: None,
            losses: Losses::default(),
        }
    }

    /// Streams until the process ends.
    pub(super) fn run(&mut self) {
        let pause = pause(self.ring.region_size());
        let chunks = self.ring.region_size() / CHUNK;
        let mut last_partial = Instant::now();
        // Rounds since a flush or the end was asked for. After enough rounds, all records of that moment are
        // read.
        let mut rounds = 0;
        let mut end = None;
        loop {
            let wake_word = CONTROL.wake_word();
            let (stops, flush) = (CONTROL.stops(), CONTROL.pending_flush());
            self.accept_receivers();
            self.push();
            let partial = stops || flush.is_some() || last_partial.elapsed() >= PARTIAL;
            if partial {
                last_partial = Instant::now();
            }
            let more = self.round(partial);
            CONTROL.publish(self.totals, self.receivers.len());
            let idle = self.receivers.iter().all(Receiver::is_ready);
            rounds = if stops || flush.is_some() {
                rounds + usize::from(idle)
            } else {
                0
            };
            let done = self.receivers.is_empty() || idle && (!more || rounds > chunks + 1);
            if let Some(ticket) = flush.filter(|_| done) {
                CONTROL.answer(ticket);
                rounds = 0;
            }
            if stops {
                let end = *end.get_or_insert_with(Instant::now);
                self.give_up(end);
                if done || end::is_late(end) {
                    return self.end(end);
                }
            }
            // Without a receiver the records stay in the rings, and this thread sleeps.
            if !(more && idle) || self.receivers.is_empty() {
                self.sleep(wake_word, pause);
            }
        }
    }

    /// Sleeps until there may be something to do.
    fn sleep(&self, wake_word: u32, pause: Duration) {
        let behind = self.receivers.iter().find(|receiver| !receiver.is_ready());
        match behind.and_then(Receiver::socket) {
            // A request that comes meanwhile waits no longer than without the socket.
            Some(socket) if self.receivers.iter().all(|receiver| !receiver.is_ready()) => {
                socket.wait(pause);
            }
            _ => CONTROL.sleep(wake_word, pause),
        }
    }

    fn accept_receivers(&mut self) {
        if self.failed.is_some() {
            return;
        }
        let (ring, state, table) = (self.ring, self.state, self.table);
        let is_path = self.endpoint.is_path();
        let info = || {
            let mut info = trace_info::gather(ring, state, table, "stream");
            // The number of this trace's path, because `next_path` has moved on to the next number.
            info.dump = info.dump.map(|next| next.saturating_sub(is_path.into()));
            // A stream has no end yet.
            info.end = None;
            *info
        };
        if let Err(error) = self.endpoint.accept_receivers(&mut self.receivers, info) {
            self.failed = Some(error);
        }
    }

    /// Reads one chunk of each ring. Returns whether there may be more.
    fn round(&mut self, partial: bool) -> bool {
        let mut more = false;
        for slot in self.ring.slots() {
            if !self.receivers.iter().any(Receiver::is_ready) {
                more = true;
                break;
            }
            more |= self.slot(slot, partial);
            if self.batch.records >= BATCH {
                self.hand_over();
            }
        }
        self.hand_over();
        more
    }

    /// Reads one chunk of one ring. Returns whether there may be more.
    fn slot(&mut self, slot: &Slot, partial: bool) -> bool {
        let key = core::ptr::from_ref(slot).addr();
        if !self
            .slots
            .get(&key)
            .is_some_and(|known| known.tail.is_of(slot))
        {
            self.slots.remove(&key);
            self.receivers
                .iter_mut()
                .for_each(|receiver| receiver.forget(key));
            let Some(followed) = follow(slot) else {
                return false;
            };
            self.slots.insert(key, followed);
        }
        let Some(followed) = self.slots.get_mut(&key) else {
            return false;
        };
        // The state is read before the chunk. A thread that ends later may have made records that were not
        // read.
        let ended = slot.state.load(Ordering::Acquire) == state::ENDED;
        match followed.tail.next(slot, partial, &mut self.buffer) {
            Next::Part {
                bytes,
                first,
                lost,
                filled,
            } => {
                self.totals.lost += lost;
                self.part(key, bytes, first);
                filled
            }
            Next::Nothing => {
                if partial && ended {
                    self.count(slot, key, false);
                }
                false
            }
            Next::Other => false,
        }
    }

    /// Gives the first bytes of the buffer to the receivers that are ready.
    fn part(&mut self, key: usize, bytes: usize, first: u64) {
        // This comes after the copy, because the table then has every function of the copy. It comes before the
        // calls.
        self.learn();
        let Some(followed) = self.slots.get_mut(&key) else {
            return;
        };
        let ready = |receivers: &mut Vec<Receiver>, step: &mut dyn FnMut(&mut Receiver)| {
            receivers
                .iter_mut()
                .filter(|receiver| receiver.is_ready())
                .for_each(step);
        };
        let Followed {
            tail,
            decoder,
            thread,
            was_received,
        } = followed;
        ready(&mut self.receivers, &mut |receiver| {
            receiver.begin(key, thread, first, decoder)
        });
        let bytes = self.buffer.get(..bytes).unwrap_or(&[]);
        let records = decoder.decode(bytes, &mut AllReceivers(&mut self.receivers));
        ready(&mut self.receivers, &mut |receiver| {
            receiver.count_delivered(key, records)
        });
        tail.took(first, records);
        if records > 0 {
            self.batch.records += records;
            self.batch.threads.push(Rc::clone(was_received));
        }
    }

    /// Tells the writers the functions that were added meanwhile.
    fn learn(&mut self) {
        let known = self
            .receivers
            .iter()
            .map(Receiver::functions)
            .min()
            .unwrap_or(0);
        let more = {
            let table = self.table.lock();
            if table.len() <= known {
                return;
            }
            table.for_trace_from(known)
        };
        for receiver in &mut self.receivers {
            receiver.learn(more.get(receiver.functions() - known..).unwrap_or(&[]));
        }
    }

    /// Tells the receivers the current counts of a thread.
    fn count(&mut self, slot: &Slot, key: usize, last: bool) {
        let Some(followed) = self.slots.get(&key) else {
            return;
        };
        let Some((owner, counts)) = counts::count(slot) else {
            return;
        };
        if followed.tail.is_of(slot) && counts.recorded > 0 {
            for receiver in self
                .receivers
                .iter_mut()
                .filter(|receiver| receiver.is_ready())
            {
                receiver.count(key, &followed.thread, counts, owner.ended || last);
            }
        }
    }

    /// Hands the batch over to all receivers that were given its records.
    fn hand_over(&mut self) {
        if self.batch.records == 0 {
            return;
        }
        let batch = Rc::new(std::mem::take(&mut self.batch));
        self.in_flight.push(Rc::clone(&batch));
        let mut kept = Vec::new();
        for mut receiver in std::mem::take(&mut self.receivers) {
            match receiver
                .is_ready()
                .then(|| receiver.end_batch(Rc::clone(&batch)))
            {
                None | Some(Ok(())) => kept.push(receiver),
                Some(Err(error)) => {
                    receiver.drop_writer();
                    self.endpoint.gone(receiver, &error);
                }
            }
        }
        self.receivers = kept;
        drop(batch);
        self.push();
        self.wait_for_late();
    }

    /// Sends pending bytes, as far as the receivers take them now.
    fn push(&mut self) {
        let mut kept = Vec::new();
        for mut receiver in std::mem::take(&mut self.receivers) {
            match receiver.push() {
                Sent::All => {
                    if let Some(batch) = receiver.take_received() {
                        CONTROL.count_step();
                        self.took(&batch);
                    }
                }
                Sent::Some => CONTROL.count_step(),
                Sent::Nothing => {}
                Sent::Gone(error) => {
                    self.endpoint.gone(receiver, &error);
                    continue;
                }
            }
            kept.push(receiver);
        }
        self.receivers = kept;
        self.settle();
    }

    /// Counts the records of a batch as streamed, when the first receiver has taken it.
    fn took(&mut self, batch: &Batch) {
        if batch.is_received.replace(true) {
            return;
        }
        self.totals.streamed += batch.records;
        for thread in &batch.threads {
            self.totals.threads += u64::from(!thread.replace(true));
        }
    }

    /// Waits for receivers that have not taken the batch, so they do not miss the next one because of a short
    /// delay.
    fn wait_for_late(&mut self) {
        let since = Instant::now();
        while self.receivers.iter().any(Receiver::is_ready) && since.elapsed() < LAG {
            let behind = self
                .receivers
                .iter()
                .find(|receiver| !receiver.is_ready() && !receiver.late);
            let Some(socket) = behind.and_then(Receiver::socket) else {
                return;
            };
            socket.wait(LAG.saturating_sub(since.elapsed()));
            self.push();
        }
        for receiver in self
            .receivers
            .iter_mut()
            .filter(|receiver| !receiver.is_ready())
        {
            receiver.late = true;
        }
    }

    /// Counts a batch as lost if no receiver has taken it and none still can.
    fn settle(&mut self) {
        let totals = &mut self.totals;
        self.in_flight.retain(|batch| {
            let over = Rc::strong_count(batch) == 1;
            if over && !batch.is_received.get() {
                totals.lost += batch.records;
            }
            !over
        });
    }
}

/// Begins to read the records of a slot's owner. `None` if the slot has no owner.
fn follow(slot: &Slot) -> Option<Followed> {
    let tail = Tail::new(slot)?;
    let tid = slot.tid.load(Ordering::Relaxed);
    Some(Followed {
        thread: Thread {
            id: ThreadId(u64::from(tid)),
            process: Some(u64::from(sys::process::pid())),
            name: counts::name_of(slot),
            ..Thread::default()
        },
        tail,
        decoder: ChunkDecoder::new(),
        was_received: Rc::new(Cell::new(false)),
    })
}

/// How long to sleep if there is nothing to do. It is half the time in which the fastest thread fills a ring of
/// `ring` bytes, at 800 MB a second.
fn pause(ring: usize) -> Duration {
    let micros = ring as u64 / 2 / 800;
    Duration::from_micros(micros).clamp(Duration::from_micros(500), Duration::from_millis(20))
}
