//! What ENTRACE files hold in addition to events: clock, program, threads, functions and their names. The writer
//! reports exactly what they can't hold. A full disk is an error.

use crate::common::entrace::TARGETS;
use crate::common::{Event, enter, exit, feed, intact, thread, write_with};
use fdr_formats::{Call, TraceInfo};

#[test]
fn losses_are_reported_exactly() {
    for name in TARGETS {
        let events = [
            Event::Argument(1),
            Event::Call(enter(1, 1)),
            Event::Argument(2),
            Event::Call(exit(2, 1)),
            Event::Argument(3),
            Event::Cpu(3, 1),
            Event::Cpu(3, 2),
            Event::Cpu(4, 3),
            Event::Custom(5, None, vec![b'x'; 16 << 20]),
            Event::Custom(6, None, vec![b'y'; 1 << 20]),
        ];
        let (bytes, losses) = write_with(name, &TraceInfo::default(), |writer| {
            feed(writer, &thread(7), &events)
        });
        let wanted = "2 arguments without a call that can still take them: left out; \
                      3 changes of CPU without a call before the next one: left out; \
                      1 events with payloads of nearly 16 MiB and more: left out";
        let mut found: Vec<String> = losses.to_string().split("; ").map(Into::into).collect();
        let mut wanted: Vec<&str> = wanted.split("; ").collect();
        found.sort();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{name}");
        let read = intact(&bytes);
        let wanted = [
            Event::Call(Call {
                has_arguments: true,
                ..enter(1, 1)
            }),
            Event::Argument(2),
            Event::Call(exit(2, 1)),
            Event::Custom(6, None, vec![b'y'; 1 << 20]),
        ];
        assert!(read.log.events(7) == wanted, "{name}");
    }
}

#[test]
fn calls_keep_all_arguments_an_entry_holds() {
    for name in ["et", "iet-prefix2"] {
        let mut events = vec![Event::Call(Call {
            has_arguments: true,
            ..enter(1, 1)
        })];
        events.extend((0..70_000).map(Event::Argument));
        events.push(Event::Call(exit(2, 1)));
        let info = TraceInfo::default();
        let (bytes, losses) = write_with(name, &info, |writer| feed(writer, &thread(7), &events));
        let found = intact(&bytes);
        let arguments = found.log.events(7).len() - 2;
        assert!(arguments > 65_000, "{arguments}");
        let lost = 70_000 - arguments;
        let wanted = format!("{lost} arguments without a call that can still take them: left out");
        assert_eq!(losses.to_string(), wanted);
        assert!(found.log.events(7)[..=arguments] == events[..=arguments]);
    }
}
