//! Brings the recorder up: everything that happens once per process. If recording stays off, it must leave nothing
//! behind.

use core::sync::atomic::Ordering;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fdr_formats::ring::schedule::MODULES_BYTES;
use fdr_formats::text;
use fdr_formats::xray::crash_dump::states_bytes;

use super::calibrate::Calibration;
use super::config::{self, Sched, Settings};
use super::sites::TableHandle;
use super::state::{self, INSTALLING, State, state};
use super::{
    address, connection, dump_signal, dumper, exit, fork, guest, identity, last_thread,
    memory_limits, panics, stream, trace_info, triggers, units, waits,
};
use crate::api::Failure;
use crate::clock::{self, ChosenClock};
use crate::config::{Config, Log, Mode};
use crate::crash;
use crate::dump::output::Output;
use crate::dump::schedule;
use crate::messages;
use crate::recorder::{self, CLOCK, process_ring, ring};
use crate::ring::fork_ring::{MAX_PATH, write_path};
use crate::ring::schedule::PLACES;
use crate::ring::{Options, Ring};
use crate::site::unit::{self, Host};
use crate::sys;
use crate::sys::thread::without_float_traps;

/// The settings of the environment, otherwise those of the code. A setuid program ignores the environment.
pub(crate) fn settings(code: &Config) -> Result<Box<Settings>, String> {
    let start = std::env::current_dir().unwrap_or_else(|_| ".".into());
    Settings::from(&variable, code, &start).map_err(|errors| {
        let mut all = String::new();
        for error in &errors {
            text::append(&mut all, "; ", error);
        }
        all
    })
}

/// Whether the environment sets the filter.
pub(crate) fn has_filter() -> bool {
    variable("FDR").is_some_and(|filter| !filter.is_empty())
}

pub(super) fn variable(name: &str) -> Option<OsString> {
    sys::process::variable(&CString::new(name).ok()?)
}

/// Brings the recorder up: clock, ring, table of sites, handlers, dumper. No function is on yet. Does nothing
/// if the recorder is up. `None`: it was up in a parent of this process, and has its settings.
pub(crate) fn install(
    table: TableHandle,
    config: &mut Option<Box<Settings>>,
    host: &'static Host,
) -> Result<(), Failure> {
    // This comes before the lock, because it frees a lock of the parent.
    sys::process::notice_child();
    if INSTALLING.is_mine() {
        return Err("it is being brought up by this very thread".into());
    }
    let _guard = INSTALLING.lock();
    if state::is_up() && ring().is_some() {
        return Ok(());
    }
    // Under the lock, because another thread may have brought the recorder up since the caller looked.
    let known = state();
    let settings = known.map(|state| &state.config);
    let address = settings
        .or(config.as_ref())
        .and_then(|of| of.address.as_ref());
    let keeps_stdout = address.is_some_and(address::is_stdout) && !sys::process::is_fork_child();
    let thread = sys::thread::tid();
    sys::own_table::look_for_valgrind();
    // The settings are passed by reference, because copies of them would be on the program's stack.
    let bring_up = || without_float_traps(|| bring_up(known, table, config, host, thread));
    let bring_up = || catch_unwind(AssertUnwindSafe(bring_up));
    // The ring and the threads come up beside the program's files. This thread waits, and only the descriptors of the two
    // differ: a new thread could wait for the loader's lock, which this one may have.
    let up = sys::signal::undisturbed(|| {
        // If a handler forked meanwhile, the child would go on with objects of its parent.
        sys::own_table::with_own_table_and(keeps_stdout, bring_up)
    });
    messages::print_left();
    let up = up.map_err(|errno| dumper::no_thread(io::Error::from_raw_os_error(errno)))?;
    up.unwrap_or_else(|_| Err("the recorder did not come up".into()))?;
    last_thread::watch_main();
    state::note_up();
    Ok(())
}

/// This copy has become a guest.
const TOO_LATE: &str = "another copy of the recorder came up at the same time";

/// Says what is wrong with the settings, and chooses the clock.
// Out of line, because the loader's functions for the clock take much of the program's stack.
#[inline(never)]
fn choose_clock(config: &Settings) -> Result<ChosenClock, Failure> {
    if let Some(folder) = config.output.missing_folder() {
        return Err(Failure::new(
            &format!("FDR_OUT: there is no folder {}", folder.display()),
            "make it, or end FDR_OUT with a / to have a folder made for the traces",
            None,
        ));
    }
    messages::set_level(config.log);
    let ours = sys::process::variables_that_begin("FDR_");
    for warning in config::unknown_variables(ours.into_iter()) {
        messages::warn(format_args!("{warning}"));
    }
    if let Some(note) = &config.format_note {
        messages::warn(format_args!("{note}"));
    }
    let chosen = clock::choose(config.clock);
    if let Some(note) = &chosen.note {
        messages::warn(format_args!("{note}"));
    }
    CLOCK.store(chosen.kind as u32, Ordering::Relaxed);
    Ok(chosen)
}

