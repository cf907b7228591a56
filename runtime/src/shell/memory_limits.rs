//! How large rings may be where memory or addresses are limited: for a container, or for a process. The program must not
//! be killed, and must not run out of addresses, because of rings. All of them stay below a quarter of the smallest limit.

use std::ffi::{CStr, CString};

use fdr_formats::text::{self, parts};

use crate::api::Failure;
use crate::messages;
use crate::ring::layout::CHUNK;
use crate::ring::{Options, Ring};
use crate::sys::{self, file::kernel_text};

/// The least that all rings, and one ring, are made smaller to. A region has two chunks at the least.
const MIN_RING: u64 = 2 * CHUNK as u64;

/// How many threads should get a ring where the rings are made smaller.
const THREADS: u64 = 16;

/// The least addresses that a process has left if it is recorded, bytes. With less, its own threads might find none beside
/// the rings.
const MIN_LEFT_TO_RECORD: u64 = 32 << 20;

/// The least addresses that a process has left if it makes a trace, bytes. With less, an allocation might fail, which ends
/// the process. A copy of a ring is checked by itself.
const MIN_LEFT_TO_DUMP: u64 = 4 << 20;

/// From this number on it is no limit. The kernel says "none" by a number that is a little less than 2^63.
const NO_LIMIT: u64 = 1 << 60;

/// Makes a ring, in a file if there is a path and a file can be made. Otherwise the second value is the errno.
pub(crate) fn new_ring(
    path: Option<&'static CStr>,
    mut options: Options,
) -> Result<(Ring, Option<i32>), Failure> {
    let create = |path, options: &Options| {
        Ring::create(path, options).ok_or_else(|| {
            let what = format!("no room for {} bytes of addresses", options.memory);
            Failure::new(&what, "set a smaller FDR_MEMORY", None)
        })
    };
    check_addresses(
        MIN_LEFT_TO_RECORD,
        "raise their limit by 32 MiB (ulimit -v)",
    )?;
    let in_memory = path.is_none_or(|path| is_in_memory(path.to_bytes()));
    apply(&mut options, in_memory);
    let (ring, trouble) = create(path, &options)?;
    if in_memory || trouble.is_none() {
        return Ok((ring, trouble));
    }
    ring.discard();
    apply(&mut options, true);
    Ok((create(None, &options)?.0, trouble))
}

/// Makes the rings smaller if they would take too much, and says so. `in_memory`: the kernel can't write them to a disk
/// to get memory.
#[inline(never)]
fn apply(options: &mut Options, in_memory: bool) {
    let (before, bytes) = (options.buffer, options.memory);
    let container = of_containers();
    // The names of functions have addresses of their own.
    let addresses = sys::memory::address_limit().map(|limit| (limit / 8, limit, "addresses"));
    let in_memory = container.filter(|_| in_memory);
    let memory = in_memory.map(|limit| (limit / 32 * 7, limit, "memory"));
    let limits = addresses.into_iter().chain(memory);
    let least = limits.filter(|(most, ..)| *most < bytes).min();
    let (limit, what) = match (least, container) {
        (Some((most, limit, what)), _) => {
            options.memory = (most / CHUNK as u64 * CHUNK as u64).max(MIN_RING);
            // A ring has totals of half its size.
            options.buffer = before.min(whole_chunks(options.memory / THREADS * 2 / 3));
            (limit, what)
        }
        // A thread may fill its ring faster than the disk takes it.
        (None, Some(limit)) if before > whole_chunks(limit / 16) => {
            options.buffer = whole_chunks(limit / 16);
            (limit, "memory")
        }
        _ => return,
    };
    messages::warn(format_args!(
        "the limit of {} KiB of {what} leaves {} KiB for all rings, {} KiB per thread",
        limit >> 10,
        options.memory >> 10,
        options.buffer >> 10,
    ));
}

/// Checks that the process has addresses for a trace.
///
/// # Errors
/// If it has too few.
pub(crate) fn check_addresses_for_dump() -> Result<(), Failure> {
    check_addresses(MIN_LEFT_TO_DUMP, "raise their limit (ulimit -v)")
}

fn check_addresses(least: u64, remedy: &str) -> Result<(), Failure> {
    let Some(left) = addresses_left().filter(|&left| left < least) else {
        return Ok(());
    };
    let what = format!("the process has {} KiB of addresses left", left >> 10);
    Err(Failure::new(&what, remedy, None))
}

/// The bytes of addresses that the process may still take. `None`: there is no limit.
fn addresses_left() -> Option<u64> {
    let limit = sys::memory::address_limit()?;
    let sizes = kernel_text("/proc/self/statm")?;
    let pages = text::number(parts(&sizes, b' ').next()?)?;
    Some(limit.saturating_sub(pages * sys::perf::page_size() as u64))
}

