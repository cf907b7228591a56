//! Carries out the calls of the API. A host does so itself, and a guest asks its host. A call must never fail
//! in a way that the API does not state.

use core::sync::atomic::Ordering;
use std::io::Write;
use std::str::SplitN;

use fdr_formats::filter::Filter;
use fdr_formats::text::{self, owned};

use super::config::Settings;
use super::sites::table;
use super::{dumping, guest, install, made, triggers};
use crate::api::{Dump, Error, Failure, Missing, Statistics, ThreadStatistics};
use crate::config::Config;
use crate::messages;
use crate::recorder::{self, process_ring};
use crate::ring::counts;
use crate::ring::layout::Slot;
use crate::site::unit::{self, Operation};
use crate::sys;
use crate::sys::memory::Mapped;

pub(crate) fn enable(code: &Config) -> Result<usize, Error> {
    if recorder::host().is_some() {
        return enable_in_host(code);
    }
    sys::process::notice_child();
    let state = install::state();
    let mut settings = match state {
        // The settings of the first start stay.
        Some(_) if code.is_empty() => None,
        _ => Some(read(code)?),
    };
    let first = state.map(|state| &state.config);
    if let (Some(first), Some(settings)) = (first, &settings) {
        if !settings.is_but_for_the_filter(first) {
            messages::warn(format_args!("{LATE}"));
        }
    }
    let said = settings.as_ref().or(first);
    let filter = said.and_then(|settings| settings.filter.clone());
    // A filter of the environment is in the table from the start.
    let new_filter = code.get("FDR").is_some() && !install::has_filter();
    let has_filter = table().has_filter() && !new_filter;
    if !has_filter && filter.as_ref().is_some_and(Filter::is_off) && state.is_none() {
        return Ok(0);
    }
    if let Some(ring) = recorder::ring().filter(|ring| ring.is_lost()) {
        return Err(dumping::lost(ring));
    }
    if let Err(why) = install::install(&mut settings) {
        // Another copy may have come up meanwhile, and this copy may be its guest.
        return match recorder::host() {
            Some(_) => enable_in_host(code),
            None => Err(Error::Failed(why)),
        };
    }
    let mut table = table();
    if !has_filter {
        let all = || Filter::parse("*").unwrap_or_default();
        table.set_filter(filter.unwrap_or_else(all));
    }
    let on = table.enable(true);
    drop(table);
    if state.is_none() {
        made::recorder_is_up();
        for problem in triggers::problems() {
            messages::warn(format_args!("{problem}"));
        }
    }
    Ok(on)
}

fn read(code: &Config) -> Result<Settings, Error> {
    install::settings(code).map_err(Error::Configuration)
}

/// Asks the host to record. Passes the filter of the guest's code if the environment has none.
fn enable_in_host(code: &Config) -> Result<usize, Error> {
    let host = recorder::host().ok_or_else(|| Error::Failed(NO_HOST.into()))?;
    read(code)?;
    if !code.is_of_filter_only() {
        messages::warn(format_args!("{LATE}"));
    }
    let filter = code.get("FDR").and_then(|filter| filter.to_str());
    if let Some(filter) = filter.filter(|_| !install::has_filter()) {
        guest::ask(host, Operation::SetFilter, filter).and_then(number)?;
    }
    guest::ask(host, Operation::Enable, "").and_then(number)
}

const NO_HOST: &str = "the recorder is not up";
const LATE: &str = "a Config came after recording was brought up: only its filter counts; enable it first, \
                    or set the FDR_ variables";

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
            let records = ring.is_some_and(|ring| !ring.is_lost()) || process_ring::may_make_ring();
            records && table().is_enabled()
        }
    }
}

pub(crate) fn dump() -> Result<Dump, Error> {
    if let Some(host) = recorder::host() {
        return guest::ask(host, Operation::Dump, "")
            .and_then(|text| decode_dump(&text).ok_or_else(garbled));
    }
    dumping::dump("call")
}