/// Makes the state that does not change any more.
// Out of line, because the state is long, and all of this runs on the stack of the program.
#[inline(never)]
fn make_state(
    table: TableHandle,
    config: Box<Settings>,
    chosen: ChosenClock,
) -> Result<&'static State, Failure> {
    // This comes before the table is locked. It may need the loader's lock, and the thread that has that
    // lock may be making this copy a guest.
    let slot = recorder::fixed_offset();
    {
        let mut table = table.lock();
        if recorder::host().is_some() {
            return Err(TOO_LATE.into());
        }
        table.set_bits(recorder::prepare(chosen.kind, slot, config.keeps()));
    }
    let identity = identity::gather(&config);
    let calibration = Calibration::begin(chosen.kind, chosen.nominal_hz);
    if !sys::thread::watch_ends(last_thread::on_thread_end) {
        messages::info(format_args!(
            "no key for thread ends is left: rings of threads that ended are reused only when \
             there is no other room"
        ));
    }
    if !sys::process::at_exit(exit::at_exit) {
        messages::warn(format_args!(
            "atexit is full: there will be no dump at exit"
        ));
    }
    waits::begin();
    // This comes last, so a child that is forked meanwhile does all of it again.
    Ok(state::set(State::new(
        config,
        chosen,
        calibration,
        identity,
    )))
}

/// `known` is the state if there is one. `thread` is the thread that asked for the recorder. The calling thread stands in
/// for it.
fn bring_up(
    known: Option<&'static State>,
    table: TableHandle,
    config: &mut Option<Box<Settings>>,
    host: &'static Host,
    thread: u32,
) -> Result<(), Failure> {
    // This comes first, because a fork must not divide the steps below.
    fork::watch();
    let state = match known {
        Some(state) => state,
        None => {
            let config = config.take().ok_or("the recorder is not up")?;
            let chosen = choose_clock(&config)?;
            make_state(table, config, chosen)?
        }
    };
    if let Some(address) = state.address().filter(|_| !sys::process::is_fork_child()) {
        connection::prepare(address)?;
    }
    match process_ring::ring_or_make() {
        Some(ring) => table.lock().begin(ring, state),
        None => new_ring(state, table, thread)?,
    }
    let found = {
        // The loader's lock is taken inside ours. A fork would leave the loader's lock locked in the child.
        let _table = table.lock();
        match unit::UNIT.become_host(host) {
            true => Ok(unit::units()),
            false => Err(unit::host()),
        }
    };
    let units = found.map_err(|other| {
        // The other copy may not have found this copy yet.
        let join = |host| guest::join(table, host);
        other.into_iter().for_each(join);
        TOO_LATE
    })?;
    for unit in units {
        if core::ptr::eq(unit, &raw const unit::UNIT) || unit.adopt(host) {
            units::attach(table, unit);
        }
    }
    triggers::begin(state, table);
    prepare_for_crashes(state);
    let fails = |&signal: &i32| !sys::signal::install(signal, dump_signal::on_signal);
    if let Some(signal) = state.config.signal.filter(fails) {
        messages::warn(format_args!("FDR_SIGNAL: signal {signal} can't be handled"));
    }
    dumper::start(state, table).inspect_err(|_| {
        // Nothing is recorded, so nothing is left behind.
        if let Some(path) = ring().and_then(Ring::path) {
            sys::file::unlink(path);
        }
    })?;
    panics::watch(true);
    // A child of a fork has no stream, because its parent has it.
    if state.config.mode == Mode::Stream
        && !sys::process::is_fork_child()
        && !state.output().is_null()
    {
        stream::start(state, table);
    }
    messages::info(format_args!(
        "recording with {}, {} KiB per thread",
        state.chosen.name,
        ring().map_or(0, Ring::region_size) / 1024
    ));
    Ok(())
}

/// Installs the dump of a crash unless the user opted out, and prepares what a dump without a dumper needs.
// Out of line, because all of this runs on the stack of the program.
#[inline(never)]
fn prepare_for_crashes(state: &State) {
    let config = &state.config;
    let Some(ring) = ring() else { return };
    // If traces are sent to an address, these are the default names, in the folder at start.
    let output = match (&config.address, &config.dir) {
        (Some(_), Some(dir)) => Output::default_in(dir, "fdr"),
        _ if config.format.0.name.starts_with("xray") => config.output.clone(),
        // A crash writes the recorder's own format, whatever the format of other traces is.
        _ => config.output.with_extension("fdr"),
    };
    let ready = crash::prepare(crash::Setup {
        states: match ring.has_place_for_states() {
            true => states_bytes(PLACES, MODULES_BYTES),
            false => 0,
        },
        output,
        // What is prepared for a crash is never freed.
        info: Box::leak(trace_info::lasting(state)),
        region_size: ring.region_size(),
        handle: config.crash,
        quiet: config.log == Log::Quiet,
    });
    if !ready {
        messages::warn(format_args!(
            "no memory to be ready for a crash: it leaves the ring for `fdr dump`"
        ));
    }
}

