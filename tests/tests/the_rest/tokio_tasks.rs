//! Tasks of a program on tokio, on both of its runtimes. It is left out where tokio's sources are not on the machine.

use std::process::Command;

use fdr_tests::support::program::fdr;
use serde_json::Value;

use crate::package::{Package, said};

#[test]
fn tasks_of_both_runtimes_of_tokio() {
    let package = Package::copy_of("tokio_tasks", "");
    let output = package.cargo("build", &[]);
    if said(&output).contains("no matching package named `tokio`")
        || said(&output).contains("attempting to make an HTTP request")
    {
        return fdr_tests::skip("tasks of a program on tokio: its sources are not on this machine");
    }
    assert!(output.status.success(), "{}", said(&output));
    for (runtime, keep) in [("one", "10s"), ("many", "10s"), ("one", "0"), ("many", "0")] {
        let trace = package.built(&format!("tokio_tasks.{runtime}.fdr"));
        let output = Command::new(package.built("debug/tokio_tasks"))
            .arg(runtime)
            .env("FDR", "1")
            .env("FDR_KEEP", keep)
            .env("FDR_OUT", &trace)
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "890 100\n");
        let json = fdr(&[
            "report".as_ref(),
            "--tasks".as_ref(),
            "--json".as_ref(),
            trace.as_os_str(),
        ]);
        let document: Value = serde_json::from_str(&json).expect("JSON");
        let rows = document["tasks"].as_array().expect("rows");
        let ends = |name: &str| {
            let named = rows
                .iter()
                .find(|row| row["name"] == format!("tokio_tasks::{name}"));
            let row = named.unwrap_or_else(|| panic!("{name} in {json}"));
            ["finished", "dropped", "unfinished"].map(|end| row[end].as_u64().expect("a count"))
        };
        assert_eq!(ends("serve"), [1, 0, 0], "{runtime} {keep}");
        assert_eq!(ends("ask"), [2 * 890, 0, 0], "{runtime} {keep}");
        assert_eq!(ends("slow"), [0, 100, 0], "{runtime} {keep}");
        // One that is aborted before its first poll is no task yet.
        let [finished, dropped, unfinished] = ends("request");
        assert_eq!((finished, unfinished), (990, 0), "{runtime} {keep}");
        assert!(dropped <= 10, "{runtime} {keep}: {dropped}");
    }
}
