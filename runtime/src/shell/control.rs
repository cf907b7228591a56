//! The API's calls, carried out: here where this copy is (or becomes) the host, in the host where it
//! is a guest.

use core::sync::atomic::Ordering;
use std::fmt::Write as _;

use fdr_formats::filter::Filter;

use super::sites::table;
use super::{dumping, guest, install};
use crate::api::{Dump, Error, Statistics, ThreadStatistics};
use crate::dump::snapshot;
use crate::recorder::{self, family};
use crate::ring::layout::Slot;
use crate::site::unit::{self, Operation};
use crate::sys;

pub(crate) fn enable() -> Result<usize, Error> {
    if let Some(host) = recorder::host() {
        return guest::ask(host, Operation::Enable, "").and_then(number);
    }
    sys::process::notice_child();
    let config = match install::state() {
        // What was read at the start stays.
        Some(state) => state.config.clone(),
        None => {
            install::configuration().map_err(|errors| Error::Configuration(errors.join("; ")))?
        }
    };
    let from_environment = config.filter.clone();
    if let Some(ring) = recorder::ring().filter(|ring| ring.is_lost()) {
        return Err(dumping::lost(ring));
    }
    if let Err(why) = install::install(config) {
        // It may be a guest by now, of a copy that came up meanwhile.
        let host = recorder::host().ok_or(Error::Failed(why))?;
        return guest::ask(host, Operation::Enable, "").and_then(number);
    }
    let mut table = table();
    if !table.has_filter() {
        let all = || Filter::parse("*").unwrap_or_default();
        table.set_filter(if from_environment.is_off() {
            all()
        } else {
            from_environment
        });
    }
    Ok(table.enable(true))
}

pub(crate) fn disable() {
    if let Some(host) = recorder::host() {
        let _ = guest::ask(host, Operation::Disable, "");
    } else {
        sys::process::notice_child();
        table().enable(false);
    }
}

pub(crate) fn set_filter(text: &str) -> Result<usize, Error> {
    if let Some(host) = recorder::host() {
        return guest::ask(host, Operation::SetFilter, text).and_then(number);
    }
    let filter = Filter::parse(text).map_err(Error::Configuration)?;
    sys::process::notice_child();
    guest::attach(&unit::UNIT);
    Ok(table().set_filter(filter))
}

pub(crate) fn is_enabled() -> bool {
    match recorder::host() {
        Some(host) => guest::ask(host, Operation::IsEnabled, "").is_ok_and(|text| text == "1"),
        None => {
            sys::process::notice_child();
            // The child of a fork has no ring before its first record.
            let ring = recorder::ring();
            let records = ring.is_some_and(|ring| !ring.is_lost()) || family::is_expecting();
            records && table().is_enabled()
        }
    }
}

pub(crate) fn dump() -> Result<Dump, Error> {
    if let Some(host) = recorder::host() {
        return guest::ask(host, Operation::Dump, "").and_then(|text| {
            decode_dump(&text).ok_or_else(|| Error::Failed("the host's answer is garbled".into()))
        });
    }
    dumping::dump("call")
}

pub(crate) fn statistics() -> Statistics {
    if let Some(host) = recorder::host() {
        let text = guest::ask(host, Operation::Statistics, "").unwrap_or_default();
        return decode_statistics(&text);
    }
    sys::process::notice_child();
    let mut statistics = Statistics::default();
    {
        let table = table();
        statistics.functions = table.len() as u64;
        statistics.functions_on = table.on() as u64;
    }
    let Some(ring) = recorder::ring() else {
        return statistics;
    };
    ring.undivided(|| {
        let missing = ring.missing();
        statistics.retired_threads = missing.retired_threads;
        statistics.retired_records = missing.retired_records;
        statistics.unplaced_records = missing.unplaced_records;
        statistics.threads = ring.owned_slots().filter_map(of_thread).collect();
    });
    statistics
}

/// `None` where the slot's owner changes, or writes too fast for a count.
fn of_thread(slot: &Slot) -> Option<ThreadStatistics> {
    let (owner, counts) = snapshot::count(slot)?;
    Some(ThreadStatistics {
        id: u64::from(owner.tid),
        name: owner.name_text(),
        ended: owner.ended,
        recorded: counts.recorded,
        readable: counts.readable,
        overwritten: counts.overwritten,
        dropped: counts.dropped,
        clock_steps: slot.clock_steps.load(Ordering::Relaxed),
    })
}

