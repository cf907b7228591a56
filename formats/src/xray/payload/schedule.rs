//! Thread states as payloads: switches, samples and accounts. Little-endian where they are written.

#[cfg(feature = "read")]
use crate::bytes::Fields;
use crate::model::{Account, Module, Sample, Schedule, Switch};
#[cfg(feature = "read")]
use crate::model::{Cause, State};
#[cfg(feature = "read")]
use crate::model::{CpuId, ThreadId, Ticks};

/// The kind of a payload of switches.
pub const SWITCHES: u8 = 18;
/// The kind of samples.
pub const SAMPLES: u8 = 19;
pub(super) const ACCOUNTS: u8 = 20;
/// The kind of modules.
pub const MODULES: u8 = 21;
/// The state that is not known.
const UNKNOWN_STATE: u8 = 3;
/// The most rows of a payload.
const BATCH: usize = 2048;
/// The most modules of a payload.
const MODULES_BATCH: usize = 64;

/// A row of a payload of switches. Threads and CPUs keep their lower bits. Async-signal-safe.
#[must_use]
pub fn switch_row(switch: &Switch) -> [u8; 16] {
    let to = switch.to.map_or(UNKNOWN_STATE, |state| state as u8);
    let place = place(switch.thread.0, switch.cpu.0, to);
    (u128::from(switch.time.0) | u128::from(place) << 64).to_le_bytes()
}

/// A row of a payload of samples. Async-signal-safe.
#[must_use]
pub fn sample_row(sample: &Sample) -> [u8; 24] {
    let place = place(sample.thread.0, sample.cpu.0, sample.cause as u8);
    words([sample.time.0, place, sample.address])
}

/// A row of a payload of accounts. Async-signal-safe.
#[must_use]
pub fn account_row(account: &Account) -> [u8; 40] {
    words([
        account.time.0,
        u64::from(account.thread.0 as u32),
        account.running_ns,
        account.run_delay_ns,
        account.times,
    ])
}

fn place(thread: u64, cpu: u32, what: u8) -> u64 {
    u64::from(thread as u32) | u64::from(cpu as u16) << 32 | u64::from(what) << 48
}

fn words<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, from) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&from.to_le_bytes());
    }
    bytes
}

/// The bytes of a module, in a payload and in a ring file.
pub fn put_module(module: &Module, out: &mut Vec<u8>) {
    out.extend(
        [module.start, module.end, module.bias]
            .map(u64::to_le_bytes)
            .as_flattened(),
    );
    let lengths = [module.build.len(), module.path.len()];
    out.extend(
        lengths
            .map(|length| (length as u32).to_le_bytes())
            .as_flattened(),
    );
    out.extend_from_slice(&module.build);
    out.extend_from_slice(module.path.as_bytes());
    out.resize(out.len().next_multiple_of(8), 0);
}

/// Decodes modules up to the first damaged one. The second result: whether no module is damaged.
#[cfg(feature = "read")]
#[must_use]
pub(crate) fn modules(mut fields: Fields<'_>) -> (Vec<Module>, bool) {
    let mut list = Vec::new();
    while !fields.is_empty() {
        let Some(module) = module(&mut fields) else {
            return (list, false);
        };
        list.push(module);
    }
    (list, true)
}

#[cfg(feature = "read")]
fn module(fields: &mut Fields<'_>) -> Option<Module> {
    let (start, end, bias) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (build, path) = (fields.u32()? as usize, fields.u32()? as usize);
    let build = fields.bytes(build)?.to_vec();
    let text = String::from_utf8_lossy(fields.bytes(path)?).into_owned();
    let rest = (build.len() + path).wrapping_neg() % 8;
    fields.bytes(rest)?;
    Some(Module {
        start,
        end,
        bias,
        build,
        path: text,
    })
}

/// The head of a payload with `rows` rows, or with `rows` bytes of modules. `kind`: 18 to 21.
/// Async-signal-safe.
#[must_use]
pub fn head(kind: u8, rows: u32) -> [u8; 16] {
    let words = [super::head(kind), u64::from(rows).to_le_bytes()];
    let mut head = [0; 16];
    head.copy_from_slice(words.as_flattened());
    head
}

/// All of a schedule, in as many payloads as it needs.
pub fn encode(schedule: &Schedule) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut rest = UnwrittenSchedule {
        switches: &schedule.switches,
        samples: &schedule.samples,
        accounts: &schedule.accounts,
        modules: &schedule.modules,
    };
    std::iter::from_fn(move || rest.take())
}

/// The part of a schedule that no payload has yet.
struct UnwrittenSchedule<'a> {
    switches: &'a [Switch],
    samples: &'a [Sample],
    accounts: &'a [Account],
    modules: &'a [Module],
}

