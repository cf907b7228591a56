//! What the system says of this process: mappings, descriptors, the ring's memory, and the recorder's own
//! thread. It reads files and decides nothing.

use std::error::Error;
use std::fs;
use std::mem::MaybeUninit;
use std::path::PathBuf;

/// How a ring file's name ends, and the name of the recorder's thread.
const RING: &str = ".fdr-ring";
const DUMPER: &str = "fdr-dumper";

/// What the process holds at a moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Holdings {
    /// All mappings, and those of the ring.
    mappings: u64,
    ring_mappings: u64,
    /// Memory of the ring that is mapped in, and as much of it as is in huge pages, in KiB.
    ring_kib: u64,
    ring_huge_kib: u64,
    descriptors: u64,
    /// CPU time of the recorder's own thread since its beginning, in ns.
    dumper_ns: u64,
}

impl Holdings {
    /// # Errors
    ///
    /// If the system does not say it.
    pub(crate) fn now() -> Result<Holdings, String> {
        let read = || -> Result<Holdings, Box<dyn Error>> {
            let mut holdings = Holdings::default();
            holdings.add_mappings(&fs::read_to_string("/proc/self/smaps")?);
            // The list is read through one of its own.
            holdings.descriptors = fs::read_dir("/proc/self/fd")?.count() as u64 - 1;
            holdings.dumper_ns = dumper_ns()?;
            Ok(holdings)
        };
        read().map_err(|error| format!("cannot tell what the process holds: {error}"))
    }

    fn add_mappings(&mut self, smaps: &str) {
        let mut of_ring = false;
        for line in smaps.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let kib = || {
                let number = rest.split_whitespace().next();
                number.and_then(|number| number.parse().ok()).unwrap_or(0)
            };
            match word {
                "Rss:" if of_ring => self.ring_kib += kib(),
                "ShmemPmdMapped:" | "FilePmdMapped:" if of_ring => self.ring_huge_kib += kib(),
                // A mapping begins with its addresses.
                _ if !word.ends_with(':') => {
                    of_ring = line.ends_with(RING);
                    self.mappings += 1;
                    self.ring_mappings += u64::from(of_ring);
                }
                _ => {}
            }
        }
    }

    /// Words for xtask.
    pub(crate) fn words(&self) -> String {
        let Holdings {
            mappings,
            ring_mappings,
            ring_kib,
            ring_huge_kib,
            descriptors,
            dumper_ns,
        } = self;
        format!(
            "mappings={mappings} ring_mappings={ring_mappings} ring_kib={ring_kib} \
             ring_huge_kib={ring_huge_kib} descriptors={descriptors} dumper_ns={dumper_ns}"
        )
    }
}

/// CPU time of the recorder's own thread, in ns; 0 where there is none.
fn dumper_ns() -> Result<u64, Box<dyn Error>> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        // A thread may have ended meanwhile.
        let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
        if name.trim_end() == DUMPER {
            let text = fs::read_to_string(task.join("schedstat"))?;
            let on_cpu = text.split_whitespace().next().unwrap_or_default();
            return Ok(on_cpu.parse()?);
        }
    }
    Ok(0)
}

/// The path of this process's ring, as the system lists its mappings.
pub(crate) fn ring_file() -> Result<PathBuf, Box<dyn Error>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with(RING));
    let path = line.and_then(|line| Some(&line[line.find('/')?..]));
    Ok(path.ok_or("this process has no ring file")?.into())
}

/// Page faults of the calling thread so far.
pub(crate) fn thread_faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a rusage, of which every bit pattern is a value.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_minflt + usage.ru_majflt).cast_unsigned()
}

/// The calling thread, as the kernel counts.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: gettid has no precondition.
    unsafe { libc::gettid() }.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0          [heap]
Size:                132 kB
Rss:                 100 kB
FilePmdMapped:         0 kB
VmFlags: rd wr mr mw me ac
7f0000000000-7f0040000000 rw-s 00000000 00:1a 7          /dev/shm/a b/x.71.5f.fdr-ring
Rss:                4096 kB
ShmemPmdMapped:     2048 kB
FilePmdMapped:         0 kB
VmFlags: rd wr sh mr mw me ms
7f0040000000-7f0040001000 r--p 00000000 00:00 0
Rss:                   4 kB
";

    #[test]
    fn the_ring_is_found_among_the_mappings() {
        let mut holdings = Holdings::default();
        holdings.add_mappings(SMAPS);
        let expected = Holdings {
            mappings: 3,
            ring_mappings: 1,
            ring_kib: 4096,
            ring_huge_kib: 2048,
            ..Holdings::default()
        };
        assert_eq!(holdings, expected);
    }

    #[test]
    fn the_system_says_what_a_process_holds() {
        let holdings = Holdings::now().expect("it says it");
        assert!(
            holdings.mappings > 3 && holdings.descriptors >= 1,
            "{holdings:?}"
        );
        assert_eq!(holdings.ring_mappings, 0);
        let before = thread_faults();
        std::hint::black_box(vec![1_u8; 8 << 20]);
        assert!(thread_faults() > before);
    }
}
