//! Carries out the commands of `fdr ctl`. They come through the control block of the ring file
//! (`fdr_formats::ring::control` has the protocol), and the dumper reads them.

use core::sync::atomic::{AtomicU64, Ordering};
use std::fmt::Display;
use std::time::Duration;

use fdr_formats::filter::Filter;
use fdr_formats::model::RecordingCost;
use fdr_formats::ring::control::{self, COMMAND_SIZE, Kind};
use fdr_formats::text::owned;
use fdr_formats::{duration, text, trigger};

use super::sites::TableHandle;
use super::state::State;
use super::{budget, connection, dumping, marks, statistics, trace_paths, triggers};
use crate::api::Statistics;
use crate::config::{Mode, word};
use crate::recorder;
use crate::ring::layout::Control;
use crate::ring::{Ring, totals};
use crate::sys::thread::SharedWord;

/// The time of the last command `keep`, ns. [`NO_COMMAND`] = there was none, and `FDR_KEEP` holds.
static KEEP_NS: AtomicU64 = AtomicU64::new(NO_COMMAND);
const NO_COMMAND: u64 = u64::MAX;

/// Carries out the newest command if it has no answer. Returns the word that the next command changes. `None` if
/// there is no ring that could hold one.
pub(crate) fn carry_out(state: &State, table: TableHandle) -> Option<SharedWord> {
    let ring = recorder::ring().filter(|ring| !ring.is_lost())?;
    let block = ring.control();
    if block.listens.load(Ordering::Relaxed) == 0 {
        block.listens.store(1, Ordering::Relaxed);
    }
    // Acquire: pairs with the system calls by which the tool writes. The check tells whether the command is whole.
    let requested = block.requested.load(Ordering::Acquire);
    if requested != block.answered.load(Ordering::Relaxed) {
        let mut command = [0; COMMAND_SIZE];
        for (bytes, word) in command.chunks_exact_mut(8).zip(&block.command) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        block.received.store(requested, Ordering::Release);
        let answer = match control::decode_command(requested, &command) {
            Some((kind, text)) => obey(ring, state, table, kind, text),
            None => Err(UNREADABLE.into()),
        };
        write(block, requested, &answer);
    }
    Some(SharedWord {
        word: core::ptr::from_ref(&block.requested).cast(),
        expected: requested,
    })
}

const UNREADABLE: &str =
    "the command is damaged, or the program has a version of fdr that does not know it";

fn write(block: &Control, number: u32, answer: &Result<String, String>) {
    let bytes = control::encode_answer(
        number,
        answer.as_ref().map(String::as_str).map_err(String::as_str),
    );
    for (part, word) in bytes.chunks(8).zip(&block.answer) {
        let mut padded = [0; 8];
        for (to, byte) in padded.iter_mut().zip(part) {
            *to = *byte;
        }
        word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
    }
    // Release: a tool that sees the number sees the answer.
    block.answered.store(number, Ordering::Release);
}

fn obey(
    ring: &Ring,
    state: &State,
    table: TableHandle,
    kind: Kind,
    text: &str,
) -> Result<String, String> {
    match kind {
        Kind::Nothing => Ok(String::new()),
        Kind::On => Ok(on(table)),
        Kind::Off => {
            table.lock().enable(false);
            Ok(owned("recording is off"))
        }
        Kind::Filter => filter(table, text),
        Kind::Keep => keep(state, text),
        Kind::Dump => match dumping::dump_and_print(state, table, "control") {
            Ok(dump) => Ok(format!("{}", dump.path.display())),
            Err(error) => Err(format!("{error}")),
        },
        Kind::Status => Ok(status(ring, state, table)),
        Kind::Mark => marks::add(ring, state, text),
        Kind::Trigger => trigger(state, table, text),
    }
}

fn trigger(state: &State, table: TableHandle, text: &str) -> Result<String, String> {
    let list = trigger::parse(text)?;
    if state.config.mode == Mode::Stream {
        return Err(owned(
            "a stream hands over all records, and no trigger dumps",
        ));
    }
    // The former triggers may be in use, so triggers are never freed.
    triggers::set(state, table, list.leak());
    let mut answer = format!("triggers: {}", triggers::in_words());
    for problem in triggers::problems(table) {
        answer.push_str("; ");
        answer.push_str(&problem);
    }
    Ok(answer)
}

fn on(table: TableHandle) -> String {
    let mut table = table.lock();
    if !table.has_filter() {
        table.set_filter(Filter::parse("*").unwrap_or_default());
    }
    let on = table.enable(true);
    format!(
        "recording is on: {on} of {} functions and events",
        table.switched()
    )
}

