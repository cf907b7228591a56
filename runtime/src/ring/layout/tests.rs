//! The offsets and sizes of rings, against what the documents say.

use super::*;

#[test]
fn default_layout_is_what_the_documents_say() {
    let layout = Layout::new(4 << 20, 1 << 30, false, false);
    assert_eq!(layout.chunks(), 64);
    assert_eq!(layout.slot_stride, 1664);
    assert_eq!(layout.capacity, 256);
    assert_eq!(layout.region(0) % CHUNK, 0);
    assert_eq!(layout.region(1) - layout.region(0), 4 << 20);
    assert!(layout.slot(255) + layout.slot_stride <= layout.functions);
    assert_eq!(layout.region(255) + layout.region_size, layout.length);
}

#[test]
fn no_two_threads_write_one_pair_of_lines() {
    use core::mem::offset_of;
    // What every record reads or writes of a slot is in one line.
    for end in [
        offset_of!(Slot, cursor) + 8,
        offset_of!(Slot, last_low) + 4,
        offset_of!(Slot, last_high) + 4,
        offset_of!(Slot, cpu) + 4,
    ] {
        assert!(end <= 64);
    }
    for (buffer, memory) in [
        (0, 0),
        (128 << 10, 1 << 20),
        (4 << 20, 1 << 30),
        (1 << 32, 1 << 40),
    ] {
        let layout = Layout::new(buffer, memory, true, true);
        // The file is mapped at a multiple of CHUNK.
        for place in [
            layout.slots,
            layout.slot_stride,
            layout.functions,
            layout.regions,
        ] {
            assert_eq!(place % SLOT_ALIGN, 0, "{layout:?}");
        }
        let counters = (0..300).map(Layout::counter);
        for place in counters {
            assert_eq!(place % SLOT_ALIGN, 0);
            assert!((PAGE..CONTROL_AT).contains(&place));
        }
        let marks = layout.chunks() * size_of::<ChunkMark>();
        assert!(layout.slot_stride >= size_of::<Slot>() + marks);
        assert!(layout.slots >= size_of::<Header>().next_multiple_of(SLOT_ALIGN));
        assert_eq!(layout.region_size % CHUNK, 0);
    }
}

#[test]
fn hostile_sizes_still_make_a_layout() {
    for (buffer, memory) in [(0, 0), (u64::MAX, 0), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        let layout = Layout::new(buffer, memory, true, true);
        assert!(layout.capacity >= 1 && layout.chunks() >= 2);
        assert!(layout.length >= layout.region_size);
    }
}
