//! What a real trace states about its clock on a machine with correct clocks: two moments that agree, a frequency, and
//! no faults. The tests of the formats make faulty clocks by hand.

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::fdr;
use fdr_tests::support::trace::Trace;

#[test]
fn sound_clocks_cause_no_complaint() {
    for clock in ["rdtscp", "rdtsc", "monotonic"] {
        let folder = Folder::new(&format!("clock-{clock}"));
        let program = Program::named("unwinding", &folder);
        let outcome = program
            .set("FDR=1")
            .env("FDR_CLOCK", clock)
            .args(&["deep", "10"])
            .run();
        let _ = outcome.ok();
        let path = folder.only_trace();
        let trace = Trace::read(&path);
        let clock_info = &trace.info.clock;
        let (tick, unix) = clock_info.anchor.expect("a dump has it");
        let (later_tick, later_unix) = clock_info.until.expect("a dump has it");
        let ticks = clock_info.nanos(later_tick.since(tick)).0;
        let wall = later_unix.saturating_sub(unix);
        assert!(ticks > 0 && wall > 0, "{clock_info:?}");
        // What a time daemon may do meanwhile, and what the measurement of a moment may be off.
        assert!(
            ticks.abs_diff(wall) < 10_000_000 + wall / 100,
            "{clock_info:?}"
        );
        assert_eq!(
            (clock_info.faults.ahead_ns, clock_info.faults.wall_step_ns),
            (0, 0)
        );
        let times = trace.threads.iter().flat_map(|lane| &lane.times);
        let mut times = times.copied();
        assert!(
            times.all(|time| (tick.0..=later_tick.0).contains(&time)),
            "{clock}"
        );
        let notes = fdr("info", &[path.as_ref()]);
        assert!(
            !notes.contains("steady clock") && !notes.contains("began anew"),
            "{notes}"
        );
    }
}