fn filter(table: TableHandle, text: &str) -> Result<String, String> {
    let filter = Filter::parse(text)?;
    let mut table = table.lock();
    let named = table.set_filter(filter);
    let mut answer = format!("{named} of {} functions and events", table.switched());
    if !table.is_enabled() {
        answer.push_str(", when recording is on");
    }
    if let Some(unmatched) = table.unmatched_in_words() {
        answer.push_str("; ");
        answer.push_str(&unmatched);
    }
    Ok(answer)
}

fn keep(state: &State, text: &str) -> Result<String, String> {
    let time = duration::parse(text)?;
    if state.config.mode != Mode::Ring {
        return Err(owned("only a program with FDR_MODE=ring leaves calls out"));
    }
    if !state.config.keeps() {
        return Err(owned(
            "the ring has no place for open calls: start the program with FDR_KEEP, such as FDR_KEEP=10s",
        ));
    }
    if time.is_zero() {
        recorder::keep_no_more();
    } else {
        recorder::keep(Some(time), state.chosen.kind, state.frequency().hz);
    }
    KEEP_NS.store(nanos(time), Ordering::Relaxed);
    Ok(match time.is_zero() {
        true => owned("from each thread's next chunk on, every call leaves its records"),
        false => format!("from its next chunk on, each thread's ring holds {text} if it can"),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NO_COMMAND - 1)
}

/// Lines of a word, a space, and a value.
fn status(ring: &Ring, state: &State, table: TableHandle) -> String {
    let config = &state.config;
    let mut lines = Lines(String::new());
    lines.add("program", &state.program);
    {
        let table = table.lock();
        let word = if table.is_enabled() { "on" } else { "off" };
        lines.add("recording", &word);
        lines.add("functions", &table.switched());
        lines.add("functions_on", &table.on());
        let filter = table.filter().map(Filter::in_words).unwrap_or_default();
        lines.add("filter", &text::cut(&filter, MAX_FILTER));
    }
    let keep_ns = match KEEP_NS.load(Ordering::Relaxed) {
        NO_COMMAND if config.keeps() => nanos(config.keep),
        NO_COMMAND => 0,
        ns => ns,
    };
    lines.add("keep_ns", &keep_ns);
    let ticks = longest_threshold(ring);
    let hz = u128::from(state.frequency().hz.max(1));
    lines.add(
        "threshold_ns",
        &((u128::from(ticks) * 1_000_000_000 / hz) as u64),
    );
    let Statistics {
        threads, missing, ..
    } = statistics::of_process(table);
    let mut sums = [
        0,
        missing.overwritten + missing.dropped,
        0,
        missing.overwritten,
        missing.dropped,
        0,
    ];
    for thread in &threads {
        let counts = [
            u64::from(thread.ended),
            thread.recorded,
            thread.readable,
            thread.overwritten,
            thread.dropped,
            thread.summarised,
        ];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    lines.add("threads", &threads.len());
    let words = [
        "threads_ended",
        "recorded",
        "readable",
        "overwritten",
        "dropped",
        "summarised",
    ];
    for (word, sum) in words.iter().zip(sums) {
        lines.add(word, &sum);
    }
    let (counted, looked_at) = budget::functions_by_level(table);
    lines.add("counted_functions", &counted);
    lines.add("looked_at_functions", &looked_at);
    let cost = ring.totals_of_ended().and_then(totals::cost);
    if let Some(RecordingCost { share, budget }) = cost {
        lines.add("cost", &share);
        lines.add("budget", &budget);
    }
    lines.add("triggers", &triggers::in_words());
    lines.add("mode", &word(&Mode::WORDS, config.mode));
    lines.add("format", &config.format.0.name);
    let next = match state.address() {
        Some(address) => connection::name(address).into(),
        None => trace_paths::next(state),
    };
    lines.add("next_dump", &next.display());
    lines.0
}

/// Bytes of a filter that a status shows. The others have room for the longest path.
const MAX_FILTER: usize = 1024;

/// The highest threshold of a thread, in ticks.
fn longest_threshold(ring: &Ring) -> u64 {
    let calls_of = |slot| crate::ring::open_calls::of_slot(slot);
    let thresholds = ring.owned_slots().filter_map(calls_of);
    let thresholds = thresholds.map(|calls| calls.threshold.load(Ordering::Relaxed));
    thresholds.max().unwrap_or(0)
}

struct Lines(String);

impl Lines {
    fn add(&mut self, word: &str, value: &dyn Display) {
        let value = text::on_one_line(&format!("{value}"));
        self.0 += &format!("{word} {value}\n");
    }
}
