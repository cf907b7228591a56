//! `FDR_SAMPLE`: one top-level call in so many is recorded, whole, and all others leave nothing.

use std::collections::BTreeMap;

use fdr_formats::identity::Part;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, fdr, verify};
use fdr_tests::support::trace::Trace;

const THREADS: u64 = 3;
const CALLS: u64 = 1001;

fn record(folder: &Folder, variables: &str) -> Trace {
    let program = Program::new(env!("CARGO_BIN_EXE_sampled"), folder);
    let arguments = [THREADS, CALLS].map(|number| number.to_string());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = program.set("FDR=1").set(variables).args(&arguments).run();
    let _ = outcome.ok();
    let path = folder.only_trace();
    verify(&path);
    Trace::read(&path)
}

/// How many calls of which function are made inside every so-many-th top-level call of each thread.
fn wanted(one_in: u64) -> BTreeMap<String, u64> {
    let chosen = (0..CALLS).step_by(one_in as usize);
    let requests = chosen.clone().filter(|call| call % 2 == 0).count() as u64;
    let others = chosen.count() as u64 - requests;
    [
        ("request", requests),
        ("other", others),
        ("step", 2 * requests + others),
        ("fails", requests),
        ("count", requests),
    ]
    .into_iter()
    .map(|(name, calls)| (format!("sampled::{name}"), THREADS * calls))
    .filter(|(_, calls)| *calls > 0)
    .collect()
}

#[test]
fn one_top_level_call_in_so_many_is_recorded_whole() {
    for variables in [
        "",
        "FDR_KEEP=0",
        "FDR_CLOCK=rdtsc",
        "FDR_CLOCK=rdtsc FDR_KEEP=0",
        "FDR_CLOCK=monotonic",
        "FDR_MODE=full",
    ] {
        for one_in in [1, 2, 3, 100, 100_000] {
            let folder = Folder::new("sampled");
            let trace = record(&folder, &format!("{variables} FDR_SAMPLE=1/{one_in}"));
            assert_eq!(trace.calls(), wanted(one_in), "{variables}, 1/{one_in}");
            let calls: u64 = wanted(one_in).values().sum();
            assert_eq!(trace.asked_for(), 2 * calls, "{variables}, 1/{one_in}");
            for lane in &trace.threads {
                assert_eq!(lane.synthetic, [0, 0], "{variables}, 1/{one_in}");
            }
        }
    }
}

#[test]
fn a_trace_says_that_it_has_a_sample() {
    for format in ["xray", "heph", "htdump", "ctf", "iet2", "tcstate"] {
        let folder = Folder::new("sampled-said");
        let recorded = record(&folder, "FDR_SAMPLE=1/50 FDR_OUT=t.fdr");
        assert_eq!(recorded.info.identity.get(Part::Sample), "1/50");
        let (from, to) = (folder.join("t.fdr"), folder.join("converted"));
        let words = [
            "convert".as_ref(),
            from.as_os_str(),
            "-o".as_ref(),
            to.as_os_str(),
        ];
        let _ = fdr(&[&words[..], &["--to".as_ref(), format.as_ref()]].concat());
        let report = fdr(&["report".as_ref(), to.as_os_str()]);
        assert!(
            report.contains("sample: 1/50 of the top-level calls"),
            "{format}: {report}"
        );
    }
    let folder = Folder::new("sampled-all");
    let all = record(&folder, "FDR_SAMPLE=1/1");
    assert_eq!(all.info.identity.get(Part::Sample), "");
}
