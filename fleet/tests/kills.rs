//! kill -9 of export and compact at random moments: never a row lost or doubled. `FDR_FLEET_KILLS` is how many of them
//! are killed: `cargo xtask fleet --kills 500`.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
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

/// Lets it run for a part of the time that a whole run takes. Whether it was killed, and had not ended before.
fn kill(mut child: Child, random: &mut Random, whole: Duration) -> bool {
    let part = whole.as_micros() as u64 * random.below(1000) / 900;
    sleep(Duration::from_micros(part));
    let _ = child.kill();
    let end = child.wait().unwrap();
    assert!(end.success() || end.signal() == Some(9), "{end}");
    end.signal().is_some()
}

fn kills() -> u64 {
    std::env::var("FDR_FLEET_KILLS").map_or(30, |text| text.parse().unwrap())
}

/// Calls of spans and of statistics, by process.
pub(crate) const STATE: &str = "SELECT 'spans' AS what, process_key, COUNT(*) AS calls FROM spans GROUP BY process_key \
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
    let (mut exports, mut compactions, mut parts) = (0, 0, 0);
    let (most, mut round) = (kills(), 0);
    // The last folder is looked at to its end.
    while exports + compactions < most || round % 8 != 0 {
        if round % 8 == 0 {
            folder = Folder::new();
        }
        round += 1;
        let place = folder.place();
        let mut words = vec!["export", "--to", &place];
        words.extend(traces.iter().map(|path| path.to_str().unwrap()));
        exports += u64::from(kill(start(&words), &mut random, export_time));
        std::fs::create_dir_all(&place).unwrap();
        let compact = start(&["compact", &place]);
        compactions += u64::from(kill(compact, &mut random, compact_time));
        // A trace is there as a whole, or not at all.
        let files = crate::support::files(&folder.0);
        let counts = |path: &Path| {
            let path = path.to_str().unwrap();
            path.contains(".stats.json") || path.contains("_manifest")
        };
        if files.iter().any(|(path, _)| counts(path)) {
            let found = rows(&folder, STATE);
            assert!(
                found.iter().all(|row| wanted.contains(row)),
                "{round}: {found:?}"
            );
            parts += u64::from(found.len() < wanted.len());
        }
        if round % 8 == 0 {
            export(&folder, &traces);
            assert_eq!(rows(&folder, STATE), wanted, "{round}");
            let begun = Instant::now();
            fleet_ok(&["compact", &place]);
            compact_time = begun.elapsed();
            assert_eq!(rows(&folder, STATE), wanted, "{round}");
            // What the killed ones left behind goes away, and nothing else.
            fleet_ok(&["compact", &place, "--grace", "0s"]);
            assert_eq!(rows(&folder, STATE), wanted, "{round}");
            let left = crate::support::files(&folder.path("store/_temporary"));
            assert_eq!(left, []);
        }
    }
    println!(
        "{exports} exports and {compactions} compactions were killed in {round} rounds; a part of the traces was there \
         after {parts} rounds; no row was lost or doubled"
    );
    assert_eq!(number(&whole, "SELECT COUNT(*) FROM raw_spans"), 4000);
}
