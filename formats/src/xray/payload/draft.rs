//! Encodes the custom events of this project, little-endian like each file that we write. [`payload`](super) has their
//! layout. Few of them are written, so this code is small rather than fast. The functions that take a
//! [`PayloadBuffer`] must never allocate.

use super::totals::NESTS;
use super::{
    BALANCE, BREAK, CLOCK, EARLY_CALLS, ESTIMATES, FUNCTIONS, IDENTITY, LOST, MOMENT, PLACE_BITS,
    PROCESS, SHORT_CALLS, SYNTHETIC, TAG, THREAD, THRESHOLD, TOTALS, VERSION, summary_words,
};
use crate::model::{
    Clock, Counts, EarlyCall, Estimate, Function, FunctionId, FunctionTotals, Identity, Moment,
    RecordingCost, Thread, Ticks, TraceInfo,
};
use crate::text;

/// A batch of functions is closed when it has more bytes than this.
const BATCH_BYTES: usize = 32 * 1024;

/// Rows of a batch of estimates.
const ESTIMATES_OF_BATCH: usize = BATCH_BYTES / ESTIMATE_BYTES;

/// Where the bytes of a payload go.
pub(in super::super) trait PayloadBuffer {
    /// Texts of up to this many bytes are kept whole.
    fn longest_text(&self) -> usize;

    fn put(&mut self, bytes: &[u8]);
    fn bytes(&self) -> &[u8];
}

impl PayloadBuffer for Vec<u8> {
    /// No real name has this length.
    fn longest_text(&self) -> usize {
        64 * 1024
    }

    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Memory for a payload where nothing may be allocated: a payload with at most two texts.
pub(in super::super) struct ShortPayload {
    bytes: [u8; ShortPayload::BYTES],
    used: usize,
}

impl ShortPayload {
    const BYTES: usize = 512;

    pub(in super::super) fn new() -> ShortPayload {
        ShortPayload {
            bytes: [0; ShortPayload::BYTES],
            used: 0,
        }
    }
}

impl PayloadBuffer for ShortPayload {
    fn longest_text(&self) -> usize {
        200
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        if let Some(place) = self.bytes.get_mut(self.used..end) {
            place.copy_from_slice(bytes);
            self.used = end;
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or(&[])
    }
}

/// A payload under construction, little-endian like each file that we write.
struct Draft<'a>(&'a mut dyn PayloadBuffer);

impl<'a> Draft<'a> {
    #[inline(never)]
    fn new(place: &'a mut dyn PayloadBuffer, kind: u8) -> Draft<'a> {
        place.put(&TAG);
        place.put(&[VERSION, kind, 0, 0]);
        Draft(place)
    }

    #[inline(never)]
    fn u32(&mut self, value: u32) {
        self.0.put(&value.to_le_bytes());
    }

    #[inline(never)]
    fn u64(&mut self, value: u64) {
        self.0.put(&value.to_le_bytes());
    }

    /// Texts are cut at a character.
    fn clip<'t>(&self, text: &'t str) -> &'t str {
        text::cut(text, self.0.longest_text())
    }

    #[inline(never)]
    fn length(&mut self, text: &str) {
        self.u32(u32::try_from(self.clip(text).len()).unwrap_or(0));
    }

    #[inline(never)]
    fn text(&mut self, text: &str) {
        self.0.put(self.clip(text).as_bytes());
    }

    #[inline(never)]
    fn align(&mut self) {
        let used = self.0.bytes().len();
        let zeros = used.next_multiple_of(8) - used;
        self.0.put([0; 8].get(..zeros).unwrap_or(&[]));
    }
}

/// A payload that is made by a function which takes any place.
fn encoded(put: impl FnOnce(&mut dyn PayloadBuffer)) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes);
    bytes
}

/// The function table, in as many payloads as it needs.
pub fn encode_functions(functions: &[Function]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut rest = functions;
    std::iter::from_fn(move || next_functions(&mut rest))
}

