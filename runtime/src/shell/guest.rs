//! Both sides of a process with several copies of this crate: what the host gives to its guests,
//! and how a copy becomes a guest. See `site::unit`.

use core::sync::atomic::Ordering;
use std::sync::Mutex;

use super::sites::table;
use super::{config, control};
use crate::api::Error;
use crate::clock;
use crate::recorder::{self, CLOCK};
use crate::ring::layout::Slot;
use crate::site::unit::{self, Host, Operation, Reply, Text, Unit};
use crate::sys;

/// What this copy does for guests while it is the host.
pub(crate) static HOST: Host = Host {
    claim,
    homeless,
    attach: attach_c,
    clock: host_clock,
    control: host_control,
};

/// Makes this copy a guest of `host`: its threads take their slots there from now on.
pub(crate) extern "C" fn adopt(host: &'static Host) {
    if recorder::host().is_some() {
        return;
    }
    unit::pin();
    CLOCK.store((host.clock)(), Ordering::Relaxed);
    // Finds the thread's rseq area for this copy, which the host's clock may need.
    let _ = clock::choose(config::Clock::Rdtsc);
    recorder::prepare();
    sys::thread::watch_ends(recorder::on_thread_end_of_guest);
    sys::process::at_fork_in_child(forget_in_child);
    recorder::serve(host);
}

/// A copy that was loaded after its host came up.
pub(crate) fn join(host: &'static Host) {
    adopt(host);
    (host.attach)(&unit::UNIT);
}

extern "C" fn forget_in_child() {
    recorder::forget();
}

/// Takes a unit's sites into the table, and into the ring's.
pub(crate) fn attach(unit: &'static Unit) {
    let mut table = table();
    table.attach(unit);
    if let Some(ring) = recorder::ring() {
        table.publish(ring);
    }
}

extern "C" fn attach_c(unit: &'static Unit) {
    attach(unit);
}

extern "C" fn claim() -> Option<&'static Slot> {
    recorder::slot_of_this_thread()
}

extern "C" fn homeless() {
    recorder::homeless();
}

extern "C" fn host_clock() -> u32 {
    CLOCK.load(Ordering::Relaxed)
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
