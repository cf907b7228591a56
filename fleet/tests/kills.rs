//! kill -9 of export and compact at random moments: never a row lost or doubled. `FDR_FLEET_KILLS` is how often.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{FLEET, Folder, Process, Random, export, fleet_ok, number, rows, trace};

fn start(words: &[&str]) -> Child {
    let mut command = Command::new(FLEET);
    command
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Lets it run for a part of the time that a whole run takes.
fn kill(mut child: Child, random: &mut Random, whole: Duration) {
    let part = whole.as_micros() as u64 * random.below(1000) / 900;
    sleep(Duration::from_micros(part));
    let _ = child.kill();
    child.wait().unwrap();
}

fn kills() -> u64 {
    std::env::var("FDR_FLEET_KILLS").map_or(25, |text| text.parse().unwrap())
}

/// Calls of spans and of statistics, by process.
const STATE: &str = "SELECT 'spans' AS what, process_key, COUNT(*) AS calls FROM spans GROUP BY process_key \
                     UNION ALL SELECT 'stats', process_key, SUM(calls) FROM function_stats GROUP BY process_key ORDER BY 1, 2";

#[test]
fn export_and_compact_lose_nothing() {
    let whole = Folder::new();
    let make = |nth: u64| {
        let process = Process::new("api", ["alpha", "beta"][nth as usize % 2], 100 * (nth + 1));
        trace(&whole, &format!("{nth}.fdr"), &process, nth + 1, 2, 500)
    };
    let traces: Vec<_> = (0..4).map(make).collect();
    let begun = Instant::now();
    export(&whole, &traces);
    let export_time = begun.elapsed();
    let wanted = rows(&whole, STATE);
    assert_eq!(wanted.len(), 8);
    let mut random = Random(11);
    let mut folder = Folder::new();
    let mut compact_time = export_time;
    for nth in 0..kills() {
        if nth % 8 == 0 {
            folder = Folder::new();
        }
        let place = folder.place();
        let mut words = vec!["export", "--to", &place];
        words.extend(traces.iter().map(|path| path.to_str().unwrap()));
        kill(start(&words), &mut random, export_time);
        std::fs::create_dir_all(&place).unwrap();
        kill(start(&["compact", &place]), &mut random, compact_time);
        // A trace is there as a whole, or not at all.
        if crate::support::files(&folder.0)
            .iter()
            .any(|(path, _)| path.to_str().unwrap().contains("stats.json"))
        {
            let found = rows(&folder, STATE);
            assert!(
                found.iter().all(|row| wanted.contains(row)),
                "{nth}: {found:?}"
            );
        }
        if nth % 8 == 7 {
            export(&folder, &traces);
            assert_eq!(rows(&folder, STATE), wanted, "{nth}");
            let begun = Instant::now();
            fleet_ok(&["compact", &place]);
            compact_time = begun.elapsed();
            assert_eq!(rows(&folder, STATE), wanted, "{nth}");
            // What the killed ones left behind goes away, and nothing else.
            fleet_ok(&["compact", &place, "--grace", "0s"]);
            assert_eq!(rows(&folder, STATE), wanted, "{nth}");
            let left = crate::support::files(&folder.path("store/_temporary"));
            assert_eq!(left, []);
        }
    }
    assert_eq!(number(&whole, "SELECT COUNT(*) FROM raw_spans"), 4000);
}
