//! What the programs that `cargo xtask` starts find in their environment.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use xtask::process::work_folder;

#[test]
fn variables_of_the_caller_reach_no_program() {
    let folder = work_folder(&format!("variables-test-{}", std::process::id())).expect("a folder");
    let cargo = folder.join("cargo");
    fs::write(&cargo, "#!/bin/sh\n/usr/bin/env\nexit 3\n").expect("a script");
    fs::set_permissions(&cargo, Permissions::from_mode(0o755)).expect("a program");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_xtask"));
    demo.arg("demo").env("PATH", &folder).env("OTHER", "kept");
    let run = demo.env("FDR", "1").env("FDR_OUT", "x").output();
    let run = run.expect("it runs");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    let variables = String::from_utf8_lossy(&run.stdout);
    assert!(variables.contains("OTHER=kept\n"), "{variables}");
    let ours = variables.lines().find(|line| line.starts_with("FDR"));
    assert_eq!(ours, None);
    let errors = String::from_utf8_lossy(&run.stderr);
    let command = "cargo build --release --package fdr-examples --no-default-features --example index_builder";
    assert!(errors.starts_with(&format!("$ {command}\n")), "{errors}");
    assert!(errors.contains(&format!("`{command}`: 3")), "{errors}");
}
