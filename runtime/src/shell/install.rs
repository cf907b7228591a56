//! Brings the recorder up, and dumps: everything that happens once per process or once per dump.

use core::sync::atomic::{AtomicU32, Ordering};
use std::ffi::CString;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fdr_formats::model::Clock;
use fdr_formats::{Ticks, TraceInfo};

use super::calibrate::{Anchor, Calibration, Frequency};
use super::config::{Config, Format, Mode};
use super::output::Names;
use super::sites::table;
use super::{config, dumper, fork, guest, output, say};
use crate::api::{Dump, Error};
use crate::clock::{self, Chosen};
use crate::dump::file::{self, Written};
use crate::recorder::{self, CLOCK, RING, ring};
use crate::ring::{Options, Ring};
use crate::site::unit;
use crate::sys;

/// What does not change once the recorder is up.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) chosen: Chosen,
    calibration: Calibration,
    /// The program's name, for the names of files.
    program: String,
}

static STATE: OnceLock<State> = OnceLock::new();

/// Held while the recorder is brought up.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Held during a dump: two never mix. True once the dump at exit was made: the end of the process
/// would cut off a later one.
static DUMPING: Mutex<bool> = Mutex::new(false);

/// The shortest time over which the clock's frequency is measured before a dump.
const BASELINE: Duration = Duration::from_millis(2);

/// The number of the next dump, from 1.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// What the recorder was brought up with; `None` while it is not.
pub(crate) fn state() -> Option<&'static State> {
    STATE.get()
}

/// Run by the loader. Without `FDR` in the environment, and without a host that records, it does
/// nothing.
pub(crate) fn at_load() {
    if let Some(host) = unit::host() {
        guest::join(host);
        return;
    }
    if sys::process::variable(c"FDR").is_none() {
        return;
    }
    match configuration() {
        Ok(config) => {
            let filter = config.filter.clone();
            if filter.is_off() {
                return;
            }
            match install(config) {
                Ok(()) => {
                    let mut table = table();
                    table.set_filter(filter);
                    table.enable(true);
                }
                Err(error) => say::warn(format_args!("{error}; recording is off")),
            }
        }
        Err(errors) => say::warn(format_args!("{}; recording is off", errors.join("; "))),
    }
}

/// What the environment says; nothing of it in setuid programs.
pub(crate) fn configuration() -> Result<Config, Vec<String>> {
    let start = std::env::current_dir().unwrap_or_default();
    let get = |name: &str| sys::process::variable(&CString::new(name).ok()?);
    Config::from(get, &start)
}

/// Brings the recorder up: clock, ring, table of sites, handlers, dumper. Nothing is on yet. Does
/// nothing where it is up.
pub(crate) fn install(config: Config) -> Result<(), String> {
    let _guard = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if ring().is_some() {
        return Ok(());
    }
    if STATE.get().is_none() {
        say::set_level(config.log);
        for warning in config::unknown_variables(std::env::vars_os().map(|(name, _)| name)) {
            say::warn(format_args!("{warning}"));
        }
        let chosen = clock::choose(config.clock);
        if let Some(note) = &chosen.note {
            say::warn(format_args!("{note}"));
        }
        CLOCK.store(chosen.kind as u32, Ordering::Relaxed);
        recorder::prepare();
        let calibration = Calibration::begin(chosen.kind, chosen.nominal_hz);
        let _ = STATE.set(State {
            config,
            chosen,
            calibration,
            program: output::program_name(),
        });
        if !sys::thread::watch_ends(recorder::on_thread_end) {
            return Err("no key for thread ends is left".into());
        }
        if !sys::process::at_exit(at_exit) {
            say::warn(format_args!(
                "atexit is full: there will be no dump at exit"
            ));
        }
        sys::process::at_fork_in_child(fork::in_child);
    }
    let Some(state) = STATE.get() else {
        return Err("the recorder is not up".into());
    };
    new_ring(state)?;
    unit::become_host(&guest::HOST);
    attach_units();
    for unit in unit::units() {
        if !core::ptr::eq(unit, &raw const unit::UNIT) {
            (unit.adopt)(&guest::HOST);
        }
    }
    if let Some(signal) = state.config.signal
        && !sys::signal::install(signal, dumper::on_signal)
    {
        say::warn(format_args!("FDR_SIGNAL: signal {signal} can't be handled"));
    }
    if state.config.panic {
        dump_on_panic();
    }
    dumper::start(true);
    say::info(format_args!(
        "recording with {}, {} KiB per thread",
        state.chosen.name,
        state.config.buffer_bytes / 1024
    ));
    Ok(())
}

