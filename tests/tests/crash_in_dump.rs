//! A crash while another thread writes a dump: what there is of the dump does not stay for ever. And what a process
//! that lives has begun to write is left alone.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, Running};
use fdr_tests::support::tool::verify;
use fdr_tests::support::wait::until;

/// A dump of this takes longer than a signal.
const LARGE: &str = "FDR=1 FDR_KEEP=0 FDR_BUFFER=64M";
/// A crash may come after the dump.
const TRIES: usize = 50;

/// Files that have no name of their own yet.
fn unnamed(folder: &Folder) -> Vec<PathBuf> {
    folder.ending(".tmp")
}

/// A program in the midst of a dump.
fn dumping(folder: &Folder) -> Running {
    let program = Program::named("triggered", folder).set(LARGE);
    let mut program = program.start();
    program.tell("quick 1000000");
    assert_eq!(program.line(), "done");
    program.signal("USR2");
    until("a dump", || (!unnamed(folder).is_empty()).then_some(()));
    program
}

/// Another one in the same folder, from its beginning to its end.
fn another(folder: &Folder) {
    let program = Program::named("endings", folder).set("FDR=1");
    let _ = program.args(&["return"]).run().ok();
}

#[test]
fn crashes_in_dumps_leave_nothing() {
    for _ in 0..TRIES {
        let folder = Folder::new("crash-in-dump");
        let program = dumping(&folder);
        program.signal("ABRT");
        let outcome = program.end();
        assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{outcome:?}");
        if outcome.stderr.contains("fdr: wrote ") {
            continue;
        }
        // The crash has its own trace, or a ring that says so.
        folder.ending(".fdr").iter().for_each(|path| verify(path));
        another(&folder);
        assert_eq!(unnamed(&folder), Vec::<PathBuf>::new());
        return;
    }
    panic!("no crash of {TRIES} was in a dump");
}

#[test]
fn a_dump_that_another_process_writes_stays() {
    for _ in 0..TRIES {
        let folder = Folder::new("crash-beside-dump");
        let program = dumping(&folder);
        program.stop();
        if unnamed(&folder).is_empty() {
            continue;
        }
        another(&folder);
        assert_eq!(unnamed(&folder).len(), 1, "{:?}", folder.names());
        program.signal("CONT");
        let _ = program.wait_for_line("wrote ");
        let _ = program.end().ok();
        assert_eq!(unnamed(&folder), Vec::<PathBuf>::new());
        let traces = folder.ending(".fdr");
        assert!(traces.len() >= 2, "{traces:?}");
        traces.iter().for_each(|path| verify(path));
        assert_eq!(folder.names().len(), traces.len(), "{:?}", folder.names());
        return;
    }
    panic!("no dump of {TRIES} was stopped in its midst");
}
