//! Clocks that lie, and calls without an end: every command says so, and no figure is absurd.

use std::fs::{self, OpenOptions};

use crate::common::{
    self, Folder, answer, assert_lacks, calls, fdr, info, json, stderr, thread, write,
};
use fdr_formats::model::ClockFaults;
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{Mark, Sink, Ticks, TraceInfo};
use serde_json::{Value, json};

fn with_faults(faults: ClockFaults) -> TraceInfo {
    let mut info = info(&["app::run", "app::step"]);
    info.clock.name = "rdtscp".into();
    info.clock.constant = true;
    info.clock.anchor = Some((Ticks(0), 1_700_000_000_000_000_000));
    info.clock.faults = faults;
    info
}

#[test]
fn every_command_reports_clock_faults() {
    let folder = Folder::new("trouble");
    let trace = folder.file("t.fdr");
    let faults = ClockFaults {
        skew_ns: 5000,
        steps_back: 12,
        ahead_ns: -7_000_000_000,
        wall_step_ns: 3_600_000_000_000,
    };
    let mut info = with_faults(faults);
    info.clock.constant = false;
    write(
        &trace,
        &info,
        &[(thread(7, ""), calls(&[(1000, 1), (2000, -1)]))],
    );
    let lines = [
        "clock: its rate may change",
        "clock: it fell behind the system's steady clock by 7.000 s",
        "clock: the counters of two CPUs differ by at least 5.000 µs",
        "clock: it was behind a thread's last record 12 times",
        "time of day: it moved ahead by 3600",
    ];
    let heph = folder.file("t.heph");
    for (arguments, on_stderr) in [
        (&["report", &trace][..], false),
        (&["info", &trace], false),
        (&["verify", &trace], false),
        (&["state", &trace], true),
        (&["report", "--csv", &trace], true),
        (&["convert", &trace, "--to", "heph", "-o", &heph], true),
    ] {
        let output = fdr(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let text = match on_stderr {
            true => stderr(&output),
            false => common::stdout(&output),
        };
        for line in lines {
            assert!(text.contains(line), "{arguments:?}: {line:?} in {text}");
        }
    }
    let report = json(&["report", "--json", &trace]);
    let clock = &report["clock"];
    assert_eq!(clock["skew_ns"], 5000);
    assert_eq!(clock["steps_back"], 12);
    assert_eq!(clock["ahead_ns"], -7_000_000_000_i64);
    assert_eq!(clock["wall_step_ns"], json!(3_600_000_000_000_u64));
    assert_eq!(report["clock_notes"].as_array().map(Vec::len), Some(5));

    // It goes with the trace, or is counted among what a format can't hold.
    for format in ["xray1", "heph", "et", "iet", "tcstate", "htdump", "ctf"] {
        let to = folder.file(format);
        let output = fdr(&["convert", &trace, "--to", format, "-o", &to, "--force"]);
        let mut there = json(&["report", "--json", &to])["clock"].take();
        let left_out = stderr(&output).contains("wrong with the clock: left out");
        assert_eq!(left_out, ["htdump", "ctf"].contains(&format), "{output:?}");
        for field in ["skew_ns", "steps_back", "ahead_ns", "wall_step_ns"] {
            let wanted = if left_out { &json!(0) } else { &clock[field] };
            assert_eq!(there[field].take(), *wanted, "{format}: {field}");
        }
    }
}

#[test]
fn a_sound_clock_is_not_talked_about() {
    let folder = Folder::new("sound");
    let trace = folder.file("t.fdr");
    let mut info = with_faults(ClockFaults::default());
    info.clock.error_ppm = Some(40.0);
    let edges = calls(&[(1000, 1), (2000, -1)]);
    write(&trace, &info, &[(thread(7, ""), edges)]);
    for command in ["report", "info", "verify"] {
        let text = answer(&[command, &trace]);
        assert_lacks(&text, "clock:");
        assert_lacks(&text, "time of day");
    }
    assert_eq!(
        json(&["report", "--json", &trace])["clock_notes"],
        json!([])
    );
}

#[test]
fn calls_open_at_a_break_are_clipped() {
    let folder = Folder::new("break");
    let trace = folder.file("t.fdr");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&trace);
    let info = with_faults(ClockFaults::default());
    let mut writer = XrayWriter::new(file.expect("a file"), Version::V3, &info).expect("a header");
    writer.thread(&thread(7, ""));
    writer.calls(&calls(&[(1000, 1), (1010, 2), (1030, -2)]));
    writer.mark(&Mark::Break { time: Ticks(1030) });
    writer.calls(&calls(&[(1040, 2), (1070, -2), (1100, -1)]));
    writer.finish().expect("a trace");
    let check = |trace: &str| {
        let report = json(&["report", "--json", "--sort", "name", trace]);
        let row = |at: usize| {
            let row = &report["functions"][at];
            [
                &row["calls"],
                &row["clipped"],
                &row["max_ns"],
                &row["total_ns"],
            ]
            .map(Value::clone)
        };
        assert_eq!(
            row(0),
            [json!(1), json!(1), Value::Null, json!(100)],
            "{trace}"
        );
        assert_eq!(
            row(1),
            [json!(2), json!(0), json!(30), json!(50)],
            "{trace}"
        );
        report
    };
    assert_eq!(check(&trace)["threads"][0]["clock_breaks"], json!(1));
    let wanted = "clock: it jumped or began anew in 1 place";
    for command in ["report", "info", "verify"] {
        let text = answer(&[command, &trace]);
        assert!(text.contains(wanted), "{command}: {text}");
    }
    // The same in other formats. There the jump is a break at which no record is known to be missing.
    for format in ["xray1", "heph", "htdump", "iet", "ctf"] {
        let to = folder.file(format);
        answer(&["convert", &trace, "--to", format, "-o", &to]);
        check(&to);
    }
}

