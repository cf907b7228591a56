//! Carries out the calls of the API. A host does so itself, also for its guests, and a guest asks its host. A call must
//! never fail in a way that the API does not state.

use std::io::Write;

use fdr_formats::filter::Filter;
use fdr_formats::moments;
use fdr_formats::text::{self, owned};

use super::config::Settings;
use super::sites::table;
use super::state::state;
use super::{answers, dumping, failures, guest, install, marks, statistics, triggers, units};
use crate::api::{Dump, Error, Failure, Statistics};
use crate::config::Config;
use crate::messages;
use crate::recorder::{self, process_ring};
use crate::site::unit::{self, Host, Operation, Reply, Text, Unit};
use crate::sys;
use crate::sys::memory::Mapped;

/// The services of this copy while it is the host.
pub(super) static HOST: Host = Host {
    record,
    record_untimed,
    note: recorder::note_of_guest,
    task_begin: recorder::task::begin_of_guest,
    task_end: recorder::task::end_of_guest,
    task_request_dumps: recorder::task::request_dumps_of_guest,
    task_drop: recorder::task::drop_of_guest,
    task_current: recorder::task::current_of_guest,
    task_enter: recorder::task::enter_of_guest,
    wait_me: recorder::wait::me_of_guest,
    wait_begin: recorder::wait::begin_of_guest,
    wait_write_note: recorder::wait::write_note_of_guest,
    wait_name: recorder::wait::name_of_guest,
    slot_access: &recorder::SLOT_ACCESS,
    attach: attach_c,
    control: host_control,
};

extern "C" fn attach_c(unit: &'static Unit) {
    units::attach(table(), unit);
}

extern "C" fn record() -> *mut () {
    recorder::entrance()
}

extern "C" fn record_untimed() -> *mut () {
    recorder::entrance_untimed()
}

extern "C" fn host_control(operation: u32, argument: &Text<'_>, reply: &Reply<'_>) -> u32 {
    let Some(operation) = Operation::from_raw(operation) else {
        return answers::FAILED;
    };
    let (code, text) = match answer(operation, argument.as_str()) {
        Ok(text) => (answers::OK, text),
        Err(Error::Configuration(why)) => (answers::CONFIGURATION, why),
        Err(Error::NothingRecorded(why)) => (answers::NOTHING, why),
        Err(Error::Failed(failure)) => (answers::FAILED, answers::encode_failure(&failure)),
        Err(error) => (answers::FAILED, format!("{error}")),
    };
    reply.send(&text);
    code
}

pub(crate) fn enable(code: &Config) -> Result<usize, Error> {
    if recorder::host().is_some() {
        return enable_in_host(code);
    }
    sys::process::notice_child();
    let (state, table) = (state(), table());
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
    let effective = settings.as_ref().or(first);
    let filter = effective.and_then(|settings| settings.filter.clone());
    // A filter of the environment is in the table from the start.
    let new_filter = code.get("FDR").is_some() && !install::has_filter();
    let has_filter = table.lock().has_filter() && !new_filter;
    if !has_filter && filter.as_ref().is_some_and(Filter::is_off) && state.is_none() {
        return Ok(0);
    }
    if let Some(ring) = recorder::ring().filter(|ring| ring.is_lost()) {
        return Err(failures::lost(ring));
    }
    if let Err(why) = install::install(table, &mut settings, &HOST) {
        // Another copy may have come up meanwhile, and this copy may be its guest.
        return match recorder::host() {
            Some(_) => enable_in_host(code),
            None => Err(Error::Failed(why)),
        };
    }
    let mut locked = table.lock();
    if !has_filter {
        let all = || Filter::parse("*").unwrap_or_default();
        locked.set_filter(filter.unwrap_or_else(all));
    }
    let on = locked.enable(true);
    drop(locked);
    if state.is_none() {
        units::recorder_is_up();
        for problem in triggers::problems(table) {
            messages::warn(format_args!("{problem}"));
        }
    }
    Ok(on)
}

fn read(code: &Config) -> Result<Box<Settings>, Error> {
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
        guest::ask(host, Operation::SetFilter, filter).and_then(answers::number)?;
    }
    guest::ask(host, Operation::Enable, "").and_then(answers::number)
}

