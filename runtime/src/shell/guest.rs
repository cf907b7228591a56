//! A process with several copies of this crate: the services of the host, and how a copy becomes a guest. See
//! `site::unit`. A copy must never be host and guest at once.

use std::io;
use std::sync::Mutex;

use super::sites::{self, Table, table};
use super::{control, made, panics};
use crate::api::{Error, Failure};
use crate::recorder::{self, process_ring};
use crate::site::CallSite;
use crate::site::unit::{self, Host, Operation, Reply, Text, Unit};
use crate::sys;

/// The services of this copy while it is the host.
pub(crate) static HOST: Host = Host {
    record,
    record_untimed,
    note: recorder::note_of_guest,
    task_begin: recorder::task::begin_of_guest,
    task_end: recorder::task::end_of_guest,
    task_drop: recorder::task::drop_of_guest,
    task_current: recorder::task::current_of_guest,
    task_enter: recorder::task::enter_of_guest,
    wait_me: recorder::wait::me_of_guest,
    wait_begin: recorder::wait::begin_of_guest,
    wait_tell: recorder::wait::tell_of_guest,
    wait_name: recorder::wait::name_of_guest,
    slot_access: &recorder::SLOT_ACCESS,
    attach: attach_c,
    control: host_control,
};

/// Makes this copy a guest of `host`, which makes its records from now on. False if this copy is a host, or the
/// guest of another one.
pub(crate) extern "C" fn adopt(host: &'static Host) -> bool {
    {
        // The whole step is under the lock, because `install` makes its own choice under the same lock. Sites may
        // be on soon after. Their records must then go to this host.
        let _table = table();
        if let Some(mine) = recorder::host() {
            return core::ptr::eq(mine, host);
        }
        if !unit::UNIT.become_guest() {
            return false;
        }
        recorder::set_host(host);
    }
    // The host finds the copy's own unit by itself.
    unit::made().for_each(|unit| (host.attach)(unit));
    panics::watch(false);
    made::recorder_is_up();
    true
}

/// Joins the host. For a copy that was loaded after its host came up.
pub(crate) fn join(host: &'static Host) {
    if adopt(host) {
        (host.attach)(&unit::UNIT);
    }
}

/// Takes the sites of a unit into the table and into the ring's table.
pub(crate) fn attach(unit: &'static Unit) {
    unit.pin();
    // This comes before the lock, because it frees a lock of the parent.
    sys::process::notice_child();
    // Only where an allocator makes sites while the table grows. Such sites stay off.
    if sites::is_mine() {
        return;
    }
    attach_to(&mut table(), unit);
}

/// The same, with the table at hand.
pub(super) fn attach_to(table: &mut Table, unit: &'static Unit) {
    table.attach(unit);
    let is_on = |site: &CallSite| site.state() != 0;
    // The ring that a child of a fork makes at its next record would lack the names.
    let ring = match unit.sites().iter().any(is_on) {
        true => process_ring::ring_or_make(),
        false => recorder::ring(),
    };
    if let Some(ring) = ring {
        table.publish(ring);
        if ring.is_lost() {
            unit.switch_off();
        }
    }
}

extern "C" fn attach_c(unit: &'static Unit) {
    attach(unit);
}

extern "C" fn record() -> *mut () {
    recorder::entrance()
}

extern "C" fn record_untimed() -> *mut () {
    recorder::entrance_untimed()
}

/// The codes of a host's answer.
const OK: u32 = 0;
const CONFIGURATION: u32 = 1;
const NOTHING: u32 = 2;
const FAILED: u32 = 3;

extern "C" fn host_control(operation: u32, argument: &Text<'_>, reply: &Reply<'_>) -> u32 {
    let Some(operation) = Operation::from_raw(operation) else {
        return FAILED;
    };
    let (code, text) = match control::answer(operation, argument.as_str()) {
        Ok(text) => (OK, text),
        Err(Error::Configuration(why)) => (CONFIGURATION, why),
        Err(Error::NothingRecorded(why)) => (NOTHING, why),
        Err(Error::Failed(failure)) => (FAILED, encode(&failure)),
        Err(error) => (FAILED, format!("{error}")),
    };
    reply.send(&text);
    code
}

/// Asks the host to carry out a call.
pub(crate) fn ask(
    host: &'static Host,
    operation: Operation,
    argument: &str,
) -> Result<String, Error> {
    let answer = Mutex::new(String::new());
    let argument = Text::new(argument);
    let code = (host.control)(operation as u32, &argument, &Reply::to(&answer));
    let text = answer.into_inner().unwrap_or_default();
    match code {
        OK => Ok(text),
        CONFIGURATION => Err(Error::Configuration(text)),
        NOTHING => Err(Error::NothingRecorded(text)),
        _ => Err(Error::Failed(decode(&text))),
    }
}

/// Text of a failure: what, remedy, and the system's error as its number or its text.
fn encode(failure: &Failure) -> String {
    let Failure {
        what,
        remedy,
        cause,
    } = failure;
    let cause = cause.as_ref().map_or(String::new(), |error| {
        let number = error.raw_os_error().map(|number| number.to_string());
        number.unwrap_or_else(|| format!("{error}"))
    });
    format!("{what}\0{remedy}\0{cause}")
}

fn decode(text: &str) -> Failure {
    let mut parts = text.splitn(3, '\0');
    let mut next = || parts.next().unwrap_or("");
    let (what, remedy, cause) = (next(), next(), next());
    let error = match cause.parse() {
        Ok(number) => io::Error::from_raw_os_error(number),
        Err(_) => io::Error::other(cause),
    };
    Failure::new(what, remedy, (!cause.is_empty()).then_some(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_survive_the_way_to_a_guest() {
        let errors = [
            None,
            Some(io::Error::from_raw_os_error(28)),
            Some(io::Error::other("left as it is")),
        ];
        for error in errors {
            let sent = Failure::new("/tmp/x: y", "do z", error);
            let come = decode(&encode(&sent));
            assert_eq!(Error::Failed(come.clone()), Error::Failed(sent.clone()));
            assert_eq!(come.in_full(), sent.in_full());
        }
    }
}
