//! An event for each panic, and a dump with its thread, place and message as the reason. The reason must have a limited
//! length.

use core::sync::atomic::{AtomicBool, Ordering};
use std::panic::PanicHookInfo;

use super::dumping::{self, Occasion};
use super::sites::{TableHandle, table};
use super::state::{State, state};
use super::{triggers, units};
use crate::events::{self, Form, Level, Value};
use crate::site::CallSite;
use crate::site::wait::WAITS;
use crate::sys::lock::Leaked;
use crate::{crash, sys};
use fdr_formats::text;

/// The largest number of bytes of a panic's message, and of the path of its place, in the reason.
const MAX_MESSAGE: usize = 400;
const MAX_PATH: usize = 200;

/// Records every panic, before the program's own hook runs. Dumps afterwards with `FDR_PANIC=1`, or if a trigger
/// `panic` says so. In a guest, the host may have the same hook, so the guest's hook records nothing. It only keeps
/// panics of code that prints values from the program's hook.
pub(crate) fn watch(is_host: bool) {
    static DONE: AtomicBool = AtomicBool::new(false);
    // A thread that panics may not change the hook.
    if std::thread::panicking() || DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    Hook::install(is_host);
}

/// The recorder's hook around the program's.
struct Hook {
    previous: Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>,
    is_host: bool,
}

impl Hook {
    /// Puts it around the present hook.
    fn install(is_host: bool) {
        let hook = Hook {
            previous: std::panic::take_hook(),
            is_host,
        };
        std::panic::set_hook(Box::new(move |panic| hook.run(panic)));
    }

    /// A panic calls this.
    fn run(&self, panic: &PanicHookInfo<'_>) {
        // Without the recorder the value would not be printed.
        if events::is_printing() {
            return;
        }
        if !self.is_host {
            return (self.previous)(panic);
        }
        let table = table();
        record(table, panic);
        (self.previous)(panic);
        let Some(state) = state() else { return };
        match state.config.panic {
            true => dump(state, table, &in_words(panic)),
            false => triggers::take_panic(state, table, || in_words(panic)),
        }
    }
}

impl Drop for Hook {
    /// The program has set another hook in its place.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            Hook::install(self.is_host);
        }
    }
}

/// Leaves an event `panic` with the message and the place in the trace, if recording is on.
fn record(table: TableHandle, panic: &PanicHookInfo<'_>) {
    /// The event, and the names of its fields. They are made at the first panic, so a program without one has none.
    static SITES: Leaked<&[CallSite]> = Leaked::new();
    if WAITS.state() < CallSite::MIN_ON {
        return;
    }
    let site = |name: &'static &'static str| CallSite::new::<()>(file!(), line!()).named(name);
    let make = || {
        let sites = vec![
            site(&"panic").event(),
            site(&"message").only_name(),
            site(&"at").only_name(),
        ];
        units::register_in(table, sites)
    };
    let [event, message, at] = SITES.get_or_init(make) else {
        return;
    };
    if event.id() == 0 {
        return;
    }
    let place = panic.location().map_or("", |place| place.file());
    let place = text::path_in_crate(place);
    let line = panic.location().map_or(0, |place| place.line());
    events::write(
        event,
        Form::Instant,
        Level::Error,
        &[
            (Some(message), Value::Text(message_of(panic))),
            (Some(at), Value::Display(&format_args!("{place}:{line}"))),
        ],
    );
}

/// The panic's message.
fn message_of<'a>(panic: &'a PanicHookInfo<'_>) -> &'a str {
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    message.unwrap_or("(a value that is no text)")
}

/// Dumps with the panicking thread first.
fn dump(state: &State, table: TableHandle, reason: &str) {
    let occasion = Occasion {
        thread: Some(sys::thread::tid()),
        ..Occasion::from_reason(reason)
    };
    match dumping::dump_with(state, table, &occasion) {
        Ok(_) => crash::panic_was_dumped(),
        Err(error) => dumping::print_error(&error, reason),
    }
}

/// The reason, such as `panic in thread 71 (worker) at src/main.rs:7:5: index out of bounds`. The number of the
/// thread comes first, because [`fdr_formats::TraceInfo::failed_thread`] reads it.
fn in_words(panic: &PanicHookInfo<'_>) -> String {
    let name = sys::thread::name();
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut line = format!(
        "panic in thread {} ({})",
        sys::thread::tid(),
        String::from_utf8_lossy(name)
    );
    if let Some(place) = panic.location() {
        // The end of a path says more than its beginning.
        let file = text::path_in_crate(place.file());
        let shown = text::last(file, MAX_PATH);
        let cut = if shown.len() < file.len() { "…" } else { "" };
        line += &format!(" at {cut}{shown}:{}:{}", place.line(), place.column());
    }
    let message = message_of(panic);
    let shown = text::cut(message, MAX_MESSAGE);
    let cut = if shown.len() < message.len() {
        "…"
    } else {
        ""
    };
    format!("{line}: {shown}{cut}")
}
