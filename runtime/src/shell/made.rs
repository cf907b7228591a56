//! Sites that are made at run time: they are in the table like those of a library that is loaded later. This file must
//! never take the table's lock twice.

use std::sync::OnceLock;

use super::sites::{self, table};
use super::{guest, install};
use crate::recorder;
use crate::site::CallSite;
use crate::site::unit;
use crate::sys;

/// Whoever makes sites, and waits for the recorder.
static TELL: OnceLock<fn()> = OnceLock::new();

/// Takes sites into the table. They are on at once if the filter names them. They are never freed. If the calling
/// thread has the table, because its allocator makes sites, they stay off.
#[must_use]
pub fn register(sites: Vec<CallSite>) -> &'static [CallSite] {
    let sites: &'static [CallSite] = sites.leak();
    // A guest that this copy becomes later finds them there.
    let unit = unit::make(sites);
    // As in `guest::attach`.
    sys::process::notice_child();
    if sites::is_mine() {
        return sites;
    }
    let host = {
        let mut table = table();
        let host = recorder::host();
        if host.is_none() {
            guest::attach_to(&mut table, unit);
        }
        host
    };
    if let Some(host) = host {
        (host.attach)(unit);
    }
    sites
}

/// Whether sites can be on: the recorder is up, in this copy or in its host. Once it is, it stays so.
#[must_use]
pub fn is_up() -> bool {
    install::state().is_some() || recorder::host().is_some()
}

/// Has `tell` called when the recorder comes up later. Only the first call counts.
pub fn when_up(tell: fn()) {
    let _ = TELL.set(tell);
}

/// The recorder has come up. No lock of the recorder is held, except that of bringing it up.
pub(crate) fn recorder_is_up() {
    if let Some(tell) = TELL.get() {
        tell();
    }
}
