//! The peers: what each is, what it needs, how it is run, and what it keeps of a call. It must name every
//! program of the workspace `bench/peers`, and only those; a test compares.

/// A program of `bench/peers`.
pub(crate) struct Peer {
    /// Its folder; the program is `peer-FOLDER`.
    pub(crate) folder: &'static str,
    pub(crate) version: Version,
    pub(crate) needs: Option<Need>,
    pub(crate) modes: &'static [Mode],
}

/// Where its version is told.
pub(crate) enum Version {
    /// None of its own.
    Ours,
    /// The crate's, in the lock file.
    Crate(&'static str),
    /// The first number in what this prints.
    Program(&'static [&'static str]),
}

/// What must be installed.
pub(crate) struct Need {
    /// A shell command that succeeds where it is.
    pub(crate) sign: &'static str,
    /// Debian's packages.
    pub(crate) packages: &'static [&'static str],
}

/// One way to use it: a row of the table.
pub(crate) struct Mode {
    /// The program's word for it.
    pub(crate) word: &'static str,
    pub(crate) label: &'static str,
    pub(crate) kind: Kind,
    /// What is kept of a call, and what is lost.
    pub(crate) keeps: &'static str,
}

/// What a row can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Not a recorder: what the two clock reads cost.
    Floor,
    /// Every call is kept, with its times.
    Records,
    /// Every call is kept, without times.
    Order,
    /// Sums per function are kept, no call.
    Sums,
    /// Compiled in, not recording.
    Off,
}

/// Crates of the workspace that are no peers: what those share.
pub(crate) const SHARED: [&str; 2] = ["harness", "native"];

/// The label of the floor that everything is divided by.
pub(crate) const FLOORS: [&str; 2] = ["floor, rdtsc", "floor, rdtscp"];

const CPP: Need = Need {
    sign: "command -v c++",
    packages: &["g++"],
};

