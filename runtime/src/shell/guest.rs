//! A process with several copies of this crate: how a copy becomes a guest, and how it calls its host. See
//! `site::unit`. A copy must never be host and guest at once.

#![expect(
    clippy::disallowed_types,
    reason = "the lock lives for one command, on the stack of its thread"
)]

use std::sync::Mutex;

use super::sites::{TableHandle, table};
use super::{answers, panics, units};
use crate::api::Error;
use crate::recorder;
use crate::site::unit::{self, Host, Operation, Reply, Text};

/// Another copy calls this to become the host of this copy, see [`become_guest`].
pub(crate) extern "C" fn adopt(host: &'static Host) -> bool {
    become_guest(table(), host)
}

/// Makes this copy a guest of `host`, which makes its records from now on. False if this copy is a host, or the
/// guest of another one.
fn become_guest(table: TableHandle, host: &'static Host) -> bool {
    {
        // The whole step is under the lock, because `install` makes its own choice under the same lock. Sites may
        // be on soon after. Their records must then go to this host.
        let _table = table.lock();
        if let Some(mine) = recorder::host() {
            return core::ptr::eq(mine, host);
        }
        if !unit::UNIT.become_guest() {
            return false;
        }
        recorder::set_host(host);
    }
    // The host attaches the copy's main unit without this call.
    unit::made().for_each(|unit| (host.attach)(unit));
    panics::watch(false);
    units::recorder_is_up();
    true
}

/// Joins the host. For a copy that was loaded after its host came up.
pub(crate) fn join(table: TableHandle, host: &'static Host) {
    if become_guest(table, host) {
        (host.attach)(&unit::UNIT);
    }
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
        answers::OK => Ok(text),
        answers::CONFIGURATION => Err(Error::Configuration(text)),
        answers::NOTHING => Err(Error::NothingRecorded(text)),
        _ => Err(Error::Failed(answers::decode_failure(&text))),
    }
}
