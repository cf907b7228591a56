//! A service with one planted slow call among ten thousand: `fdr slow` names its function, that it waited, and the other
//! thread with what that was in. Only causes that look the same on every disk and beside every load.

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, fdr};
use serde_json::Value;

const VARIABLES: &str = "FDR=1 FDR_SCHED=1 FDR_KEEP=0 FDR_BUFFER=16M FDR_LOG=quiet FDR_OUT=t.fdr";

/// What was planted, and the sentences of `fdr slow`. `None`: this machine tells no states.
fn found(cause: &str, seed: u64) -> Option<(Value, Vec<String>)> {
    let folder = Folder::new(&format!("planted-{cause}"));
    let program = Program::new(env!("CARGO_BIN_EXE_planted"), &folder).set(VARIABLES);
    let outcome = program.args(&[cause, &seed.to_string()]).run().ok();
    let planted = outcome.stdout.lines().last().expect("a line");
    let planted = serde_json::from_str(planted).expect("JSON");
    let trace = folder.join("t.fdr");
    let json = |words: &[&str]| -> Value {
        let mut words: Vec<_> = words.iter().map(|word| word.as_ref()).collect();
        words.push(trace.as_os_str());
        serde_json::from_str(&fdr(&words)).expect("JSON")
    };
    if json(&["info", "--json"])["states"].is_null() {
        return None;
    }
    let slow = json(&["slow", "--json", "--over", "40ms", "--limit", "100"]);
    let calls = slow["calls"].as_array().expect("calls");
    let sentences = calls
        .iter()
        .map(|call| call["sentence"].as_str().unwrap_or_default().to_owned());
    Some((planted, sentences.collect()))
}

#[test]
fn a_planted_wait_is_explained() {
    for cause in ["lock", "channel"] {
        for seed in 1..=3 {
            let Some((planted, sentences)) = found(cause, seed) else {
                return;
            };
            let text = |key: &str| planted[key].as_str().map(str::to_owned);
            let function = text("function").expect("a function");
            let other = text("other_function");
            // A lock of `fdr::sync` is named by the program itself, and not by what is seen of the other thread.
            let explains = |sentence: &&String| {
                sentence.contains(&function)
                    && sentence.contains("wait")
                    && other.as_ref().is_none_or(|other| sentence.contains(other))
            };
            let explained = sentences.iter().find(explains);
            assert!(explained.is_some(), "{planted}: {sentences:#?}");
        }
    }
}
