//! Whom the recording is of. It is gathered once, when the recorder starts, because a crash or a kill leaves no time
//! for it.

use fdr_formats::identity::{Identity, Part};

use super::config::Settings;
use crate::site::unit::UNIT;
use crate::sys::{file, notes};

/// Host, boot, build, version and tags of this process. Not async-signal-safe.
// Out of line, because this runs on the stack of the program.
#[inline(never)]
pub(crate) fn gather(settings: &Settings) -> Identity {
    let kernel = |path: &str| file::kernel_text(path).unwrap_or_default();
    let host = kernel("/proc/sys/kernel/hostname");
    let boot = kernel("/proc/sys/kernel/random/boot_id");
    let mut build = String::new();
    for byte in notes::build_id().unwrap_or_default() {
        build += &format!("{byte:02x}");
    }
    let own = || UNIT.sites().iter().find_map(|site| site.program_version());
    let version = settings.version.as_deref().or_else(own);
    let mut identity = Identity::default();
    for (part, text) in Part::ALL.into_iter().zip([
        host.trim_ascii_end(),
        boot.trim_ascii_end(),
        &build,
        version.unwrap_or_default(),
        &settings.tags,
    ]) {
        identity.set(part, text);
    }
    identity
}
