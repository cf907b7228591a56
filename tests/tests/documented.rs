//! The commands of the documentation, run page by page as they stand there, on a program with the names that the pages
//! use. A unit test of the tool parses the commands within sentences.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, Running};
use fdr_tests::{example, tool};

/// Lines that are not run here, and what runs them.
const ELSEWHERE: [(&str, &str); 17] = [
    ("cargo xtask", "the checks themselves"),
    ("cargo install", "the README's first commands"),
    ("cargo fdr", "the tests of `cargo fdr`"),
    ("curl", "the tests of http_service"),
    ("llvm-xray", "the tests with llvm-xray"),
    ("spark-submit", "the tests of fleet"),
    ("fdr-fleet", "the tests of fleet"),
    (
        "fdr view app.fdr",
        "the tests of the page, which stop the server",
    ),
    ("fdr view 1234", "the same"),
    ("fdr view --no-open", "the same"),
    (
        "fdr listen tcp:",
        "the tests of streams, which stop the listener",
    ),
    ("FDR=1 FDR_MODE=stream FDR_OUT=tcp", "the same"),
    (
        "fdr convert 1234 --to iet-prefix2 -o tcp:",
        "the tests with ENTRACE",
    ),
    (
        "FDR=1 cargo run --release -p fdr-examples --example http_service -- ",
        "the tests of http_service",
    ),
    (
        "fdr state 4711",
        "the tests of tasks, with a program that hangs",
    ),
    (
        "fdr replay --task 4711",
        "the tests of tasks, with a number that the trace has",
    ),
    ("FDR_", "variables alone"),
];

/// The shell's blocks of a page: each a list of commands without comments.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once("```sh\n") {
        let (block, after) = behind.split_once("```").expect("an end of the block");
        let lines = block.replace("\\\n", "").replace("|\n", "|");
        let lines = lines
            .lines()
            .map(|line| line.split(" #").next().unwrap_or(line));
        blocks.push(lines.map(|line| line.trim().to_owned()).collect());
        rest = after;
    }
    blocks
}

/// The folder in which the commands of a page run, with all that pages name.
struct Stage {
    folder: Folder,
    serving: Running,
}

impl Stage {
    fn new() -> Stage {
        let folder = Folder::new("documented");
        let my_app = || Program::new(env!("CARGO_BIN_EXE_my_app"), &folder).set("FDR=1");
        let _ = my_app().set("FDR_OUT=app.fdr FDR_SCHED=1").run().ok();
        fs::copy(folder.join("app.fdr"), folder.join("my_app.1234.1.fdr")).expect("a copy");
        fs::create_dir_all(folder.join("target/release/examples")).expect("a folder");
        let program = Path::new(env!("CARGO_BIN_EXE_my_app"));
        for (link, to) in [
            ("my_app", program),
            ("target/release/my_app", program),
            ("target/release/examples/shop", &example("shop")),
        ] {
            symlink(to, folder.join(link)).expect("a link");
        }
        fs::create_dir(folder.join("shm")).expect("a folder");
        for (place, name) in [
            (".", "my_app.1234.5f0c9a.fdr-ring"),
            ("shm", "my_app.7.1.fdr-ring"),
        ] {
            let serving = my_app().env("FDR_DIR", place).args(&["serve"]);
            let _ = serving.start_ready().kill();
            let ring = folder.only_file(place, ".fdr-ring");
            fs::rename(&ring, ring.with_file_name(name)).expect("renamed");
        }
        let serving = my_app().args(&["serve"]).start_ready();
        Stage { folder, serving }
    }

    /// The command as it can be run here.
    fn adapted(&self, command: &str) -> String {
        let http_service = example("http_service");
        let own = "cargo run --release -p fdr-examples --example http_service";
        let id = self.serving.id().to_string();
        let command = command.replace(own, &format!("{} 20", http_service.display()));
        let command = command.replace("/dev/shm", "shm");
        // A trigger's trace shows one moment. Later commands of the page read those of whole runs.
        let command = command.replace("FDR_TRIGGER=", "FDR_OUT=triggered/ FDR_TRIGGER=");
        let words = command.split_whitespace();
        let words = words.map(|word| if word == "1234" { &id } else { word });
        let command = words.collect::<Vec<_>>().join(" ");
        if command == "fdr ctl" {
            // Programs of other tests record, too.
            return format!("fdr ctl {id}");
        }
        // What another program reads is written all the same.
        match command.split_once("| curl") {
            Some((command, _)) => format!("{command}> body"),
            None => command,
        }
    }

    fn run(&self, page: &str, command: &str) {
        let bin = tool();
        let bin = bin.parent().expect("a folder").display();
        let path = std::env::var("PATH").unwrap_or_default();
        let script = self.adapted(command);
        let shell = Program::new("sh", &self.folder).args(&["-c", &script]);
        // By default, a busy machine may be a reason to record no states.
        let shell = shell.set("FDR_SCHED=1");
        let outcome = shell.env("PATH", format!("{bin}:{path}")).run();
        let is_well = outcome.status.success();
        assert!(is_well, "{page}: {script}: {outcome:#?}");
    }
}

#[test]
fn each_command_of_each_page_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages = vec![root.join("README.md")];
    let docs = fs::read_dir(root.join("docs")).expect("the pages");
    pages.extend(docs.map(|entry| entry.expect("an entry").path()));
    let (mut ran, mut left_out) = (0, vec![false; ELSEWHERE.len()]);
    for page in pages
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
    {
        let text = fs::read_to_string(page).expect("a text");
        let commands: Vec<String> = blocks(&text).into_iter().flatten().collect();
        let is_elsewhere = |command: &str| {
            let rule = |(start, _): &(&str, &str)| command.starts_with(start);
            ELSEWHERE.iter().position(rule)
        };
        let mut stage = None;
        for command in commands.iter().filter(|command| !command.is_empty()) {
            if let Some(rule) = is_elsewhere(command) {
                left_out[rule] = true;
                continue;
            }
            let stage = stage.get_or_insert_with(Stage::new);
            stage.run(&page.display().to_string(), command);
            ran += 1;
        }
    }
    assert!(ran > 30, "{ran} commands");
    // A rule that fits nothing would hide a command that is misspelt.
    assert_eq!(left_out, vec![true; ELSEWHERE.len()]);
}
