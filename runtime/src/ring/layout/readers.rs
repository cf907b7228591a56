//! This layout and the one in `fdr-formats`, which readers have, describe the same bytes. It must hold nothing but checks.

use fdr_formats::ring::moments;

use super::*;

const _: () = {
    macro_rules! same {
        ($type:ty, $offsets:expr, $($field:ident)*) => {{
            let (ours, theirs) = ([$(core::mem::offset_of!($type, $field)),*], $offsets);
            let mut at = 0;
            while at < theirs.len() {
                assert!(ours[at] == theirs[at]);
                at += 1;
            }
            assert!(ours.len() == theirs.len());
        }};
    }
    same!(
        Header, reader::HEADER_OFFSETS,
        magic pid clock base slots slot_stride functions functions_length regions region_size capacity
        made start_ticks start_monotonic start_realtime frequency missing_overwritten missing_threads
        missing_dropped clock_flags crash_signal crash_code crash_thread crash_address crash_ticks
        program open_calls identity control totals totals_size schedule schedule_size
        modules modules_size
    );
    same!(Control, control::OFFSETS, asked answered taken listens moments command answer);
    same!(Moment, moments::OFFSETS, number ticks name);
    assert!(size_of::<Moments>() == moments::SIZE);
    assert!(size_of::<Header>() == reader::HEADER_SIZE);
    same!(
        Slot, reader::SLOT_OFFSETS,
        cursor base chunks chunk dropped clock_steps state tid generation name given
    );
    same!(
        OpenCalls, reader::OPEN_CALLS_OFFSETS,
        open publishing threshold next next_calls next_ticks frames arguments arguments_words
    );
    same!(Frame, reader::FRAME_OFFSETS, word cpu ticks short_calls short_ticks inside);
    same!(Totals, reader::TOTALS_OFFSETS, rows index);
    same!(Row, reader::ROW_OFFSETS, function calls untimed total own longest lengths);
    assert!(size_of::<Totals>() == reader::TOTALS_SIZE && size_of::<Row>() == reader::ROW_SIZE);
    assert!(LENGTHS == reader::LENGTHS);
    assert!(size_of::<OpenCalls>() == reader::OPEN_CALLS_SIZE && FRAMES == reader::FRAMES);
    assert!(cfg!(loom) || CHUNK == reader::CHUNK);
    assert!(COUNTERS.is_power_of_two() && COUNTERS <= reader::COUNTERS);
    assert!(PAGE == reader::COUNTERS_AT && COUNTER_STRIDE == reader::COUNTER_STRIDE);
    assert!(state::LIVE == reader::LIVE && state::ENDED == reader::ENDED);
};
