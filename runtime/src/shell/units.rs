//! Units and their sites: how they come into the table and into the ring's table. Sites that are made at run time are
//! like those of a library that is loaded later.

use super::sites::{Table, TableHandle, table};
use super::state::state;
use crate::recorder::{self, process_ring};
use crate::site::CallSite;
use crate::site::unit::{self, Unit};
use crate::sys;
use crate::sys::lock::Leaked;

/// The callback of the code that makes sites at run time, and waits for the recorder.
static WHEN_UP: Leaked<fn()> = Leaked::new();

/// Takes the sites of a unit into the table and into the ring's table.
pub(crate) fn attach(table: TableHandle, unit: &'static Unit) {
    unit.pin();
    // This comes before the lock, because it frees a lock of the parent.
    sys::process::notice_child();
    // Only where an allocator makes sites while the table grows. Such sites stay off.
    if table.is_mine() {
        return;
    }
    attach_to(&mut table.lock(), unit);
}

/// As [`attach`], for a caller that holds the table.
fn attach_to(table: &mut Table, unit: &'static Unit) {
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

/// Takes sites into the table. They are on at once if the filter names them. They are never freed. If the calling
/// thread has the table, because its allocator makes sites, they stay off.
#[must_use]
pub fn register(sites: Vec<CallSite>) -> &'static [CallSite] {
    register_in(table(), sites)
}

/// As [`register`], for a caller that was given the table.
pub(crate) fn register_in(table: TableHandle, sites: Vec<CallSite>) -> &'static [CallSite] {
    let sites: &'static [CallSite] = sites.leak();
    // A guest that this copy becomes later finds them there.
    let unit = unit::make(sites);
    // As in `attach`.
    sys::process::notice_child();
    if table.is_mine() {
        return sites;
    }
    let host = {
        let mut table = table.lock();
        let host = recorder::host();
        if host.is_none() {
            attach_to(&mut table, unit);
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
    state().is_some() || recorder::host().is_some()
}

/// Has `callback` called when the recorder comes up later. Only the first call counts.
pub fn when_up(callback: fn()) {
    let _ = WHEN_UP.set(callback);
}

/// Called when the recorder has come up. The caller holds no lock of the recorder, except the lock of the start.
pub(crate) fn recorder_is_up() {
    if let Some(callback) = WHEN_UP.get() {
        callback();
    }
}