const NO_HOST: &str = "the recorder is not up";
const LATE: &str = "a Config came after recording was brought up: only its filter counts; enable it first, \
                    or set the FDR_ variables";

pub(crate) fn disable() {
    if let Some(host) = recorder::host() {
        let _ = guest::ask(host, Operation::Disable, "");
    } else {
        sys::process::notice_child();
        table().lock().enable(false);
    }
}

pub(crate) fn set_filter(text: &str) -> Result<usize, Error> {
    if let Some(host) = recorder::host() {
        return guest::ask(host, Operation::SetFilter, text).and_then(answers::number);
    }
    let filter = Filter::parse(text).map_err(Error::Configuration)?;
    sys::process::notice_child();
    let table = table();
    units::attach(table, &unit::UNIT);
    Ok(table.lock().set_filter(filter))
}

pub(crate) fn is_enabled() -> bool {
    match recorder::host() {
        Some(host) => guest::ask(host, Operation::IsEnabled, "").is_ok_and(|text| text == "1"),
        None => {
            sys::process::notice_child();
            // The child of a fork has no ring before its first record.
            let ring = recorder::ring();
            let records = ring.is_some_and(|ring| !ring.is_lost()) || process_ring::may_make_ring();
            records && table().lock().is_enabled()
        }
    }
}

/// `why`: what the program says of it, if anything.
pub(crate) fn dump(why: Option<&str>) -> Result<Dump, Error> {
    let why = why.map(moments::parse).transpose();
    let why = why.map_err(Error::Configuration)?;
    if let Some(host) = recorder::host() {
        return guest::ask(host, Operation::Dump, why.unwrap_or_default())
            .and_then(|text| answers::decode_dump(&text).ok_or_else(answers::garbled));
    }
    let reason = match why {
        Some(why) => format!("call: {why}"),
        None => owned("call"),
    };
    dumping::dump(state().ok_or_else(dumping::not_up)?, table(), &reason)
}

pub(crate) fn mark(name: &str) -> Result<(), Error> {
    if let Some(host) = recorder::host() {
        return guest::ask(host, Operation::Mark, name).map(drop);
    }
    sys::process::notice_child();
    match recorder::ring().filter(|ring| !ring.is_lost()).zip(state()) {
        Some((ring, state)) => {
            let marked = marks::add(ring, state, name);
            marked.map(drop).map_err(Error::Configuration)
        }
        None => moments::parse(name).map(drop).map_err(Error::Configuration),
    }
}

/// Makes a whole trace in a file without a name, and copies it to `writer`.
pub(crate) fn dump_to(writer: &mut dyn Write) -> Result<Dump, Error> {
    let (trace, dump) = match recorder::host() {
        Some(host) => {
            let text = guest::ask(host, Operation::DumpUnnamed, "")?;
            let mut parts = text::parts(&text, b' ');
            let mut taken = || {
                let trace = Mapped::from_text(parts.next()?, parts.next()?)?;
                Some((trace, answers::decode_dump(parts.rest()?)?))
            };
            taken().ok_or_else(answers::garbled)?
        }
        None => dump_unnamed()?,
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

/// The trace that [`dump_to`] copies, of this copy.
fn dump_unnamed() -> Result<(Mapped, Dump), Error> {
    dumping::dump_unnamed(state().ok_or_else(dumping::not_up)?, table(), "call")
}

pub(crate) fn statistics() -> Statistics {
    match recorder::host() {
        Some(host) => {
            let text = guest::ask(host, Operation::Statistics, "").unwrap_or_default();
            answers::decode_statistics(&text)
        }
        None => statistics::of_process(table()),
    }
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
        Operation::Dump => {
            let why = Some(argument).filter(|why| !why.is_empty());
            dump(why).map(|dump| answers::encode_dump(&dump))
        }
        Operation::Mark => mark(argument).map(|()| String::new()),
        Operation::DumpUnnamed => dump_unnamed()
            .map(|(trace, dump)| format!("{} {}", trace.into_text(), answers::encode_dump(&dump))),
        Operation::Statistics => Ok(answers::encode_statistics(&statistics())),
    }
}
