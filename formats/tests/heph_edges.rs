//! What the Heph writer is given at the edges of what it can hold, and by whom it is read or not: odd
//! names, payloads of any bytes, readers that come late, disks that are full.

use crate::common::heph::{complete_info, through, write_threads};
use crate::common::{Event, Shared, enter, exit, function, intact, named, read};
use fdr_formats::heph::HephWriter;
use fdr_formats::{Call, Sink, Writer};

#[test]
fn many_arguments() {
    let mut events = vec![Event::Call(Call {
        has_arguments: true,
        ..enter(10, 3)
    })];
    events.extend((0..70_000).map(Event::Argument));
    events.push(Event::Call(exit(20, 3)));
    let read = through(&complete_info(), &[(named(1, ""), events.clone())]);
    assert!(read.log.events(1) == events, "an argument is another one");
    // After an exit there is no call that could have one.
    events.push(Event::Argument(1));
    let (_, losses) = write_threads(&complete_info(), &[(named(1, ""), events)]);
    let wanted = "1 arguments without a call that was kept: left out";
    assert_eq!(losses.to_string(), wanted);
}

#[test]
fn a_late_reader_gets_what_it_needs() {
    let out = Shared::default();
    let mut writer = HephWriter::new(out.clone(), &complete_info());
    writer.thread(&named(1, "one"));
    writer.calls(&[enter(1000, 3), enter(1100, 9), exit(1200, 9)]);
    writer.functions(&[function(20, "alpha", "again.rs", 1)]);
    Writer::flush(&mut writer).expect("room");
    let before = out.bytes();
    let early = read(&before).expect("what was flushed can be read");
    assert_eq!(early.log.calls(1), [enter(1100, 9), exit(1200, 9)]);
    let mut late = writer.restart().expect("Heph can be joined");
    writer.calls(&[enter(1300, 20), exit(1400, 20), exit(1500, 3)]);
    writer.thread(&named(2, "two"));
    writer.calls(&[enter(1350, 9), exit(1450, 9)]);
    writer.functions(&[function(21, "later", "", 0)]);
    let losses = Writer::finish(Box::new(writer)).expect("room");
    assert!(losses.is_empty(), "{losses}");
    late.extend(&out.bytes()[before.len()..]);
    let (whole, late) = (intact(&out.bytes()), intact(&late));
    let wanted = [
        enter(1000, 3),
        enter(1300, 20),
        exit(1400, 20),
        exit(1500, 3),
    ];
    assert_eq!(late.log.calls(1), wanted);
    assert_eq!(late.log.calls(2), whole.log.calls(2));
    assert_eq!(late.info.functions, whole.info.functions);
    assert_eq!(late.info.threads, whole.info.threads);
    assert_eq!(late.info.clock, whole.info.clock);
    assert_eq!(late.info.program, "demo");
}

#[test]
fn a_clock_error_that_is_no_number() {
    let mut info = complete_info();
    info.clock.error_ppm = Some(f64::NAN);
    let found = through(&info, &[]).info.clock.error_ppm;
    assert!(found.is_some_and(f64::is_nan), "{found:?}");
}
