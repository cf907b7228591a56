//! Both sides of a process with several copies of this crate: what the host gives to its guests,
//! and how a copy becomes a guest. See `site::unit`.

use std::sync::Mutex;

use super::control;
use super::sites::table;
use crate::api::Error;
use crate::recorder;
use crate::site::unit::{self, Host, Operation, Reply, Text, Unit};

/// What this copy does for guests while it is the host.
pub(crate) static HOST: Host = Host {
    record,
    record_untimed,
    reach: &recorder::REACH,
    attach: attach_c,
    control: host_control,
};

/// Makes this copy a guest of `host`: its records are made for that one from now on. False where it is a
/// host itself, or another one's guest.
pub(crate) extern "C" fn adopt(host: &'static Host) -> bool {
    // In one step, as what `install` chooses for a copy of its own: sites are on soon, and what is chosen
    // must be this host's by then.
    let _table = table();
    if let Some(mine) = recorder::host() {
        return core::ptr::eq(mine, host);
    }
    if !unit::UNIT.become_guest() {
        return false;
    }
    recorder::serve(host);
    true
}

/// A copy that was loaded after its host came up.
pub(crate) fn join(host: &'static Host) {
    if adopt(host) {
        (host.attach)(&unit::UNIT);
    }
}

/// Takes a unit's sites into the table, and into the ring's.
pub(crate) fn attach(unit: &'static Unit) {
    unit.pin();
    let mut table = table();
    table.attach(unit);
    if let Some(ring) = recorder::ring() {
        table.publish(ring);
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

/// What the numbers of a host's answer mean.
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
        Err(error) => (FAILED, error.to_string()),
    };
    reply.send(&text);
    code
}

/// Has the host carry out a call.
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
        _ => Err(Error::Failed(text)),
    }
}