impl UnwrittenSchedule<'_> {
    /// The next payload.
    fn take(&mut self) -> Option<Vec<u8>> {
        if let Some(batch) = take_some(&mut self.switches, BATCH) {
            let mut payload = begun(SWITCHES, batch.len());
            for of in batch {
                payload.extend_from_slice(&switch_row(of));
            }
            return Some(payload);
        }
        if let Some(batch) = take_some(&mut self.samples, BATCH) {
            let mut payload = begun(SAMPLES, batch.len());
            for of in batch {
                payload.extend_from_slice(&sample_row(of));
            }
            return Some(payload);
        }
        if let Some(batch) = take_some(&mut self.accounts, BATCH) {
            let mut payload = begun(ACCOUNTS, batch.len());
            for of in batch {
                payload.extend_from_slice(&account_row(of));
            }
            return Some(payload);
        }
        let batch = take_some(&mut self.modules, MODULES_BATCH)?;
        let mut rows = Vec::new();
        for module in batch {
            put_module(module, &mut rows);
        }
        let mut payload = begun(MODULES, rows.len());
        payload.append(&mut rows);
        Some(payload)
    }
}

/// Takes up to `most` elements from the front of the list. `None`: the list is empty.
fn take_some<'a, T>(list: &mut &'a [T], most: usize) -> Option<&'a [T]> {
    let (some, rest) = list.split_at(list.len().min(most));
    *list = rest;
    (!some.is_empty()).then_some(some)
}

#[inline(never)]
fn begun(kind: u8, rows: usize) -> Vec<u8> {
    head(kind, rows as u32).to_vec()
}

/// The rows of a payload behind its head. Rows of unknown causes are left out. `None`: it is damaged.
#[cfg(feature = "read")]
pub(super) fn decode(kind: u8, mut fields: Fields<'_>) -> Option<Schedule> {
    let (count, _zero) = (fields.u32()?, fields.u32()?);
    let mut schedule = Schedule::default();
    if kind == MODULES {
        let (list, is_whole) = modules(fields.part(count as usize)?);
        schedule.modules = list;
        return is_whole.then_some(schedule);
    }
    for _ in 0..count {
        let time = Ticks(fields.u64()?);
        let thread = ThreadId(fields.u32()?.into());
        if kind == ACCOUNTS {
            let _zero = fields.u32()?;
            schedule.accounts.push(Account {
                time,
                thread,
                running_ns: fields.u64()?,
                run_delay_ns: fields.u64()?,
                times: fields.u64()?,
            });
            continue;
        }
        let cpu = CpuId(fields.u16()?.into());
        let (what, _zero) = (fields.u8()?, fields.u8()?);
        if kind == SWITCHES {
            let to = State::from_number(what);
            schedule.switches.push(Switch {
                time,
                thread,
                cpu,
                to,
            });
            continue;
        }
        let address = fields.u64()?;
        schedule
            .samples
            .extend(Cause::from_number(what).map(|cause| Sample {
                time,
                thread,
                cpu,
                cause,
                address,
            }));
    }
    Some(schedule)
}

#[cfg(all(test, feature = "read"))]
mod tests {
    use super::super::{Payload, decode};
    use super::*;
    use crate::bytes::ByteOrder;

    #[test]
    fn what_is_written_is_read() {
        let (time, thread, cpu) = (Ticks(u64::MAX - 1), ThreadId(4_000_000_000), CpuId(65_535));
        let to = [None, Some(State::Running), Some(State::Preempted)];
        let mut switches: Vec<Switch> = to
            .into_iter()
            .chain(std::iter::repeat_n(Some(State::Waiting), BATCH))
            .map(|to| Switch {
                time,
                thread,
                cpu,
                to,
            })
            .collect();
        switches[0].thread = ThreadId(0);
        let samples = [Cause::Time, Cause::PageFault].map(|cause| Sample {
            time,
            thread,
            cpu,
            cause,
            address: 0x1234_5678_9abc_def0,
        });
        let account = Account {
            time,
            thread,
            running_ns: 1,
            run_delay_ns: u64::MAX,
            times: 3,
        };
        let module = |bytes: usize| Module {
            start: 4096,
            end: u64::MAX,
            bias: 1,
            build: vec![7; bytes],
            path: "/ü".repeat(bytes),
        };
        let schedule = Schedule {
            switches,
            samples: samples.to_vec(),
            accounts: vec![account],
            modules: vec![module(3), module(0)],
            is_complete: false,
        };
        let mut read = Schedule::default();
        let mut payloads = 0;
        for payload in encode(&schedule) {
            assert_eq!(payload.len() % 8, 0);
            let Some(Payload::Schedule(part)) = decode(&payload, ByteOrder::Little) else {
                panic!("it is not read as a schedule");
            };
            read.append(part);
            payloads += 1;
            // Cut anywhere, it is damaged, and nothing else happens.
            for end in (8..payload.len()).step_by(7) {
                assert!(decode(&payload[..end], ByteOrder::Little).is_none());
            }
        }
        assert_eq!((read, payloads), (schedule, 5));
    }
}
