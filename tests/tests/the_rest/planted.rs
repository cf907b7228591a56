//! A service with one planted slow call among ten thousand: `fdr slow` names its function, what its thread did, and the
//! other thread with what that was in. The test has only causes that look the same on every disk and beside every load.
//! `cargo xtask trial --planted` asks for all of them, with seeds that are drawn, and shows a table.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::json;
use serde_json::Value;

/// All others have their defaults.
const VARIABLES: &str = "FDR=1 FDR_LOG=quiet FDR_OUT=t.fdr";

/// How many seeds of each cause a trial has. Without it, this is the test.
const SEEDS: &str = "PLANTED_SEEDS";
/// Causes, and what the sentence says of the thread.
const CAUSES: [(&str, &str); 8] = [
    ("none", ""),
    ("lock", "waited"),
    ("fsync", "waited"),
    ("neighbour", "was preempted by"),
    ("faults", "computed"),
    ("quadratic", "computed"),
    ("channel", "waited"),
    ("allocation", "computed"),
];

/// What was planted, and the sentences of `fdr slow` with those options. `None`: this machine tells no states.
fn found(cause: &str, seed: u64, options: &str) -> Option<(Value, Vec<String>)> {
    let folder = Folder::new(&format!("planted-{cause}"));
    let program = Program::named("planted", &folder).set(VARIABLES);
    let outcome = program.args(&[cause, &seed.to_string()]).run().ok();
    let planted = outcome.stdout.lines().last().expect("a line");
    let planted = serde_json::from_str(planted).expect("JSON");
    let trace = folder.join("t.fdr");
    if json("info", &[&trace])["states"].is_null() {
        return None;
    }
    let slow = json(&format!("slow {options}"), &[&trace]);
    let calls = slow["calls"].as_array().expect("calls");
    let sentences = calls
        .iter()
        .map(|call| call["sentence"].as_str().unwrap_or_default().to_owned());
    Some((planted, sentences.collect()))
}

/// Whether a sentence names the planted cause: the function, the state, and the other thread's function if the cause
/// has one.
fn explains(sentence: &str, planted: &Value, state: &str) -> bool {
    let has = |key: &str| {
        planted[key]
            .as_str()
            .is_none_or(|text| sentence.contains(text))
    };
    has("function") && has("other_function") && sentence.contains(state)
}

#[test]
fn a_planted_cause_is_explained() {
    if let Ok(seeds) = env::var(SEEDS) {
        return trial(seeds.parse().expect("a number of seeds"));
    }
    for cause in ["lock", "channel"] {
        for seed in 1..=3 {
            let options = "--over 40ms --limit 100";
            let Some((planted, sentences)) = found(cause, seed, options) else {
                return;
            };
            let explained = |sentence: &String| explains(sentence, &planted, "wait");
            assert!(sentences.iter().any(explained), "{planted}: {sentences:#?}");
        }
    }
}

/// Whether the function is one of the standard library's.
fn is_of_std(function: &str) -> bool {
    let path = function.trim_start_matches('<');
    ["core::", "alloc::", "std::"]
        .iter()
        .any(|krate| path.starts_with(krate))
}

/// A call that computes, or touches new pages, in functions without the attribute: samples name these.
#[test]
fn samples_name_functions_without_the_attribute() {
    for (cause, kind) in [("quadratic", "time_in"), ("faults", "page_faults_in")] {
        let folder = Folder::new(&format!("planted-samples-{cause}"));
        let program = Program::named("planted", &folder).set(VARIABLES);
        let _ = program.args(&[cause, "5"]).run().ok();
        let trace = folder.join("t.fdr");
        let slow = json("slow --limit 1 --over 40ms", &[&trace]);
        if slow["calls"][0]["states"].is_null() {
            return;
        }
        let places = slow["calls"][0]["samples"][kind].as_array();
        let mut functions = places
            .into_iter()
            .flatten()
            .filter_map(|place| place["function"].as_str());
        // Without optimizations, the functions of the standard library that the code calls are not inlined, and are
        // places of their own.
        let first = functions.find(|function| !is_of_std(function));
        let is_own =
            first.is_some_and(|function| function.starts_with("programs::planted::causes::"));
        assert!(is_own, "{cause}: {slow:#}");
    }
}

/// All causes. The first sentence has to be right, and without a cause there must be none.
fn trial(seeds: u64) {
    let drawn: Vec<u64> = (0..seeds)
        .map(|number| RandomState::new().hash_one(number) % 1_000_000)
        .collect();
    println!("seeds {drawn:?}");
    let mut wrong = 0;
    for (cause, state) in CAUSES {
        let mut right = 0;
        let mut others = Vec::new();
        for &seed in &drawn {
            let Some((planted, sentences)) = found(cause, seed, "") else {
                fdr_tests::skip("planted causes: this machine tells no states of threads");
                return;
            };
            let is_right = match sentences.first() {
                Some(first) => cause != "none" && explains(first, &planted, state),
                None => cause == "none",
            };
            right += u64::from(is_right);
            if !is_right {
                let first = sentences.first().map_or("nothing", String::as_str);
                others.push(format!("    {planted}\n      {first}"));
            }
        }
        println!(
            "{cause:<12} {seeds:>4} runs {right:>4} right   load {}",
            load()
        );
        others.iter().for_each(|other| println!("{other}"));
        wrong += seeds - right;
    }
    assert_eq!(wrong, 0, "runs whose first sentence was another one");
}

/// How many threads ran or wanted to, on the average of the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}
