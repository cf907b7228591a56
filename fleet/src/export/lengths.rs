//! Buckets of lengths of calls, in nanoseconds. They are laid out as the cells of `fdr report` and `fdr diff`: lengths
//! below 128 have a bucket each, and every power of two above has 64 equal ones. So counts of many traces add up, and a
//! percentile is off by at most 1/128 in addition to the error of the trace's own cells. Pure.

/// Buckets of a power of two.
const CELLS: u64 = 64;

/// The bucket of a length.
pub(crate) fn bucket(ns: u64) -> i32 {
    let shift = (ns | (2 * CELLS - 1)).ilog2() - CELLS.ilog2();
    (u64::from(shift) * CELLS + (ns >> shift)) as i32
}

/// The length in the middle of a bucket.
pub(crate) fn middle(bucket: i32) -> i64 {
    let bucket = u64::try_from(bucket).unwrap_or(0);
    if bucket < 2 * CELLS {
        return bucket as i64;
    }
    let shift = (bucket / CELLS - 1).min(57);
    let from = (CELLS + bucket % CELLS) << shift;
    i64::try_from(from + ((1 << shift) - 1) / 2).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_lie_where_those_of_the_report_lie() {
        assert_eq!([0, 127, 128, 129, 130].map(bucket), [0, 127, 128, 128, 129]);
        assert_eq!(bucket(u64::MAX), 59 * 64 - 1);
        assert_eq!([0, 127, 128].map(middle), [0, 127, 128]);
    }

    #[test]
    fn bucket_middles_are_near_every_length() {
        for shift in 0..63 {
            for more in [0_u64, 1, 3, 1000, 12_345] {
                let ns = (1_u64 << shift) + more.min(1 << shift >> 1);
                let bucket_of = bucket(ns);
                let error = (middle(bucket_of) as u64).abs_diff(ns);
                assert!(error <= ns / 128, "{ns}: {error}");
                assert_eq!(bucket(middle(bucket_of) as u64), bucket_of);
            }
        }
    }
}