/// Carries out a guest's call; the text is the answer, or the error's.
pub(crate) fn answer(operation: Operation, argument: &str) -> Result<String, Error> {
    match operation {
        Operation::Enable => enable().map(|on| on.to_string()),
        Operation::Disable => {
            disable();
            Ok(String::new())
        }
        Operation::SetFilter => set_filter(argument).map(|on| on.to_string()),
        Operation::IsEnabled => Ok(u8::from(is_enabled()).to_string()),
        Operation::Dump => dump().map(|dump| encode_dump(&dump)),
        Operation::Statistics => Ok(encode_statistics(&statistics())),
    }
}

fn number(text: String) -> Result<usize, Error> {
    text.parse()
        .map_err(|_| Error::Failed("the host's answer is garbled".into()))
}

fn encode_dump(dump: &Dump) -> String {
    let Dump {
        path,
        threads,
        records,
        overwritten,
        dropped,
    } = dump;
    format!(
        "{threads} {records} {overwritten} {dropped} {}",
        path.display()
    )
}

fn decode_dump(text: &str) -> Option<Dump> {
    let mut words = text.splitn(5, ' ');
    let mut number = || words.next()?.parse().ok();
    let (threads, records, overwritten, dropped) = (number()?, number()?, number()?, number()?);
    Some(Dump {
        path: words.next()?.into(),
        threads,
        records,
        overwritten,
        dropped,
    })
}

fn encode_statistics(statistics: &Statistics) -> String {
    let Statistics {
        functions,
        functions_on,
        retired_threads,
        ..
    } = statistics;
    let Statistics {
        retired_records,
        unplaced_records,
        ..
    } = statistics;
    let mut text = format!(
        "{functions} {functions_on} {retired_threads} {retired_records} {unplaced_records}\n"
    );
    for thread in &statistics.threads {
        let ThreadStatistics {
            id,
            recorded,
            readable,
            overwritten,
            dropped,
            ..
        } = thread;
        let ended = u8::from(thread.ended);
        let (steps, name) = (thread.clock_steps, thread.name.replace('\n', " "));
        let _ = writeln!(
            text,
            "{id} {ended} {recorded} {readable} {overwritten} {dropped} {steps} {name}"
        );
    }
    text
}

fn decode_statistics(text: &str) -> Statistics {
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or("").split(' ');
    let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let mut statistics = Statistics {
        functions: next(),
        functions_on: next(),
        retired_threads: next(),
        retired_records: next(),
        unplaced_records: next(),
        ..Statistics::default()
    };
    for line in lines {
        let mut words = line.splitn(8, ' ');
        let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let thread = ThreadStatistics {
            id: next(),
            ended: next() != 0,
            recorded: next(),
            readable: next(),
            overwritten: next(),
            dropped: next(),
            clock_steps: next(),
            name: String::new(),
        };
        let name = words.next().unwrap_or("").to_owned();
        statistics.threads.push(ThreadStatistics { name, ..thread });
    }
    statistics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_way_to_a_guest() {
        let dump = Dump {
            path: "/a folder/x 1.fdr".into(),
            threads: 1,
            records: 2,
            overwritten: 3,
            dropped: 4,
        };
        assert_eq!(decode_dump(&encode_dump(&dump)), Some(dump));
        let thread = ThreadStatistics {
            id: 7,
            name: "a b".into(),
            ended: true,
            recorded: 6,
            readable: 1,
            overwritten: 2,
            dropped: 3,
            clock_steps: 9,
        };
        let statistics = Statistics {
            threads: vec![
                thread.clone(),
                ThreadStatistics {
                    name: String::new(),
                    ..thread
                },
            ],
            functions: 1,
            functions_on: 2,
            retired_threads: 3,
            retired_records: 4,
            unplaced_records: 5,
        };
        assert_eq!(
            decode_statistics(&encode_statistics(&statistics)),
            statistics
        );
    }
}