/// The payload of the first functions, which are taken away.
#[inline(never)]
fn next_functions(rest: &mut &[Function]) -> Option<Vec<u8>> {
    let (mut count, mut bytes) = (0u32, 0);
    for function in *rest {
        if bytes > BATCH_BYTES {
            break;
        }
        count += 1;
        bytes += 16 + function.name.len() + function.file.len();
    }
    let (batch, later) = rest
        .split_at_checked(count as usize)
        .filter(|_| count > 0)?;
    *rest = later;
    let mut payload = Vec::new();
    let mut draft = Draft::new(&mut payload, FUNCTIONS);
    let untimed = batch.iter().filter(|function| function.untimed).count();
    let without_calls = |function: &&Function| !function.is_called();
    let named = batch.iter().filter(without_calls).count();
    draft.u32(count);
    draft.u32(u32::from(untimed > 0) | u32::from(named > 0) << 1);
    for function in batch {
        draft.u32(function.id.0);
        draft.u32(function.line);
        draft.length(&function.name);
        draft.length(&function.file);
        draft.text(&function.name);
        draft.text(&function.file);
    }
    if untimed + named > 0 {
        draft.align();
    }
    if untimed > 0 {
        draft.u32(u32::try_from(untimed).unwrap_or(0));
        for (place, _) in (0..).zip(batch).filter(|(_, function)| function.untimed) {
            draft.u32(place);
        }
    }
    if named > 0 {
        draft.u32(u32::try_from(named).unwrap_or(0));
        let functions = (0..).zip(batch);
        for (place, function) in functions.filter(|(_, function)| without_calls(function)) {
            draft.u32(place | (function.kind as u32) << PLACE_BITS);
        }
    }
    draft.align();
    Some(payload)
}

/// The thread of a block; `latest` is the latest tick of its records.
#[must_use]
pub fn encode_thread(thread: &Thread, latest: Option<Ticks>) -> Vec<u8> {
    encoded(|place| put_thread(place, &thread.name, thread.counts, latest))
}

pub(in super::super) fn put_thread(
    place: &mut dyn PayloadBuffer,
    name: &str,
    stated: Option<Counts>,
    latest: Option<Ticks>,
) {
    let counts = stated.unwrap_or_default();
    let mut draft = Draft::new(place, THREAD);
    let is_summarised = counts.summarised > 0;
    let bits = [stated.is_some(), latest.is_some(), is_summarised];
    draft.u32((0..).zip(bits).map(|(at, bit)| u32::from(bit) << at).sum());
    draft.length(name);
    for count in [
        counts.recorded,
        counts.readable,
        counts.overwritten,
        counts.dropped,
    ] {
        draft.u64(count);
    }
    draft.text(name);
    if latest.is_some() || is_summarised {
        draft.align();
    }
    if let Some(latest) = latest {
        draft.u64(latest.0);
    }
    if is_summarised {
        draft.u64(counts.summarised);
    }
    draft.align();
}

/// Calls that left no records since the thread's record before.
#[must_use]
pub fn encode_short_calls(calls: u64, ticks: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut draft = Draft::new(&mut bytes, SHORT_CALLS);
    let (words, count) = summary_words(calls, ticks);
    words[..count].iter().for_each(|word| draft.u64(*word));
    draft.align();
    bytes
}

/// From here on, calls below this many ticks may leave no records.
#[must_use]
pub fn encode_threshold(ticks: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut draft = Draft::new(&mut bytes, THRESHOLD);
    draft.u64(ticks);
    draft.align();
    bytes
}

/// The facts about the clock that the header has no room for.
#[must_use]
pub fn encode_clock(clock: &Clock) -> Vec<u8> {
    encoded(|place| put_clock(place, clock))
}

pub(in super::super) fn put_clock(place: &mut dyn PayloadBuffer, clock: &Clock) {
    let (tick, nanos) = clock.anchor.unwrap_or_default();
    let mut draft = Draft::new(place, CLOCK);
    draft.u32(
        u32::from(clock.error_ppm.is_some())
            | u32::from(clock.anchor.is_some()) << 1
            | 4
            | u32::from(clock.until.is_some()) << 3,
    );
    draft.length(&clock.name);
    draft.u64(clock.error_ppm.unwrap_or_default().to_bits());
    draft.u64(tick.0);
    draft.u64(nanos);
    draft.text(&clock.name);
    draft.align();
    let faults = &clock.faults;
    draft.u64(faults.skew_ns);
    draft.u64(faults.steps_back);
    draft.u64(faults.ahead_ns as u64);
    draft.u64(faults.wall_step_ns as u64);
    let (tick, nanos) = clock.until.unwrap_or_default();
    draft.u64(tick.0);
    draft.u64(nanos);
    draft.align();
}

/// Where the trace comes from.
#[must_use]
pub fn encode_process(info: &TraceInfo) -> Vec<u8> {
    encoded(|place| put_process(place, info, &info.reason))
}