/// Makes a whole trace in a file without a name, and copies it to `writer`.
pub(crate) fn dump_to(writer: &mut dyn Write) -> Result<Dump, Error> {
    let (trace, dump) = match recorder::host() {
        Some(host) => {
            let text = guest::ask(host, Operation::DumpUnnamed, "")?;
            let mut parts = text.splitn(3, ' ');
            let mut taken = || {
                let trace = Mapped::taken(parts.next()?, parts.next()?)?;
                Some((trace, decode_dump(parts.next()?)?))
            };
            taken().ok_or_else(garbled)?
        }
        None => dumping::dump_unnamed("call")?,
    };
    let copied = writer
        .write_all(trace.bytes())
        .and_then(|()| writer.flush());
    copied.map_err(|error| {
        let remedy = "look whether its reader has gone away";
        Error::Failed(Failure::new(
            "the writer did not take the whole trace",
            remedy,
            Some(error),
        ))
    })?;
    Ok(dump)
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
        statistics.functions = table.switched() as u64;
        statistics.functions_on = table.on() as u64;
    }
    let Some(ring) = recorder::ring() else {
        return statistics;
    };
    ring.sum_consistently(|| {
        let missing = ring.missing();
        statistics.missing = Missing {
            threads: missing.threads,
            overwritten: missing.overwritten,
            dropped: missing.dropped,
        };
        statistics.threads.clear();
        for slot in ring.owned_slots() {
            statistics.threads.extend(of_thread(slot));
        }
    });
    statistics
}

/// `None` if the slot changes its owner, or if its owner writes too fast for a count.
fn of_thread(slot: &Slot) -> Option<ThreadStatistics> {
    let (owner, counts) = counts::count(slot)?;
    Some(ThreadStatistics {
        id: u64::from(owner.tid),
        name: owner.name_text(),
        ended: owner.ended,
        recorded: counts.recorded,
        readable: counts.readable,
        overwritten: counts.overwritten,
        dropped: counts.dropped,
        summarised: counts.summarised,
        clock_steps: slot.clock_steps.load(Ordering::Relaxed),
    })
}

/// Carries out a call of a guest. The text is the answer or the error.
pub(crate) fn answer(operation: Operation, argument: &str) -> Result<String, Error> {
    match operation {
        Operation::Enable => enable(&Config::new()).map(|on| on.to_string()),
        Operation::Disable => {
            disable();
            Ok(String::new())
        }
        Operation::SetFilter => set_filter(argument).map(|on| on.to_string()),
        Operation::IsEnabled => Ok(u8::from(is_enabled()).to_string()),
        Operation::Dump => dump().map(|dump| encode_dump(&dump)),
        Operation::DumpUnnamed => dumping::dump_unnamed("call")
            .map(|(trace, dump)| format!("{} {}", trace.given(), encode_dump(&dump))),
        Operation::Statistics => Ok(encode_statistics(&statistics())),
    }
}

fn garbled() -> Error {
    let remedy = "build the program and its libraries with one version of fdr";
    Error::failed("the host's answer is garbled", remedy)
}

fn number(text: String) -> Result<usize, Error> {
    let number = text::number(&text).and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(garbled)
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
    let mut number = || text::number(words.next()?);
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
        missing,
        ..
    } = statistics;
    let Missing {
        threads,
        overwritten,
        dropped,
    } = missing;
    let mut text = format!("{functions} {functions_on} {threads} {overwritten} {dropped}\n");
    for thread in &statistics.threads {
        let ThreadStatistics {
            id,
            recorded,
            readable,
            overwritten,
            dropped,
            summarised,
            ..
        } = thread;
        let ended = u8::from(thread.ended);
        let (steps, name) = (thread.clock_steps, thread.name.replace('\n', " "));
        text += &format!(
            "{id} {ended} {recorded} {readable} {overwritten} {dropped} {summarised} {steps} {name}\n"
        );
    }
    text
}

fn decode_statistics(text: &str) -> Statistics {
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or("").splitn(5, ' ');
    let mut next = || next_number(&mut words);
    let mut statistics = Statistics {
        functions: next(),
        functions_on: next(),
        missing: Missing {
            threads: next(),
            overwritten: next(),
            dropped: next(),
        },
        ..Statistics::default()
    };
    for line in lines {
        let mut words = line.splitn(9, ' ');
        let mut next = || next_number(&mut words);
        let thread = ThreadStatistics {
            id: next(),
            ended: next() != 0,
            recorded: next(),
            readable: next(),
            overwritten: next(),
            dropped: next(),
            summarised: next(),
            clock_steps: next(),
            name: String::new(),
        };
        let name = owned(words.next().unwrap_or(""));
        statistics.threads.push(ThreadStatistics { name, ..thread });
    }
    statistics
}

/// 0 if the next word is none.
#[inline(never)]
fn next_number(words: &mut SplitN<'_, char>) -> u64 {
    words.next().and_then(text::number).unwrap_or(0)
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
            summarised: 4,
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
            missing: Missing {
                threads: 3,
                overwritten: 4,
                dropped: 5,
            },
        };
        assert_eq!(
            decode_statistics(&encode_statistics(&statistics)),
            statistics
        );
    }
}
