//! The states of threads: a stream file of their own, whose events are in the order of their times. Layout, pure, and
//! the events of a schedule.
//!
//! | class | name | fields |
//! | --- | --- | --- |
//! | 0 | `fdr:switch` | u64 thread (0: all threads), u32 CPU, u8 the new state (3: not known) |
//! | 1 | `fdr:sample` | u64 thread, u32 CPU, u8 cause, u64 address |
//! | 2 | `fdr:account` | u64 thread, u64 ns on a CPU, u64 ns of waiting for a CPU, u64 times that it got one |
//! | 3 | `fdr:module` | u64 first address, u64 the address behind it, u64 bias, texts build id (hexadecimal digits) and path: a file that was loaded into the program |

use super::packets::{Packets, Times};
use super::record::{NO_CPU, text};
use crate::model::{Account, Module, Sample, Schedule, Switch, Ticks};

/// The stream class.
pub(super) const STATES: u32 = 2;
/// The stream file.
pub(super) const FILE: &str = "states";

const SWITCH: u8 = 0;
const SAMPLE: u8 = 1;
const ACCOUNT: u8 = 2;
const MODULE: u8 = 3;
/// The state that is not known.
const UNKNOWN_STATE: u8 = 3;

/// The stream class in the metadata.
pub(super) const STREAM: &str = "
stream {
\tid = 2;
\tevent.header := struct event_header;
\tpacket.context := struct packet_context;
};
";

/// Name, stream class, id, fields.
pub(super) const EVENTS: &[(&str, u32, u8, &[&str])] = &[
    (
        "fdr:switch",
        STATES,
        SWITCH,
        &[
            "uint64_t thread",
            "uint32_t cpu",
            "enum : uint8_t { running = 0, preempted = 1, waiting = 2, unknown = 3 } state",
        ],
    ),
    (
        "fdr:sample",
        STATES,
        SAMPLE,
        &[
            "uint64_t thread",
            "uint32_t cpu",
            "enum : uint8_t { time = 0, page_fault = 1 } cause",
            "value_t address",
        ],
    ),
    (
        "fdr:account",
        STATES,
        ACCOUNT,
        &[
            "uint64_t thread",
            "uint64_t running_ns",
            "uint64_t run_delay_ns",
            "uint64_t times",
        ],
    ),
    (
        "fdr:module",
        STATES,
        MODULE,
        &[
            "value_t start",
            "value_t end",
            "value_t bias",
            "?build",
            "?path",
        ],
    ),
];

/// An entry of a schedule.
#[derive(Clone, Copy)]
enum ScheduleEntry<'a> {
    Switch(&'a Switch),
    Sample(&'a Sample),
    Account(&'a Account),
    /// With the time at which the list begins.
    Module(&'a Module, Ticks),
}

impl ScheduleEntry<'_> {
    fn time(&self) -> Ticks {
        match self {
            ScheduleEntry::Switch(switch) => switch.time,
            ScheduleEntry::Sample(sample) => sample.time,
            ScheduleEntry::Account(account) => account.time,
            ScheduleEntry::Module(_, begin) => *begin,
        }
    }

    fn put(&self, time: u64, out: &mut Vec<u8>) {
        let class = match self {
            ScheduleEntry::Switch(_) => SWITCH,
            ScheduleEntry::Sample(_) => SAMPLE,
            ScheduleEntry::Account(_) => ACCOUNT,
            ScheduleEntry::Module(..) => MODULE,
        };
        out.push(class);
        out.extend(time.to_le_bytes());
        match self {
            ScheduleEntry::Switch(switch) => {
                out.extend(switch.thread.0.to_le_bytes());
                out.extend(switch.cpu.0.to_le_bytes());
                out.push(switch.to.map_or(UNKNOWN_STATE, |state| state as u8));
            }
            ScheduleEntry::Sample(sample) => {
                out.extend(sample.thread.0.to_le_bytes());
                out.extend(sample.cpu.0.to_le_bytes());
                out.push(sample.cause as u8);
                out.extend(sample.address.to_le_bytes());
            }
            ScheduleEntry::Account(account) => {
                let numbers = [
                    account.thread.0,
                    account.running_ns,
                    account.run_delay_ns,
                    account.times,
                ];
                out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
            ScheduleEntry::Module(module, _) => {
                let numbers = [module.start, module.end, module.bias];
                out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                text(&hex(&module.build), out);
                text(&module.path, out);
            }
        }
    }
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Converts hexadecimal digits to bytes. Characters that are no pair of digits are left out.
pub(super) fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.filter_map(byte).collect()
}

/// The bytes of the stream file, some at a time.
pub(super) fn write<E>(
    schedule: &Schedule,
    uuid: [u8; 16],
    times: &mut Times,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let switches = schedule.switches.iter().map(ScheduleEntry::Switch);
    let samples = schedule.samples.iter().map(ScheduleEntry::Sample);
    let accounts = schedule.accounts.iter().map(ScheduleEntry::Account);
    let mut all: Vec<ScheduleEntry<'_>> = switches.chain(samples).chain(accounts).collect();
    let begin = all
        .iter()
        .map(ScheduleEntry::time)
        .min()
        .unwrap_or_default();
    all.extend(
        schedule
            .modules
            .iter()
            .map(|module| ScheduleEntry::Module(module, begin)),
    );
    all.sort_by_key(ScheduleEntry::time);
    let mut packets = Packets::new(uuid, STATES, 0);
    for one in all {
        let time = times.nanos(one.time());
        if !packets.has_room() {
            packets.begin(time, NO_CPU, false, 0);
        }
        one.put(time, packets.event(time));
        if packets.is_full() {
            take(packets.ready())?;
            packets.clear();
        }
    }
    take(packets.ready())
}
