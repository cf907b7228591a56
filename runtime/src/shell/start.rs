//! The start of a program that has `FDR` in its environment: before `main`, without a call of the program.

use fdr_formats::filter::Filter;

use super::cargo::is_part_of_a_build;
use super::control::HOST;
use super::sites::{TableHandle, table};
use super::{guest, install, triggers};
use crate::api::Failure;
use crate::config::Config;
use crate::messages;
use crate::recorder;
use crate::site::unit;
use crate::sys;

/// The loader calls this. It does nothing if `FDR` is not in the environment and no other copy records.
pub(crate) fn at_load() {
    unit::UNIT.set_ready(guest::adopt);
    if let Some(host) = unit::host() {
        guest::join(table(), host);
        return;
    }
    if sys::process::variable(c"FDR").is_none() || is_part_of_a_build() {
        return;
    }
    if let Err(why) = record_from_start(table()) {
        messages::error(format_args!("{}; recording is off", why.in_full()));
        // A user who mistyped a variable may still send the dump signal. It must not kill the program.
        sys::signal::ignore_if_default(libc::SIGUSR2);
    }
}

/// Does what `FDR` says.
fn record_from_start(table: TableHandle) -> Result<(), Failure> {
    if install::variable("FDR").is_some_and(|text| text.to_str().is_some_and(Filter::means_off)) {
        return Ok(());
    }
    let config = install::settings(&Config::new())?;
    let filter = config.filter.clone().unwrap_or_default();
    if filter.is_off() {
        return Ok(());
    }
    if let Err(why) = install::install(table, &mut Some(config), &HOST) {
        // Another copy came up meanwhile and has made this copy its guest. That copy does what `FDR` says.
        return recorder::host().map(|_| ()).ok_or(why);
    }
    let (on, all) = {
        let mut table = table.lock();
        table.set_filter(filter);
        (table.enable(true), table.switched())
    };
    messages::info(format_args!("{on} of {all} traced functions are recorded"));
    for problem in triggers::problems(table) {
        messages::warn(format_args!("{problem}"));
    }
    Ok(())
}