pub(crate) const PEERS: &[Peer] = &[
    Peer {
        folder: "floor",
        version: Version::Ours,
        needs: None,
        modes: &[
            Mode {
                word: "rdtsc",
                label: FLOORS[0],
                kind: Kind::Floor,
                keeps: "two clock reads and two stores to one buffer, over and over; nothing can be read",
            },
            Mode {
                word: "rdtscp",
                label: FLOORS[1],
                kind: Kind::Floor,
                keeps: "the same; this clock waits for the loads before it, and tells the CPU",
            },
        ],
    },
    Peer {
        folder: "fdr",
        version: Version::Crate("fdr"),
        needs: None,
        modes: &[
            Mode {
                word: "rdtsc",
                label: "fdr, rdtsc",
                kind: Kind::Records,
                keeps: "the newest calls of each thread, 4 MiB of them, with CPU numbers and exact counts of \
                        what was overwritten; in a file while it runs, so also after kill -9",
            },
            Mode {
                word: "rdtscp",
                label: "fdr, rdtscp",
                kind: Kind::Records,
                keeps: "the same, with the default clock",
            },
            Mode {
                word: "untimed",
                label: "fdr, untimed",
                kind: Kind::Order,
                keeps: "which calls there were, in their order, without times; meant for hot leaves",
            },
            Mode {
                word: "off",
                label: "fdr, off",
                kind: Kind::Off,
                keeps: "",
            },
        ],
    },
    Peer {
        folder: "tracy",
        version: Version::Crate("tracy-client"),
        needs: Some(CPP),
        modes: &[Mode {
            word: "drained",
            label: "Tracy, drained",
            kind: Kind::Records,
            keeps: "all calls, in the viewer that is connected; without one, memory grows, and a crash loses \
                    what was not sent. Bytes: compressed, as sent; the receiver's CPU time is not counted",
        }],
    },
    Peer {
        folder: "fastrace",
        version: Version::Crate("fastrace"),
        needs: None,
        modes: &[
            Mode {
                word: "local",
                label: "fastrace, local",
                kind: Kind::Records,
                keeps: "the calls of a collector, as objects in memory, dropped there: nothing is reported",
            },
            Mode {
                word: "report",
                label: "fastrace, reported",
                kind: Kind::Records,
                keeps: "all calls, as objects given to a reporter, which drops them; of more than 10,240 in a \
                        local span, the rest is lost",
            },
        ],
    },
    Peer {
        folder: "puffin",
        version: Version::Crate("puffin"),
        needs: None,
        modes: &[Mode {
            word: "on",
            label: "puffin",
            kind: Kind::Records,
            keeps: "all calls, in frames given to a sink, which drops them; no CPU; a crash loses the frame",
        }],
    },
    Peer {
        folder: "hotpath",
        version: Version::Crate("hotpath"),
        needs: None,
        modes: &[Mode {
            word: "on",
            label: "hotpath",
            kind: Kind::Sums,
            keeps: "sums and percentiles per function, at the end; no call",
        }],
    },
    Peer {
        folder: "measureme",
        version: Version::Crate("measureme"),
        needs: None,
        modes: &[Mode {
            word: "on",
            label: "measureme",
            kind: Kind::Records,
            keeps: "all calls, in a file that grows (on a RAM disk here); no CPU; a crash loses the last page",
        }],
    },
    Peer {
        folder: "hawktracer",
        version: Version::Crate("rust_hawktracer"),
        needs: Some(Need {
            sign: "command -v c++ && command -v cmake",
            packages: &["g++", "cmake"],
        }),
        modes: &[Mode {
            word: "on",
            label: "HawkTracer",
            kind: Kind::Records,
            keeps: "all calls, in a file that grows (on a RAM disk here); no CPU; a crash loses buffers",
        }],
    },
    Peer {
        folder: "tracing",
        version: Version::Crate("tracing"),
        needs: None,
        modes: &[
            Mode {
                word: "fmt",
                label: "tracing, fmt",
                kind: Kind::Records,
                keeps: "a line of text at entry and at exit, all of them, to a writer that drops them",
            },
            Mode {
                word: "chrome",
                label: "tracing, chrome",
                kind: Kind::Records,
                keeps: "two JSON objects for each call, by a thread of its own, to a writer that drops them; \
                        its queue has no limit",
            },
            Mode {
                word: "off",
                label: "tracing, no subscriber",
                kind: Kind::Off,
                keeps: "",
            },
        ],
    },
    Peer {
        folder: "xray",
        version: Version::Program(&["clang-19", "--version"]),
        needs: Some(Need {
            sign: "command -v clang-19 && test -e \
                   \"$(clang-19 -print-resource-dir)/lib/linux/libclang_rt.xray-fdr-x86_64.a\"",
            packages: &["clang-19", "libclang-rt-19-dev"],
        }),
        modes: &[
            Mode {
                word: "tsc",
                label: "XRay FDR, rate told",
                kind: Kind::Records,
                keeps: "the newest calls, 4 MiB of them, with CPU numbers; a crash loses all. C; the program \
                        runs where a file tells the counter's rate, as root",
            },
            Mode {
                word: "clock",
                label: "XRay FDR, as it is",
                kind: Kind::Records,
                keeps: "the same. Where the kernel has no tsc_freq_khz in sysfs it reads a slow clock, and \
                        does not say so",
            },
        ],
    },
    Peer {
        folder: "uftrace",
        version: Version::Program(&["uftrace", "--version"]),
        needs: Some(Need {
            sign: "command -v uftrace && command -v gcc",
            packages: &["uftrace", "gcc"],
        }),
        modes: &[Mode {
            word: "on",
            label: "uftrace",
            kind: Kind::Records,
            keeps: "all calls, taken from shared memory by a process of its own and written to files (on a \
                    RAM disk here); if that falls behind, calls are lost and counted. C",
        }],
    },
    Peer {
        folder: "lttng",
        version: Version::Program(&["lttng", "--version"]),
        needs: Some(Need {
            sign: "command -v lttng && command -v lttng-sessiond && command -v gcc && \
                   ls /usr/lib/*/liblttng-ust-cyg-profile-fast.so.1",
            packages: &["lttng-tools", "liblttng-ust1", "gcc"],
        }),
        modes: &[Mode {
            word: "snapshot",
            label: "LTTng-UST, snapshot",
            kind: Kind::Records,
            keeps: "the newest calls of each CPU, 4 MiB of them, in memory shared with a daemon; survives the \
                    program's crash. C",
        }],
    },
];

/// Every row: a peer and its mode.
#[cfg(test)]
pub(crate) fn rows() -> Vec<(&'static Peer, &'static Mode)> {
    let of = |peer: &'static Peer| peer.modes.iter().map(move |mode| (peer, mode));
    PEERS.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::root;

    fn manifest(path: &str) -> String {
        let path = root().join("bench/peers").join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn the_list_is_the_workspace() {
        let workspace = manifest("Cargo.toml");
        let members = workspace.split_once("members = [").expect("members").1;
        let members = members.split_once(']').expect("the end of the members").0;
        // Comments have no quotes.
        let mut members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
        members.sort_unstable();
        let listed = PEERS.iter().map(|peer| peer.folder).chain(SHARED);
        let mut listed: Vec<&str> = listed.collect();
        listed.sort_unstable();
        assert_eq!(members, listed);
    }

    #[test]
    fn only_one_peer_depends_on_ours() {
        for folder in PEERS.iter().map(|peer| peer.folder).chain(SHARED) {
            let ours = manifest(&format!("{folder}/Cargo.toml")).contains("path = \"../../..");
            assert_eq!(ours, folder == "fdr", "{folder}");
        }
    }

    #[test]
    fn labels_are_unique_and_the_floors_come_first() {
        let rows = rows();
        let mut labels: Vec<&str> = rows.iter().map(|(_, mode)| mode.label).collect();
        assert_eq!(labels[..2], FLOORS);
        labels.sort_unstable();
        let count = labels.len();
        labels.dedup();
        assert_eq!(labels.len(), count);
        for (_, mode) in rows {
            assert_eq!(
                mode.keeps.is_empty(),
                mode.kind == Kind::Off,
                "{}",
                mode.label
            );
        }
    }
}
