//! Rings that killed runs left: the next start of the same program bounds them, and `fdr rings --remove dead` removes
//! them. Neither takes a ring of a living process.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, Running};
use fdr_tests::support::wait::until;
use fdr_tests::tool;

/// A program that has recorded and waits, and its ring.
fn start(folder: &Folder, variables: &str) -> (Running, PathBuf) {
    let mut program = Program::named("crowd", folder)
        .set("FDR=1 FDR_OUT=out/ FDR_DIR=.")
        .set(variables)
        .args(&["short", "2", "2"])
        .start();
    until("records", || (program.line() == "waiting").then_some(()));
    let own = format!("programs.{}.", program.id());
    let mut rings = folder.ending(".fdr-ring").into_iter();
    let is_own = |ring: &PathBuf| {
        ring.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&own))
    };
    let ring = rings.find(is_own).expect("its ring");
    (program, ring)
}

fn killed(folder: &Folder) -> PathBuf {
    let (program, ring) = start(folder, "");
    program.signal("KILL");
    assert!(program.end().status.code().is_none());
    ring
}

#[test]
fn dead_rings_have_a_bound_and_are_removed() {
    let folder = Folder::new("dead-rings");
    let dead = [killed(&folder), killed(&folder), killed(&folder)];
    // A ring of another program does not count as this program's.
    let other = folder.join("programs.x.77.0123456789abcdef.fdr-ring");
    let mut head = vec![0; 1 << 17];
    let mut ring = File::open(&dead[0]).expect("a ring");
    ring.read_exact(&mut head).expect("its head");
    fs::write(&other, head).expect("a copy");
    let (living, its_ring) = start(&folder, "FDR_OUT_MOST=3");
    let (next, next_ring) = start(&folder, "FDR_OUT_MOST=1");
    let line = next.wait_for_line("rings of earlier runs that were killed: 3, ");
    assert!(
        line.contains("; the 2 oldest are removed (FDR_OUT_MOST)"),
        "{line}"
    );
    until("two rings to go", || {
        (!dead[0].exists() && !dead[1].exists()).then_some(())
    });
    let mut left = vec![
        dead[2].clone(),
        other.clone(),
        its_ring.clone(),
        next_ring.clone(),
    ];
    left.sort();
    let mut found = folder.ending(".fdr-ring");
    found.sort();
    assert_eq!(found, left);
    assert!(living.said_already("rings").is_none());

    let removed = Command::new(tool())
        .args(["rings", "--remove", "dead"])
        .current_dir(folder.path())
        .env_remove("FDR_DIR")
        .output()
        .expect("fdr runs");
    assert!(removed.status.success(), "{removed:?}");
    let messages = String::from_utf8_lossy(&removed.stderr);
    assert!(messages.starts_with("fdr: 2 rings removed, "), "{messages}");
    let table = String::from_utf8_lossy(&removed.stdout);
    assert_eq!(table.lines().count(), 3, "{table}");
    let mut left = vec![its_ring, next_ring];
    left.sort();
    let mut found = folder.ending(".fdr-ring");
    found.sort();
    assert_eq!(found, left);
    for mut program in [living, next] {
        program.tell("");
        let _ = program.end().ok();
    }
    assert_eq!(folder.ending(".fdr-ring"), [] as [PathBuf; 0]);
}