pub(in super::super) fn put_process(place: &mut dyn PayloadBuffer, info: &TraceInfo, reason: &str) {
    let mut draft = Draft::new(place, PROCESS);
    draft.u32(
        u32::from(info.process.is_some())
            | u32::from(info.dump.is_some()) << 1
            | 4
            | u32::from(info.end.is_some()) << 3,
    );
    draft.length(&info.program);
    draft.length(reason);
    draft.u32(0);
    draft.u64(info.process.unwrap_or_default());
    draft.u64(info.dump.unwrap_or_default());
    draft.text(&info.program);
    draft.text(reason);
    draft.align();
    draft.u64(info.missing.threads);
    draft.u64(info.missing.overwritten);
    draft.u64(info.missing.dropped);
    if let Some(end) = info.end {
        draft.u64(end.0);
    }
    draft.align();
}

/// The identity of the trace. `None`: nothing is known, so there is no event.
#[must_use]
pub fn encode_identity(identity: &Identity) -> Option<Vec<u8>> {
    let texts = identity.as_bytes();
    let mut bytes = Vec::new();
    let mut draft = Draft::new(&mut bytes, IDENTITY);
    draft.u32(u32::try_from(texts.len()).unwrap_or(0));
    draft.u32(0);
    draft.0.put(texts);
    draft.align();
    (!texts.is_empty()).then_some(bytes)
}

/// Bytes of a row of early calls.
pub(in super::super) const EARLY_CALL_BYTES: usize = 16;

/// The first bytes of early calls. Async-signal-safe.
pub(in super::super) fn early_calls_head(count: u32) -> [u8; 16] {
    let words = [super::head(EARLY_CALLS), u64::from(count).to_le_bytes()];
    let mut head = [0; 16];
    for (place, word) in head.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word);
    }
    head
}

/// A row of early calls. Async-signal-safe.
pub(in super::super) fn early_call_row(call: &EarlyCall) -> [u8; EARLY_CALL_BYTES] {
    (u128::from(call.begin.0) | u128::from(call.function.0) << 64).to_le_bytes()
}

/// Calls that began before the thread's first record and have not ended. `None`: there are none.
#[must_use]
pub fn encode_early_calls(calls: &[EarlyCall]) -> Option<Vec<u8>> {
    let mut bytes = early_calls_head(u32::try_from(calls.len()).ok()?).to_vec();
    for call in calls {
        bytes.extend_from_slice(&early_call_row(call));
    }
    (!calls.is_empty()).then_some(bytes)
}

/// Bytes of a row of estimates.
pub(in super::super) const ESTIMATE_BYTES: usize = 72;

/// The first bytes of a payload with `count` estimates. Async-signal-safe.
pub(in super::super) fn estimates_head(count: u32, cost: RecordingCost) -> [u8; 32] {
    let words = [
        super::head(ESTIMATES),
        u64::from(count).to_le_bytes(),
        cost.share.to_le_bytes(),
        cost.budget.to_le_bytes(),
    ];
    let mut head = [0; 32];
    for (place, word) in head.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word);
    }
    head
}

/// A row of estimates. Async-signal-safe.
pub(in super::super) fn estimate_row(
    function: FunctionId,
    estimate: &Estimate,
) -> [u8; ESTIMATE_BYTES] {
    let words = [
        u64::from(function.0) | (estimate.level as u64) << 32,
        estimate.since.0,
        estimate.missed,
        estimate.missed_error,
        estimate.total.0,
        estimate.own.0,
        estimate.own_error.0,
        estimate.sampled,
        estimate.around,
    ];
    let mut row = [0; ESTIMATE_BYTES];
    for (place, word) in row.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    row
}

/// The cost of recording and the estimates of functions, in as many payloads as they need. No payload if the trace has
/// no budget.
pub fn encode_estimates(info: &TraceInfo) -> impl Iterator<Item = Vec<u8>> + '_ {
    let cost = info.recording_cost;
    let estimate = |totals: &FunctionTotals| {
        let estimate = totals.estimate.as_deref().copied()?;
        Some(estimate_row(totals.function, &estimate))
    };
    let rows = info.missing_totals.iter().filter_map(estimate);
    let rows: Vec<[u8; ESTIMATE_BYTES]> = rows.collect();
    let batches = rows.len().div_ceil(ESTIMATES_OF_BATCH);
    let batches = batches.max(usize::from(cost.is_some()));
    (0..batches).map(move |batch| {
        let rows = rows.iter().skip(batch * ESTIMATES_OF_BATCH);
        let rows = rows.take(ESTIMATES_OF_BATCH);
        let head = estimates_head(rows.len() as u32, cost.unwrap_or_default());
        let mut bytes = head.to_vec();
        rows.for_each(|row| bytes.extend_from_slice(row));
        bytes
    })
}

/// A named moment.
#[must_use]
pub fn encode_moment(moment: &Moment) -> Vec<u8> {
    encoded(|place| put_moment(place, moment.number, moment.time, &moment.name))
}