/// Takes the sites of every unit in the process into the table.
pub(crate) fn attach_units() {
    for unit in unit::units() {
        guest::attach(unit);
    }
}

/// Makes the ring and publishes it.
fn new_ring(state: &State) -> Result<(), String> {
    let config = &state.config;
    let path = ring_path(state);
    if let Some(folder) = path.parent() {
        // What is wrong with it shows when the ring's file is made.
        let _ = std::fs::create_dir_all(folder);
    }
    let options = Options {
        buffer: config.buffer_bytes,
        memory: config.memory_bytes,
        full: config.mode == Mode::Full,
        clock: state.chosen.kind,
    };
    let name = CString::new(path.clone().into_os_string().into_vec())
        .map_err(|_| "FDR_DIR holds a NUL".to_owned())?;
    let (ring, trouble) = Ring::create(&name, &options).ok_or_else(|| {
        let bytes = config.memory_bytes;
        format!("no room for {bytes} bytes of addresses: set a smaller FDR_MEMORY")
    })?;
    if let Some(errno) = trouble {
        say::warn(format_args!(
            "{}: {}; the ring is in memory only, and lost with the process",
            path.display(),
            std::io::Error::from_raw_os_error(errno)
        ));
    }
    let header = ring.header();
    let start = state.calibration.start;
    header.start_ticks.store(start.ticks, Ordering::Relaxed);
    header
        .start_monotonic
        .store(start.monotonic_raw_ns, Ordering::Relaxed);
    header
        .start_realtime
        .store(start.realtime_ns, Ordering::Relaxed);
    table().publish(&ring);
    // Release: pairs with the Acquire of whoever records first. Never freed.
    RING.store(Box::into_raw(Box::new(ring)), Ordering::Release);
    Ok(())
}

/// A name in the rings' folder that nobody can guess.
fn ring_path(state: &State) -> PathBuf {
    let pid = sys::process::pid();
    let folder = match &state.config.dir {
        Some(dir) => dir.clone(),
        None => state.config.output.folder(&state.program, pid),
    };
    folder.join(format!(
        "{}.{pid}.{:016x}.fdr-ring",
        state.program,
        random()
    ))
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl State {
    /// The frequency as far as it is known now, without waiting.
    pub(crate) fn frequency(&self) -> Frequency {
        self.calibration.frequency(&Anchor::take(self.chosen.kind))
    }
}

extern "C" fn at_exit() {
    // A child of a fork that never recorded has no ring, and nothing of the parent's is its own.
    let Some(ring) = ring() else { return };
    let dumped = dump_and_say("exit");
    // Waits for a dump that began in between.
    *DUMPING.lock().unwrap_or_else(PoisonError::into_inner) = true;
    if let Some(path) = ring
        .path()
        .filter(|_| !matches!(dumped, Err(Error::Failed(_))))
    {
        sys::file::unlink(path);
    } else if let Some(path) = ring.path() {
        say::warn(format_args!(
            "the records are still in {}",
            path.to_string_lossy()
        ));
    }
}

fn dump_on_panic() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            previous(panic);
            let _ = dump_and_say("panic");
        }));
    });
}