/// Makes the ring and publishes it. `thread` is the one that brings the recorder up.
// Out of line, because all of this runs on the stack of the program.
#[inline(never)]
fn new_ring(state: &'static State, table: TableHandle, thread: u32) -> Result<(), Failure> {
    let config = &state.config;
    let template = ring_template(state);
    let make_folders = makes_ring_folder(config);
    process_ring::make_folders(make_folders);
    let mut folders = Ok(());
    let path = match template {
        [] => None,
        template => {
            // It is on the heap, because the program's stack may be small.
            let path: &mut [u8; MAX_PATH] = vec![0; MAX_PATH]
                .leak()
                .try_into()
                .map_err(|_| "FDR_DIR is too long")?;
            let length = write_path(template, path).ok_or("FDR_DIR is too long")?;
            let path = path.get_mut(..=length).unwrap_or_default();
            if make_folders {
                folders = sys::file::make_folders(path);
            }
            Some(CStr::from_bytes_with_nul(path).map_err(|_| "FDR_DIR holds a NUL")?)
        }
    };
    let options = Options {
        buffer: config.buffer_bytes,
        memory: config.memory_bytes,
        full: config.mode == Mode::Full,
        keeps: config.keeps(),
        states: config.may_have_states(),
        clock: state.chosen.kind,
        template,
    };
    let (mut ring, trouble) = memory_limits::new_ring(path, options)?;
    if let (Some(errno), Some(path)) = (trouble, path) {
        // The reason why the folder can't be made says more than "not found".
        let of_folders = folders.err().filter(|_| errno == libc::ENOENT);
        let errno = of_folders.unwrap_or(errno);
        let remedy = match errno {
            libc::ENOENT if !make_folders => "; an FDR_DIR with a / at its end is made",
            _ => "",
        };
        messages::ring_error(format_args!(
            "{}: {}; the ring is in memory only, and lost with the process{remedy}",
            path.to_string_lossy(),
            std::io::Error::from_raw_os_error(errno)
        ));
    }
    let header = ring.header();
    let start = state.start();
    header.start_ticks.store(start.ticks, Ordering::Relaxed);
    header
        .start_monotonic
        .store(start.monotonic_raw_ns, Ordering::Relaxed);
    header
        .start_realtime
        .store(start.realtime_ns, Ordering::Relaxed);
    let frequency = state.frequency().hz;
    header.frequency.store(frequency, Ordering::Relaxed);
    let kind = state.chosen.kind;
    recorder::keep(config.keeps().then_some(config.keep), kind, frequency);
    header
        .clock_flags
        .store(state.clock_flags(), Ordering::Relaxed);
    match config.sched {
        Sched::Always => record_states(&ring, thread),
        // The dumper must not ask the loader later: a thread that has the loader's lock may wait for it.
        Sched::Auto if config.may_have_states() => schedule::note_loaded(),
        _ => {}
    }
    ring.set_program(&state.program);
    ring.set_identity(state.identity.as_bytes());
    table.lock().begin(&ring, state);
    // The first record of the first thread should not wait until a slot is made.
    ring.prepare_spares(1);
    // A ring is never freed.
    process_ring::publish(Box::into_raw(Box::new(ring)));
    Ok(())
}

/// Begins to record when `thread`, and the threads that it makes, run and wait. Prints a line if the kernel does
/// not allow it.
#[inline(never)]
fn record_states(ring: &Ring, thread: u32) {
    let (how, error) = match schedule::begin(ring, thread) {
        Some(schedule::Source::Switches) => return,
        Some(schedule::Source::Sums(error)) => {
            ("only its sums for each thread are recorded", error)
        }
        None => ("no states of threads are recorded", libc::ENOSPC),
    };
    messages::warn(format_args!(
        "FDR_SCHED: the kernel tells no context switches ({}); {how}",
        std::io::Error::from_raw_os_error(error)
    ));
}

/// Whether a missing folder of rings is made: as `FDR_DIR` or the output says.
fn makes_ring_folder(config: &Settings) -> bool {
    match &config.dir {
        Some(dir) => dir.as_os_str().as_bytes().ends_with(b"/"),
        None => config.output.makes_folders(),
    }
}

/// The path of rings without its random end. A NUL stands for the pid. Empty = rings have no files.
fn ring_template(state: &State) -> &'static [u8] {
    let mut template = match &state.config.dir {
        Some(dir) => dir.as_os_str().as_bytes().to_vec(),
        None if state.config.output.is_null() => return &[],
        None => state.config.output.folder_template(&state.program),
    };
    template.push(b'/');
    template.extend_from_slice(state.program.as_bytes());
    template.extend_from_slice(b".\0");
    template.leak()
}