pub(in super::super) fn put_moment(
    place: &mut dyn PayloadBuffer,
    number: u64,
    time: Ticks,
    name: &str,
) {
    let mut draft = Draft::new(place, MOMENT);
    draft.u64(time.0);
    draft.u64(number);
    draft.length(name);
    draft.u32(0);
    draft.text(name);
    draft.align();
}

/// The records of a block that were not measured.
#[must_use]
pub fn encode_balance(entries: u64, exits: u64) -> Vec<u8> {
    encoded(|place| put_balance(place, entries, exits))
}

pub(in super::super) fn put_balance(place: &mut dyn PayloadBuffer, entries: u64, exits: u64) {
    let mut draft = Draft::new(place, BALANCE);
    draft.u64(entries);
    draft.u64(exits);
    draft.align();
}

/// States that the next `count` function records were not measured.
#[must_use]
pub fn encode_synthetic(count: u32) -> Vec<u8> {
    encoded(|place| put_synthetic(place, count))
}

pub(in super::super) fn put_synthetic(place: &mut dyn PayloadBuffer, count: u32) {
    let mut draft = Draft::new(place, SYNTHETIC);
    draft.u32(count);
    draft.u32(0);
    draft.align();
}

/// States that this many function records are missing at this place.
#[must_use]
pub fn encode_lost(records: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut draft = Draft::new(&mut bytes, LOST);
    draft.u64(records);
    draft.align();
    bytes
}

/// States that the clock jumped ahead by this many ticks between the previous record and the next
/// absolute tick. 0: the written ticks do not show the jump.
#[must_use]
pub fn encode_break(ticks: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut draft = Draft::new(&mut bytes, BREAK);
    draft.u64(ticks);
    draft.align();
    bytes
}

/// The totals of functions, in as many payloads as they need. `is_of_missing`: they are of threads that are not in the
/// trace.
pub fn encode_totals(
    rows: &[FunctionTotals],
    is_of_missing: bool,
) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut rest = rows;
    std::iter::from_fn(move || next_totals(&mut rest, is_of_missing))
}

/// The payload of the first rows, which are taken away.
#[inline(never)]
fn next_totals(rest: &mut &[FunctionTotals], is_of_missing: bool) -> Option<Vec<u8>> {
    let mut bytes = totals_head(0, is_of_missing).to_vec();
    let mut count = 0;
    while let Some((row, later)) = rest.split_first().filter(|_| bytes.len() < BATCH_BYTES) {
        *rest = later;
        count += 1;
        let head = TotalsRow {
            function: row.function.0,
            calls: row.calls,
            untimed: row.untimed,
            total: row.total.0,
            own: row.own.0,
            longest: row.longest.0,
            nests: row.nests,
        };
        put_totals_row(&head, row.lengths.iter().copied(), &mut |part| {
            bytes.extend_from_slice(part);
        });
    }
    let head = totals_head(count, is_of_missing);
    bytes.get_mut(..head.len())?.copy_from_slice(&head);
    (count > 0).then_some(bytes)
}

/// The numbers of a row of totals, without the lengths. Times are in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct TotalsRow {
    /// The function's id.
    pub function: u32,
    /// Calls with a time.
    pub calls: u64,
    /// Calls without a time.
    pub untimed: u64,
    /// From entry to exit.
    pub total: u64,
    /// The self time: `total` without the calls inside.
    pub own: u64,
    /// The longest call.
    pub longest: u64,
    /// Some calls were inside of others.
    pub nests: bool,
}

/// The first bytes of a payload with `rows` rows.
pub(in super::super) fn totals_head(rows: u32, is_of_missing: bool) -> [u8; 16] {
    let mut head = [0; 16];
    let parts = [
        super::head(TOTALS),
        (u64::from(rows) | u64::from(is_of_missing) << 32).to_le_bytes(),
    ];
    for (place, part) in head.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part);
    }
    head
}

/// Gives the bytes of a row. Async-signal-safe.
pub(in super::super) fn put_totals_row(
    row: &TotalsRow,
    lengths: impl Iterator<Item = (u8, u64)> + Clone,
    put: &mut dyn FnMut(&[u8]),
) {
    let lengths = lengths.chain(row.nests.then_some(NESTS));
    let known = lengths.clone().count() as u64;
    for number in [
        u64::from(row.function) | known << 32,
        row.calls,
        row.untimed,
        row.total,
        row.own,
        row.longest,
    ] {
        put(&number.to_le_bytes());
    }
    for (class, count) in lengths {
        put(&(u64::from(class) | count << 8).to_le_bytes());
    }
}
