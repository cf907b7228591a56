//! Brings the recorder up: everything that happens once per process. Must never end the program, nor
//! leave anything behind where recording stays off.

use core::sync::atomic::Ordering;
use std::ffi::{CString, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::calibrate::{Anchor, Calibration, Frequency};
use super::config::{self, Config, Mode};
use super::filter::Filter;
use super::sites::table;
use super::{dumper, dumping, fork, guest, link, output, say, stream};
use crate::clock::{self, Chosen};
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
    pub(crate) program: String,
}

static STATE: OnceLock<State> = OnceLock::new();

/// The shortest time over which the clock's frequency is measured before a dump.
const BASELINE: Duration = Duration::from_millis(2);

/// Held while the recorder is brought up.
static INSTALLING: Mutex<()> = Mutex::new(());

/// What the recorder was brought up with; `None` while it is not.
pub(crate) fn state() -> Option<&'static State> {
    STATE.get()
}

/// Run by the loader. Without `FDR` in the environment, and without a host that records, it does
/// nothing.
pub(crate) fn at_load() {
    unit::UNIT.set_ready();
    if let Some(host) = unit::host() {
        guest::join(host);
        return;
    }
    if sys::process::variable(c"FDR").is_none() {
        return;
    }
    if let Err(why) = record_from_start() {
        say::error(format_args!("{why}; recording is off"));
        // Who mistyped a variable may send the dump signal all the same: it shall not kill.
        sys::signal::ignore_if_default(libc::SIGUSR2);
    }
}

/// Does what `FDR` says.
fn record_from_start() -> Result<(), String> {
    if variable("FDR").is_some_and(|text| text.to_str().is_some_and(Filter::means_off)) {
        return Ok(());
    }
    let config = configuration().map_err(|errors| errors.join("; "))?;
    let filter = config.filter.clone();
    if filter.is_off() {
        return Ok(());
    }
    install(config)?;
    let (on, all) = {
        let mut table = table();
        table.set_filter(filter);
        (table.enable(true), table.len())
    };
    say::info(format_args!("{on} of {all} traced functions are recorded"));
    Ok(())
}

/// What the environment says; nothing of it in setuid programs.
pub(crate) fn configuration() -> Result<Config, Vec<String>> {
    let start = std::env::current_dir().unwrap_or_else(|_| ".".into());
    Config::from(variable, &start)
}

fn variable(name: &str) -> Option<OsString> {
    sys::process::variable(&CString::new(name).ok()?)
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
        let bit = recorder::prepare(chosen.kind, unit::is_executable());
        table().set_own_bit(bit);
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
        if !sys::process::at_exit(dumping::at_exit) {
            say::warn(format_args!(
                "atexit is full: there will be no dump at exit"
            ));
        }
        sys::process::at_fork_in_child(fork::in_child);
    }
    let Some(state) = STATE.get() else {
        return Err("the recorder is not up".into());
    };
    if let Some(address) = &state.config.address {
        link::prepare(address)?;
    }
    new_ring(state)?;
    if !unit::UNIT.become_host(&guest::HOST) {
        return Err("another copy of the recorder came up at the same time".into());
    }
    for unit in unit::units() {
        if core::ptr::eq(unit, &raw const unit::UNIT) || (unit.adopt)(&guest::HOST) {
            guest::attach(unit);
        }
    }
    if let Some(signal) = state.config.signal
        && !sys::signal::install(signal, dumper::on_signal)
    {
        say::warn(format_args!("FDR_SIGNAL: signal {signal} can't be handled"));
    }
    if state.config.panic {
        dumping::dump_on_panic();
    }
    dumper::start(true);
    if state.config.mode == Mode::Stream {
        stream::start();
    }
    say::info(format_args!(
        "recording with {}, {} KiB per thread",
        state.chosen.name,
        state.config.buffer_bytes / 1024
    ));
    Ok(())
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
    header
        .frequency
        .store(state.frequency().hz, Ordering::Relaxed);
    let flags = u32::from(state.chosen.constant) | u32::from(state.chosen.nonstop) << 1;
    header.clock_flags.store(flags, Ordering::Relaxed);
    ring.set_program(&state.program);
    table().publish(&ring);
    // The first thread's first record shall not have to wait for its making.
    ring.prepare_spare();
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

pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl State {
    /// The frequency as far as it is known now, without waiting.
    pub(crate) fn frequency(&self) -> Frequency {
        self.calibration.frequency(&Anchor::take(self.chosen.kind))
    }

    /// The frequency over [`BASELINE`] at least.
    pub(crate) fn settled_frequency(&self) -> Frequency {
        self.calibration
            .frequency(&self.calibration.at_least(BASELINE))
    }

    /// The moment at which the recorder came up.
    pub(crate) fn start(&self) -> Anchor {
        self.calibration.start
    }
}