fn whole_chunks(bytes: u64) -> u64 {
    bytes.next_multiple_of(CHUNK as u64).max(MIN_RING)
}

/// Whether files in the folder of that file are in memory.
fn is_in_memory(file: &[u8]) -> bool {
    let end = file.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    let folder = CString::new(file.get(..=end).unwrap_or_default());
    folder.is_ok_and(|folder| sys::memory::has_files_in_memory(&folder))
}

/// The smallest limit of memory of the containers that the process is in.
fn of_containers() -> Option<u64> {
    let groups = kernel_text("/proc/self/cgroup")?;
    let mounts = kernel_text("/proc/self/mountinfo")?;
    smallest(&groups, &mounts, &kernel_text)
}

/// As [`of_containers`], from the texts of these files. `read` reads further files. Source: cgroups(7), proc(5).
fn smallest(groups: &str, mounts: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let mut least = None::<u64>;
    for mount in parts(mounts, b'\n') {
        let mut fields = parts(mount, b' ');
        let (Some(root), Some(top)) = (fields.nth(3), fields.next()) else {
            continue;
        };
        // Behind the last optional field: the kind, the source, the options.
        let _ = fields.find(|&field| field == "-");
        let (kind, options) = (fields.next().unwrap_or_default(), fields.nth(1));
        let (file, controller) = match kind {
            "cgroup2" => ("/memory.max", ""),
            "cgroup" if has(options.unwrap_or_default(), "memory") => {
                ("/memory.limit_in_bytes", "memory")
            }
            _ => continue,
        };
        let own = parts(groups, b'\n').find_map(|line| {
            let mut fields = parts(line, b':');
            let controllers = fields.nth(1)?;
            fields.rest().filter(|_| has(controllers, controller))
        });
        // In a container the path may be of a tree that the container does not see. Its top is the container's then.
        let root = root.trim_end_matches('/');
        let own = own.and_then(|own| own.strip_prefix(root));
        let own = own.filter(|own| own.is_empty() || own.starts_with('/'));
        let mut own = own.unwrap_or_default().trim_end_matches('/');
        loop {
            let text = read(&[top, own, file].concat()).unwrap_or_default();
            let limit = text::number(text::trimmed(&text));
            if let Some(limit) = limit.filter(|&limit| limit < NO_LIMIT) {
                least = Some(least.map_or(limit, |least| least.min(limit)));
            }
            let Some(parent) = own.rfind('/').and_then(|at| own.get(..at)) else {
                break;
            };
            own = parent;
        }
    }
    least
}

/// Whether a list with commas has that word.
fn has(list: &str, word: &str) -> bool {
    parts(list, b',').any(|one| one == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "30 23 0:26 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                       31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
    const NEW: &str = "35 23 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    fn found(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
        smallest(groups, mounts, &|path| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_smallest_limit_of_all_parents_counts() {
        let new = "/sys/fs/cgroup/a/b/memory.max";
        let parent = "/sys/fs/cgroup/a/memory.max";
        let groups = "0::/a/b\n";
        assert_eq!(
            found(groups, NEW, &[(new, "100\n"), (parent, "max\n")]),
            Some(100)
        );
        assert_eq!(
            found(groups, NEW, &[(new, "max\n"), (parent, "70\n")]),
            Some(70)
        );
        assert_eq!(found(groups, NEW, &[(new, "max\n")]), None);
        let old = "/sys/fs/cgroup/memory/c/memory.limit_in_bytes";
        let groups = "5:memory:/c\n2:cpu:/d\n0::/a/b\n";
        let both = [OLD, NEW].concat();
        assert_eq!(
            found(groups, &both, &[(old, "50\n"), (new, "60\n")]),
            Some(50)
        );
        assert_eq!(found(groups, OLD, &[(old, "9223372036854771712\n")]), None);
    }

    #[test]
    fn a_container_sees_its_own_limit() {
        // The mount begins at the container's own folder, or its path is not seen at all.
        let mounts = NEW.replace(" / /sys", " /docker/x /sys");
        let files = [
            ("/sys/fs/cgroup/memory.max", "64\n"),
            ("/sys/fs/cgroup/in/memory.max", "32\n"),
        ];
        assert_eq!(found("0::/docker/x\n", &mounts, &files), Some(64));
        assert_eq!(found("0::/docker/x/in\n", &mounts, &files), Some(32));
        assert_eq!(found("0::/elsewhere\n", &mounts, &files), Some(64));
        assert_eq!(found("0::/gone\n", NEW, &files), Some(64));
    }
}
