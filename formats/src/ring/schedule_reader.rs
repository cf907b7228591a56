//! The states of threads, read from a ring file that a recorder may be writing. Nothing is allocated from a size of the
//! file that is not checked.

use super::layout::Header;
use super::schedule::{HEAD_SIZE, MAX_BYTES, MODULES_BYTES, decode};
use crate::bytes::{ByteOrder, Fields, ReadAt};
use crate::model::Schedule;
use crate::xray::payload::schedule::modules;

/// The states of threads in the ring. Empty: the ring has none, or they can't be read.
pub(super) fn schedule(bytes: &dyn ReadAt, header: &Header) -> Schedule {
    let read = |at: u64, size: u64, fits: &dyn Fn(usize) -> bool| {
        let size = usize::try_from(size.min(bytes.size().saturating_sub(at))).unwrap_or(0);
        let mut part = vec![0; if at > 0 && fits(size) { size } else { 0 }];
        let count = bytes.read_at(at, &mut part).unwrap_or(0);
        part.truncate(count);
        part
    };
    let log = || {
        let fits = |size: usize| (HEAD_SIZE..=MAX_BYTES).contains(&size);
        read(header.schedule, header.schedule_size, &fits)
    };
    let once = log();
    // The second reading comes after the first one.
    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
    let mut schedule = decode(&once, &log(), &header.anchor());
    if !schedule.samples.is_empty() {
        let loaded = read(header.modules, header.modules_size, &|size| {
            size <= MODULES_BYTES
        });
        (schedule.modules, _) = modules(Fields::new(&loaded, ByteOrder::Little));
    }
    schedule
}