/// Every byte of the records is changed, one after the other. In every report, no call is longer than the trace, and
/// the trace is no longer than its last record allows.
#[test]
fn no_damage_makes_an_absurd_duration() {
    let folder = Folder::new("mangled");
    let trace = folder.file("t.fdr");
    let (first, last) = (5_u64 << 33, 9_u64 << 33);
    let edges = calls(&[
        (first, 1),
        (first + 1000, 2),
        (first + 2000, -2),
        (7 << 33, 2),
        (8 << 33, -2),
        (last, -1),
    ]);
    write(
        &trace,
        &with_faults(ClockFaults::default()),
        &[(thread(7, ""), edges)],
    );
    let sound = fs::read(&trace).expect("the trace");
    let tick = (first + 1000).to_le_bytes();
    assert!(sound.len() < 2000 && !sound.windows(8).any(|part| part == tick));
    // The records of calls are at the end, behind the tables.
    for (place, bit) in (sound.len() - 104..sound.len()).flat_map(|place| [(place, 2), (place, 7)])
    {
        let mut bytes = sound.clone();
        bytes[place] ^= 1 << bit;
        fs::write(&trace, &bytes).expect("the trace");
        let output = fdr(&["report", "--json", &trace]);
        assert!(output.status.success(), "{place}: {output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let duration = report["duration_ns"].as_u64().expect("a number");
        // Steps back of up to 2^32 ticks are shown as they are.
        assert!(duration <= last - first + (1 << 32), "{place}: {duration}");
        for row in report["functions"].as_array().expect("functions") {
            for key in ["max_ns", "total_ns", "self_ns"] {
                assert!(row[key].as_u64().unwrap_or(0) <= duration, "{place}: {row}");
            }
        }
    }
}

#[test]
fn a_million_open_calls() {
    let folder = Folder::new("bomb");
    let trace = folder.file("t.fdr");
    let depth = 1_000_000;
    let edges: Vec<(u64, i64)> = (0..depth).map(|time| (time, 1)).collect();
    write(
        &trace,
        &with_faults(ClockFaults::default()),
        &[(thread(7, ""), calls(&edges))],
    );
    let report = json(&["report", "--json", &trace]);
    let row = &report["functions"][0];
    assert_eq!(row["calls"], depth);
    assert_eq!(row["clipped"], depth);
    assert_eq!(row["total_ns"], json!(depth - 1));
    for command in ["info", "verify", "state"] {
        answer(&[command, &trace]);
    }
}
