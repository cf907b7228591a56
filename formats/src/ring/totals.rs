//! The totals of a slot, read beside a thread that may be counting. Nothing in them is believed that can be
//! checked: a damaged file gives no more rows than it has room for.

use std::io;
use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

use super::layout::{Header, LENGTHS, ROW_SIZE, Row, TOTALS_SIZE, Totals};
use crate::bytes::{ByteOrder, Fields, ReadAt};
use crate::model::{Estimate, FunctionId, FunctionTotals, RecordingCost, Ticks};

/// How often a row is read until its lengths add up to its calls.
const MAX_READS: u32 = 64;

/// The totals of the slot with that index. The totals of ended threads are behind those of the last slot. Empty: the
/// ring has none.
pub(super) fn read(
    bytes: &dyn ReadAt,
    header: &Header,
    index: u32,
) -> io::Result<Vec<FunctionTotals>> {
    let mut list = Vec::new();
    let size = header.totals_size;
    let start = size
        .checked_mul(index.into())
        .and_then(|at| at.checked_add(header.totals))
        .filter(|_| header.totals > 0);
    let Some(start) = start.filter(|at| at.saturating_add(size) <= bytes.size()) else {
        return Ok(list);
    };
    let mut count = [0; 4];
    bytes.read_at(start + offset_of!(Totals, rows) as u64, &mut count)?;
    fence(Ordering::Acquire);
    let most = size.saturating_sub(TOTALS_SIZE as u64) / ROW_SIZE as u64;
    let rows = u64::from(u32::from_le_bytes(count)).min(most);
    let mut buffer = vec![0; ROW_SIZE];
    for row in 0..rows {
        let at = start + TOTALS_SIZE as u64 + row * ROW_SIZE as u64;
        let mut found = None;
        for _ in 0..MAX_READS {
            let count = read_row(bytes, at, &mut buffer)?;
            let decoded = buffer.get(..count).and_then(decode);
            let is_whole = decoded.as_ref().is_none_or(|decoded| decoded.1);
            found = decoded.map(|decoded| decoded.0);
            if is_whole {
                break;
            }
        }
        // A process that was killed may have been counting a call. Then the row is taken as it is.
        let found = found.filter(|totals| !totals.is_empty());
        list.extend(found);
    }
    Ok(list)
}

/// Reads a row while its owner may be counting. The owner counts a call first and its length last. So the lengths are
/// read first and the calls last. If the lengths add up to the calls, no call was counted in between. Returns how many
/// bytes there are.
fn read_row(bytes: &dyn ReadAt, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let (calls, lengths) = (offset_of!(Row, calls), offset_of!(Row, lengths));
    let behind = bytes.read_at(at + lengths as u64, &mut buffer[lengths..])?;
    fence(Ordering::Acquire);
    let before = bytes.read_at(at, &mut buffer[..lengths])?;
    fence(Ordering::Acquire);
    let _ = bytes.read_at(at + calls as u64, &mut buffer[calls..calls + 8])?;
    Ok(if before < lengths {
        before
    } else {
        before + behind
    })
}

/// Decodes a row. Also returns whether its lengths add up to its calls. If they do not, a call was being counted.
fn decode(bytes: &[u8]) -> Option<(FunctionTotals, bool)> {
    let mut fields = Fields::new(bytes, ByteOrder::Little);
    let function = FunctionId(fields.u32()?);
    let nests = fields.u32()? != 0;
    let (calls, untimed) = (fields.u64()?, fields.u64()?);
    let (total, own, longest) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let fields_at = |at: usize| Some(Fields::new(bytes.get(at..)?, ByteOrder::Little));
    let mut fields = fields_at(offset_of!(Row, lengths))?;
    let (mut list, mut sum) = (Vec::new(), 0_u64);
    for class in 0..LENGTHS {
        let count = fields.u64()?;
        sum = sum.wrapping_add(count);
        if count > 0 {
            list.push((class as u8, count));
        }
    }
    let around = fields_at(offset_of!(Row, around))?.u64()?;
    let totals = FunctionTotals {
        function,
        calls,
        untimed,
        total: Ticks(total),
        own: FunctionTotals::own_of(own).min(Ticks(total)),
        longest: Ticks(longest),
        lengths: list,
        nests,
        estimate: estimate(fields_at(offset_of!(Row, estimate))?, around),
    };
    Some((totals, sum == calls))
}

/// The dumper's estimate for the function. `None`: there is none.
fn estimate(mut fields: Fields<'_>, around: u64) -> Option<Box<Estimate>> {
    let level = fields.u64()?;
    let estimate = Estimate {
        around,
        ..Estimate::decode(level, &mut fields)?
    };
    (estimate != Estimate::default()).then(|| Box::new(estimate))
}

/// The cost of recording, from the totals of ended threads, whose index is given.
pub(super) fn cost(
    bytes: &dyn ReadAt,
    header: &Header,
    index: u32,
) -> io::Result<Option<RecordingCost>> {
    let start = header.totals_size.checked_mul(index.into());
    let start = start.and_then(|at| at.checked_add(header.totals));
    let at = start.and_then(|at| at.checked_add(offset_of!(Totals, cost) as u64));
    let Some(at) = at.filter(|_| header.totals > 0) else {
        return Ok(None);
    };
    let mut words = [0; 16];
    if bytes.read_at(at, &mut words)? < words.len() {
        return Ok(None);
    }
    let mut fields = Fields::new(&words, ByteOrder::Little);
    let cost = fields.u64().zip(fields.u64());
    let cost = cost.map(|(share, budget)| RecordingCost { share, budget });
    Ok(cost.filter(|cost| cost.budget > 0))
}
