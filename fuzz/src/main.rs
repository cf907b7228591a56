//! The fuzzing program: libFuzzer gives inputs, [`check`] says what must hold. The format is named by the variable
//! `FUZZ_FORMAT`; without it, the formats are listed; with `FUZZ_SEEDS=FOLDER` alone, the seeds are written.
#![no_main]

mod alloc;
mod check;
mod folder;
mod pack;
mod seeds;
mod test_output;

use std::env;
use std::path::Path;
use std::process::exit;
use std::sync::LazyLock;

use fdr_formats::registry::{self, FORMATS, Format};
use fdr_formats::writer::Target;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// The most memory that the library may hold for an input of a few KiB: 512 MiB.
const LIMIT: usize = 512 << 20;

static FORMAT: LazyLock<&Format> = LazyLock::new(|| {
    let name = env::var("FUZZ_FORMAT").unwrap_or_default();
    let format = FORMATS.iter().find(|format| format.name == name);
    format.unwrap_or_else(|| panic!("FUZZ_FORMAT={name} is no format"))
});

/// What the program does when it is not to fuzz.
fn other_tasks() {
    if let Some(folder) = env::var_os("FUZZ_SEEDS") {
        seeds::write(Path::new(&folder)).expect("the seeds can be written");
        exit(0);
    }
    if env::var_os("FUZZ_FORMAT").is_none() {
        for format in FORMATS {
            println!("{}", format.name);
        }
        exit(0);
    }
}

/// The one target for an input. Its bytes decide which one, so the same input always does the same. All targets for
/// each input would be ten times slower.
fn target(input: &[u8]) -> Option<&'static Target> {
    let sum = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let count = registry::targets().count() as u64;
    registry::targets().nth(usize::try_from((sum >> 20).checked_rem(count)?).ok()?)
}

fuzz_target!(init: {
    other_tasks();
    alloc::Counting::limit(LIMIT);
}, |input: &[u8]| {
    let all = env::var_os("FUZZ_ALL_TARGETS").is_some();
    alloc::Counting::restart();
    match all {
        true => check::check(&FORMAT, input, registry::targets()),
        false => check::check(&FORMAT, input, target(input).into_iter()),
    }
});
