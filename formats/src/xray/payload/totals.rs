//! Decodes the totals of a thread's functions, and the calls that were open since before the first record.

#[cfg(feature = "read")]
use super::Payload;
#[cfg(feature = "read")]
use crate::bytes::Fields;
#[cfg(feature = "read")]
use crate::model::{EarlyCall, Estimate, FunctionId, FunctionTotals, RecordingCost, Ticks};

/// A pair behind the lengths of a recursive function, which is no length. It has 0 calls, so readers that do not know
/// it count nothing for it.
pub(super) const NESTS: (u8, u64) = (u8::MAX, 0);

#[cfg(feature = "read")]
pub(super) fn totals(mut fields: Fields<'_>) -> Option<Payload> {
    let (count, flags) = (fields.u32()?, fields.u32()?);
    let mut rows = Vec::new();
    for _ in 0..count {
        let (function, lengths) = (FunctionId(fields.u32()?), fields.u32()?);
        let (calls, untimed) = (fields.u64()?, fields.u64()?);
        let (total, own, longest) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut row = FunctionTotals {
            function,
            calls,
            untimed,
            total: Ticks(total),
            own: FunctionTotals::own_of(own),
            longest: Ticks(longest),
            lengths: Vec::new(),
            nests: false,
            estimate: None,
        };
        for _ in 0..lengths {
            let length = fields.u64()?;
            match (length as u8, length >> 8) {
                NESTS => row.nests = true,
                length => row.lengths.push(length),
            }
        }
        // Other code relies on this order.
        let ordered = row.lengths.is_sorted_by(|one, next| one.0 < next.0);
        rows.push(Some(row).filter(|_| ordered)?);
    }
    Some(Payload::Totals {
        is_of_missing: flags & 1 != 0,
        rows,
    })
}

#[cfg(feature = "read")]
pub(super) fn estimates(mut fields: Fields<'_>) -> Option<Payload> {
    let (count, _zero) = (fields.u32()?, fields.u32()?);
    let (share, budget) = (fields.u64()?, fields.u64()?);
    let mut rows = Vec::new();
    for _ in 0..count {
        let (function, level) = (FunctionId(fields.u32()?), fields.u32()?);
        let estimate = Estimate::decode(level.into(), &mut fields)?;
        let estimate = Estimate {
            around: fields.u64()?,
            ..estimate
        };
        rows.push((function, estimate));
    }
    let cost = RecordingCost { share, budget };
    Some(Payload::Estimates { cost, rows })
}

#[cfg(feature = "read")]
pub(super) fn early_calls(mut fields: Fields<'_>) -> Option<Vec<EarlyCall>> {
    let (count, _zero) = (fields.u32()?, fields.u32()?);
    let mut calls = Vec::new();
    for _ in 0..count {
        let begin = Ticks(fields.u64()?);
        let (id, _zero) = (fields.u32()?, fields.u32()?);
        let function = FunctionId(id);
        calls.push(EarlyCall { function, begin });
    }
    Some(calls)
}