/// Dumps and says on stderr what became of it.
pub(crate) fn dump_and_say(reason: &str) -> Result<Dump, Error> {
    // Held until it is said: the end of the process waits for both.
    let over = DUMPING.lock().unwrap_or_else(PoisonError::into_inner);
    let result = if *over {
        let why = "the process ends, and its last trace is written";
        Err(Error::Failed(why.into()))
    } else {
        dump(reason)
    };
    match &result {
        Ok(Dump {
            path,
            threads,
            records,
            overwritten,
            dropped,
        }) => say::warn(format_args!(
            "{} {}: {records} records of {threads} thread{}, {overwritten} overwritten, \
             {dropped} dropped",
            if replaced() { "replaced" } else { "wrote" },
            path.display(),
            if *threads == 1 { "" } else { "s" },
        )),
        Err(error @ Error::NothingRecorded(_)) => say::warn(format_args!("{error}")),
        Err(error) => say::warn(format_args!("no trace was written: {error}")),
    }
    result
}

/// Whether the dump just made took an earlier one's place.
fn replaced() -> bool {
    NUMBER.load(Ordering::Relaxed) > 2
        && state().is_some_and(|state| !state.config.output.is_numbered())
}

/// Writes what the ring holds. The caller holds the lock.
fn dump(reason: &str) -> Result<Dump, Error> {
    let (Some(ring), Some(state)) = (ring(), state()) else {
        return Err(Error::NothingRecorded(
            "set FDR=1 or call fdr::enable()".into(),
        ));
    };
    if recorded(ring) == 0 {
        return Err(Error::NothingRecorded(why_nothing()));
    }
    let info = trace_info(ring, state, reason);
    let version = match state.config.format {
        Format::Xray => fdr_formats::xray::Version::V3,
        Format::Xray1 => fdr_formats::xray::Version::V1,
    };
    let path = dump_path(state);
    let written = file::write(ring, &info, version, &path, random())
        .map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
    NUMBER.fetch_add(1, Ordering::Relaxed);
    let Written {
        threads,
        records,
        overwritten,
        dropped,
    } = written;
    Ok(Dump {
        path,
        threads,
        records,
        overwritten,
        dropped,
    })
}

/// The file of the next dump.
fn dump_path(state: &State) -> PathBuf {
    state.config.output.path(&Names {
        program: &state.program,
        pid: sys::process::pid(),
        number: u64::from(NUMBER.load(Ordering::Relaxed)),
        unix_time_s: clock::realtime_ns() / 1_000_000_000,
    })
}

/// Function records that were asked for, in all threads that are still known.
fn recorded(ring: &Ring) -> u64 {
    let of_slot = |slot| crate::dump::snapshot::committed(slot);
    ring.slots().map(of_slot).sum::<u64>() + ring.header().retired_records.load(Ordering::Relaxed)
}

fn trace_info(ring: &Ring, state: &State, reason: &str) -> TraceInfo {
    let frequency = state
        .calibration
        .frequency(&state.calibration.at_least(BASELINE));
    ring.header()
        .frequency
        .store(frequency.hz, Ordering::Relaxed);
    let start = state.calibration.start;
    TraceInfo {
        clock: Clock {
            frequency: frequency.hz,
            name: state.chosen.name.to_owned(),
            error_ppm: Some(frequency.error_ppm),
            constant: state.chosen.constant,
            nonstop: state.chosen.nonstop,
            anchor: Some((Ticks(start.ticks), start.realtime_ns)),
        },
        functions: table().for_trace(),
        program: state.program.clone(),
        process: Some(u64::from(sys::process::pid())),
        reason: reason.to_owned(),
        dump: Some(u64::from(NUMBER.load(Ordering::Relaxed))),
        start: Some(Ticks(start.ticks)),
        ..TraceInfo::default()
    }
}

/// Why nothing was recorded, and what to do.
fn why_nothing() -> String {
    let table = table();
    if table.len() == 0 {
        return "the program has no #[traced] function".into();
    }
    if table.filter().is_none() {
        return "recording was never turned on".into();
    }
    if table.on() > 0 {
        return format!(
            "none of the {} functions that are on was called",
            table.on()
        );
    }
    let mut text = String::from("no function matches ");
    for (at, (pattern, nearest)) in table.unmatched().iter().enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        let _ = write!(text, "{comma}`{pattern}` (nearest: {})", nearest.join(", "));
    }
    text
}
