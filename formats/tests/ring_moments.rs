//! The named moments of a ring file that is put together by hand. Damage must never make one up.

use crate::common::read;
use crate::common::ring::{Ring, chunk};

#[test]
fn named_moments_are_found_by_the_control_block() {
    let mut ring = Ring::new();
    ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5).exit(1, 5))], 0);
    // The block is behind the file, and the moments are 64 bytes behind the block's start.
    let block = ring.0.len();
    ring.0.resize(block + 64 + 32 * 80, 0);
    ring.u64(248, block as u64);
    ring.u32(block + 16, 64);
    for (place, number, tick, name) in [(0, 33, 2007, "newest"), (1, 2, 2001, "older")] {
        let at = block + 64 + 80 * place;
        ring.u64(at, number);
        ring.u64(at + 8, tick);
        ring.0[at + 16..][..name.len()].copy_from_slice(name.as_bytes());
    }
    let moments = |ring: &Ring| {
        let read = read(&ring.0).expect("a ring");
        let moments = read.info.moments.into_iter();
        let moments = moments.map(|moment| (moment.number, moment.time.0, moment.name));
        moments.collect::<Vec<_>>()
    };
    let older = (2, 2001, "older".to_owned());
    assert_eq!(
        moments(&ring),
        [older.clone(), (33, 2007, "newest".to_owned())]
    );
    // A process that was killed while it wrote the newest one.
    ring.u64(block + 64, 0);
    assert_eq!(moments(&ring), [older]);
    // Places that are not in the file, and an older ring.
    for (at, value) in [
        (248, u64::MAX),
        (248, 0),
        (block + 16, 0),
        (block + 16, u64::from(u32::MAX)),
    ] {
        let mut ring = Ring(ring.0.clone());
        ring.u64(at, value);
        assert_eq!(moments(&ring), []);
    }
}
