//! `cargo fdr` on a workspace of odd sources: its changes, its messages, and the removal of every change. A small
//! crate stands in for the recorder, so that the builds are short.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{assert_contains, stderr, stdout};

/// The attribute of the crate that stands for the recorder: it gives the function back.
const RECORDER: &str = "extern crate proc_macro;\n\
    #[proc_macro_attribute]\n\
    pub fn traced(options: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {\n\
        assert_eq!(options.to_string(), \"auto\");\n    item\n}\n";

/// A loop, so that the function is worth it.
const LOOP: &str = "for _ in 0..1 {}";

struct Workspace(PathBuf);

impl Workspace {
    /// A workspace with a program, a library, a proc-macro crate, and a package outside that the program uses.
    fn new(name: &str) -> Workspace {
        let folder = format!("cargo-fdr-{name}-{}", std::process::id());
        let workspace = Workspace(std::env::temp_dir().join(folder));
        let _ = fs::remove_dir_all(&workspace.0);
        let files = [
            ("recorder/Cargo.toml", "[package]\nname = \"fdr\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\nproc-macro = true\n[workspace]\n".to_owned()),
            ("recorder/src/lib.rs", RECORDER.to_owned()),
            ("recorder/src/private.rs", String::new()),
            ("outside/Cargo.toml", "[package]\nname = \"outside\"\nversion = \"0.1.0\"\n[workspace]\n".to_owned()),
            ("outside/src/lib.rs", "pub fn answer() -> i32 { 42 }\n".to_owned()),
            ("ws/Cargo.toml", "[workspace]\nmembers = [\"app\", \"old\", \"derive\"]\nresolver = \"2\"\n[workspace.dependencies]\noutside = { path = \"../outside\" }\n".to_owned()),
            ("ws/app/Cargo.toml", "[package]\nname = \"my-app\"\nversion = \"0.1.0\"\nedition = \"2021\"\nbuild = \"build.rs\"\n\n[dependencies]\nold = { path = \"../old\" } # é\noutside = { workspace = true }".to_owned()),
            ("ws/app/build.rs", format!("#[path = \"src/shared.rs\"]\nmod shared;\nfn main() {{ shared::f(); {LOOP} }}\n")),
            ("ws/app/src/main.rs", format!("#![forbid(unsafe_code)]\nmod shared;\nmod nested;\n#[path = \"odd/name.rs\"]\nmod odd;\nmod inline {{\n    pub mod file;\n}}\nfn main() {{\n    {LOOP}\n    shared::f();\n    nested::deep::f();\n    odd::f();\n    inline::file::f();\n    old::f();\n    println!(\"{{}} {{}}\", outside::answer(), std::env::var(\"FDR\").unwrap_or_default());\n}}\n#[cfg(test)]\nmod tests {{\n    #[test]\n    fn t() {{ {LOOP} }}\n}}\n")),
            ("ws/app/src/shared.rs", format!("pub fn f() {{ {LOOP} }}\n")),
            ("ws/app/src/nested.rs", format!("pub mod deep;\r\npub fn g() {{}}\r\n/// Crlf.\r\n    pub(crate) fn h() {{ {LOOP} }}\r\n#[allow(unused)] fn i() {{ h(); {LOOP} }}")),
            ("ws/app/src/nested/deep.rs", format!("\u{feff}pub fn f() {{ super::h(); super::g(); {LOOP} }}\n")),
            ("ws/app/src/odd/name.rs", format!("macro_rules! m {{ () => {{ pub fn f() {{ {LOOP} }} }} }}\nm!();\n")),
            ("ws/app/src/inline/file.rs", format!("\tpub fn f() {{ {LOOP} }}\n")),
            ("ws/app/src/never.rs", "this is no module\n".to_owned()),
            ("ws/app/tests/t.rs", format!("#[test]\nfn t() {{ {LOOP} }}\n")),
            ("ws/old/Cargo.toml", "[package]\r\nname = \"old\"\r\nversion = \"0.1.0\"".to_owned()),
            ("ws/old/src/lib.rs", format!("pub mod r#async;\npub fn f() {{ async::f(); {LOOP} }}\n")),
            ("ws/old/src/async.rs", format!("pub fn f() {{ {LOOP} }}\n")),
            ("ws/derive/Cargo.toml", "[package]\nname = \"derive\"\nversion = \"0.1.0\"\n[lib]\nproc-macro = true\n".to_owned()),
            ("ws/derive/src/lib.rs", format!("pub(crate) fn f() {{ {LOOP} }}\n")),
        ];
        for (path, text) in files {
            let path = workspace.0.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        workspace
    }

    /// Runs `cargo fdr …` in a folder of the workspace.
    fn fdr(&self, folder: &str, arguments: &[&str]) -> Output {
        self.command(folder, arguments).output().expect("it runs")
    }

    fn command(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-fdr"));
        command
            .arg("fdr")
            .args(arguments)
            .current_dir(self.0.join(folder));
        let variables = [
            "FDR",
            "CARGO_TARGET_DIR",
            "RUSTFLAGS",
            "RUSTC_WRAPPER",
            "CARGO_BUILD_TARGET_DIR",
        ];
        variables.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.env("CARGO_NET_OFFLINE", "true");
        command
    }

    /// As [`Workspace::fdr`], with the crate that stands for the recorder; it must succeed.
    fn done(&self, folder: &str, arguments: &[&str]) -> String {
        let recorder = self.0.join("recorder");
        let recorder = recorder.to_str().expect("UTF-8");
        let output = self.fdr(folder, &[&["--fdr", recorder], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        stdout(&output).to_owned()
    }

    /// Every file of a folder by its path.
    fn files(&self, folder: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        fn list(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_file() {
                    files.insert(path.clone(), fs::read(&path).expect("a file"));
                } else if path.file_name().is_some_and(|name| name != "target") {
                    list(&path, files);
                }
            }
        }
        let mut files = BTreeMap::new();
        list(&self.0.join(folder), &mut files);
        files
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).expect(path)
    }

    fn edit(&self, path: &str, edit: impl Fn(String) -> String) {
        fs::write(self.0.join(path), edit(self.text(path))).expect(path);
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn marks_go_in_and_come_out() {
    let ws = Workspace::new("in-place");
    let before = ws.files("ws");
    let report = ws.done("ws", &["instrument"]);
    assert_contains(&report, "my-app: 5 functions marked, 2 left out\n");
    assert_contains(&report, "old: 2 functions marked, 0 left out\n");
    assert_contains(&report, "\n8 files changed\n");
    assert_eq!(
        ws.text("ws/app/src/nested.rs").replace(LOOP, "@"),
        "pub mod deep;\r\npub fn g() {}\r\n/// Crlf.\r\n    #[fdr::traced(auto)]\r\n    pub(crate) fn h() { @ }\r\n\
         #[allow(unused)] #[fdr::traced(auto)] fn i() { h(); @ }"
    );
    assert!(
        ws.text("ws/app/src/inline/file.rs")
            .starts_with("\t#[fdr::traced(auto)]\n\tpub fn f")
    );
    assert_contains(
        ws.text("ws/app/Cargo.toml"),
        "[dependencies]\nfdr = { path = \"",
    );
    for untouched in [
        "app/build.rs",
        "app/src/shared.rs",
        "app/src/odd/name.rs",
        "app/tests/t.rs",
        "derive/src/lib.rs",
        "derive/Cargo.toml",
    ] {
        let path = ws.0.join("ws").join(untouched);
        assert_eq!(
            fs::read(&path).ok().as_ref(),
            before.get(&path),
            "{untouched}"
        );
    }
    // A second run finds nothing to do.
    let marked = ws.files("ws");
    assert!(
        ws.fdr("ws", &["instrument", "--check"]).status.code() == Some(1),
        "another recorder"
    );
    assert_eq!(ws.done("ws", &["instrument", "--check"]), "");
    ws.done("ws", &["instrument"]);
    assert_eq!(ws.files("ws"), marked);
    assert_contains(
        ws.done("ws", &["instrument", "--remove"]),
        "8 files changed",
    );
    assert_eq!(ws.files("ws"), before);
}

#[test]
fn what_people_do_in_between_stays() {
    let ws = Workspace::new("edits");
    ws.done("ws", &["instrument"]);
    ws.edit("ws/old/src/lib.rs", |text| {
        text.replace("pub fn f", "#[fdr::traced] pub fn mine() {}\n\npub fn f")
    });
    ws.edit("ws/old/Cargo.toml", |text| text + "libc = \"0.2\"\n");
    let output = ws.fdr("ws", &["instrument", "--remove"]);
    assert!(output.status.success(), "{output:?}");
    let text = ws.text("ws/old/src/lib.rs");
    assert!(
        text.contains("#[fdr::traced] pub fn mine() {}") && !text.contains("auto"),
        "{text}"
    );
    let manifest = ws.text("ws/old/Cargo.toml");
    assert!(
        manifest.ends_with("\r\n[dependencies]\r\nlibc = \"0.2\"\n"),
        "{manifest}"
    );
}

#[test]
fn a_check_fails_and_a_list_says_why() {
    let ws = Workspace::new("check");
    let before = ws.files("ws");
    let output = ws.fdr("ws/app", &["instrument", "--check"]);
    assert_eq!(output.status.code(), Some(1));
    assert_contains(stdout(&output), "app/src/main.rs: would change\n");
    assert!(
        !stdout(&output).contains("old/"),
        "another package: {output:?}"
    );
    let list = ws.done("ws", &["instrument", "--list"]);
    for line in [
        "app/src/main.rs:9: my_app::main: marked\n",
        "app/src/main.rs:21: my_app::tests::t: left out: part of a test\n",
        "app/src/nested.rs:2: my_app::nested::g: left out: no loop, about 0 instructions\n",
        "old/src/async.rs:1: old::async::f: marked\n",
    ] {
        assert_contains(&list, line);
    }
    let list = ws.done(
        "ws",
        &[
            "instrument",
            "--list",
            "--filter",
            "old::*",
            "-p",
            "old",
            "-p",
            "my-app",
        ],
    );
    assert_eq!(list.matches(": marked").count(), 2, "{list}");
    assert_eq!(ws.files("ws"), before);
}

#[test]
fn mistakes_are_named() {
    let ws = Workspace::new("mistakes");
    ws.edit("ws/old/src/async.rs", |_| "fn f() {\n    \"\n".to_owned());
    let output = ws.fdr("ws", &["instrument", "-p", "old", "--list"]);
    assert_contains(
        stderr(&output),
        "old/src/async.rs:2: left as it is: no Rust",
    );
    for (arguments, part) in [
        (
            &["instrument", "-p", "new"][..],
            "-p new: not a member; the members are",
        ),
        (&["instrument", "nowhere"], "nowhere: No such file"),
        (
            &["instrument", "--filter", "-"],
            "--filter: `-` excludes nothing",
        ),
        (
            &["instrument", "--fdr", "old"],
            "--fdr old: not the recorder's folder",
        ),
        (&["publish"], "publish: no command of cargo fdr"),
    ] {
        let output = ws.fdr("ws", arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(part), "{arguments:?}: {output:?}");
    }
    ws.edit("ws/old/Cargo.toml", |text| {
        text + "\r\n[dependencies]\r\nfdr = { version = \"1\", optional = true }\r\n"
    });
    let output = ws.fdr("ws", &["instrument", "-p", "old"]);
    assert_contains(stderr(&output), "old/Cargo.toml: the name fdr is taken");
    fs::write(ws.0.join("ws/old/src/lib.rs"), b"fn f() { \"\xff\" }").expect("a file");
    let output = ws.fdr("ws", &["instrument", "-p", "old"]);
    assert_contains(stderr(&output), "old/src/lib.rs: byte 10 is not UTF-8");
}

#[test]
fn a_copy_is_built_and_run() {
    let ws = Workspace::new("copy");
    let before = ws.files("ws");
    let recorder = ws.0.join("recorder");
    let recorder = recorder.to_str().expect("UTF-8");
    let run = |options: &[&str]| {
        let arguments = [&["--fdr", recorder], options, &["run", "--quiet"]].concat();
        let output = ws.fdr("ws/app", &arguments);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(stdout(&output), "42 1\n");
        stderr(&output).to_owned()
    };
    assert_contains(
        run(&[]),
        "cargo fdr: 7 functions marked, 2 left out (my_app::tests::t, my_app::nested::g): `cargo fdr instrument --list` \
         says why, and --all marks them, too\n",
    );
    let named = run(&["--filter", "my_app::main"]);
    assert_contains(&named, "1 function marked, 8 left out: `cargo fdr");
    run(&[]);
    assert_eq!(ws.files("ws"), before, "the sources are as they were");
    let copied = ws.text("ws/target/fdr/src/app/src/nested.rs");
    assert_contains(&copied, "\r\n    #[fdr::traced(auto)] pub(crate) fn h()");
    // Only what changed is written again.
    let time = |path: &str| {
        let path = ws.0.join("ws/target/fdr/src").join(path);
        fs::metadata(path)
            .and_then(|file| file.modified())
            .expect("a time")
    };
    let [main, manifest, lock] = ["app/src/main.rs", "app/Cargo.toml", "Cargo.lock"].map(time);
    ws.edit("ws/old/src/lib.rs", |text| format!("// new\n{text}"));
    fs::remove_file(ws.0.join("ws/app/src/never.rs")).expect("removed");
    assert_eq!(ws.done("ws", &["run", "--quiet", "-p", "my-app"]), "42 1\n");
    assert_eq!(
        [
            time("app/src/main.rs"),
            time("app/Cargo.toml"),
            time("Cargo.lock")
        ],
        [main, manifest, lock]
    );
    assert!(
        ws.text("ws/target/fdr/src/old/src/lib.rs")
            .starts_with("// new\n")
    );
    assert!(!ws.0.join("ws/target/fdr/src/app/src/never.rs").exists());
}

/// Makes the program of a workspace depend on a package of a registry, which is a folder.
fn depend_on_a_registry(ws: &Workspace) {
    let files = [
        ("ws/.cargo/config.toml", "[source.crates-io]\nreplace-with = \"folder\"\n[source.folder]\ndirectory = \"vendor\"\n".to_owned()),
        ("ws/vendor/far/.cargo-checksum.json", format!("{{\"files\":{{}},\"package\":\"{}\"}}", "0".repeat(64))),
        ("ws/vendor/far/Cargo.toml", "[package]\nname = \"far\"\nversion = \"1.2.3\"\nedition = \"2021\"\n".to_owned()),
        // An original's warnings are no errors.
        ("ws/vendor/far/src/lib.rs", format!("#![deny(warnings)]\nfn unused() {{}}\npub fn f() {{ {LOOP} }}\n")),
    ];
    for (path, text) in files {
        let path = ws.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    ws.edit("ws/app/Cargo.toml", |text| text + "\nfar = \"1\"\n");
    ws.edit("ws/app/src/main.rs", |text| {
        text.replace("old::f();", "old::f(); far::f();")
    });
    let mut lock = Command::new("cargo");
    lock.args(["generate-lockfile", "--offline"])
        .current_dir(ws.0.join("ws"));
    assert!(lock.status().expect("cargo runs").success());
}

#[test]
fn dependencies_are_marked_in_copies() {
    let ws = Workspace::new("with");
    depend_on_a_registry(&ws);
    let before = ws.files("ws");
    // The user's own wrapper of the compiler is run, too.
    let (wrapper, log) = (ws.0.join("wrapper"), ws.0.join("log"));
    fs::write(
        &wrapper,
        format!("#!/bin/sh\necho x >>'{}'\nexec \"$@\"\n", log.display()),
    )
    .expect("a script");
    fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).expect("a script");
    let recorder = ws.0.join("recorder");
    let words = [
        "--fdr",
        recorder.to_str().expect("UTF-8"),
        "--with",
        "far",
        "run",
        "--quiet",
    ];
    let output = ws
        .command("ws/app", &words)
        .env("RUSTC_WRAPPER", &wrapper)
        .output()
        .expect("it runs");
    assert_eq!(stdout(&output), "42 1\n", "{output:?}");
    assert_contains(stderr(&output), "far 1.2.3: 1 function marked\n");
    assert!(log.exists());
    assert_eq!(ws.files("ws"), before, "the sources are as they were");
    let copied = ws.text("ws/target/fdr/with/far-1.2.3/src/lib.rs");
    assert_contains(&copied, "#[fdr::traced(auto)] pub fn f()");
    let lock = || ws.text("ws/target/fdr/src/Cargo.lock");
    let is_far = |block: &&str| block.contains("name = \"far\"");
    let far = |lock: &str| lock.split("\n\n").find(is_far).map(str::to_owned);
    let replaced = far(&lock()).expect("the package");
    assert!(
        replaced.contains("\"fdr\"") && !replaced.contains("source"),
        "{replaced}"
    );
    // Without the option it is the original again.
    assert_eq!(ws.done("ws/app", &["run", "--quiet"]), "42 1\n");
    assert_eq!(far(&lock()), far(&ws.text("ws/Cargo.lock")));
    assert!(!ws.text("ws/target/fdr/src/Cargo.toml").contains("patch"));
    for (name, part) in [
        ("near", "--with near: no package of that name in Cargo.lock"),
        ("outside", "--with outside: it is a folder of this machine"),
        (
            "derive",
            "--with derive: a procedural macro runs in the compiler",
        ),
    ] {
        let output = ws.fdr("ws", &["--with", name, "build"]);
        assert_contains(stderr(&output), part);
    }
    let output = ws.fdr("ws", &["--with", "far", "instrument"]);
    assert_contains(stderr(&output), "--with is for commands that build a copy");
    fs::remove_file(ws.0.join("ws/Cargo.lock")).expect("removed");
    let output = ws.fdr("ws", &["--with", "far", "build"]);
    assert_contains(
        stderr(&output),
        "--with needs a Cargo.lock that is up to date",
    );
}

#[test]
fn the_help_of_cargos_commands_copies_nothing() {
    let workspace = Workspace::new("help");
    let output = workspace.fdr("ws", &["run", "--help"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{output:?}");
    assert!(text.starts_with("cargo fdr [OPTIONS] run"), "{text}");
    assert_contains(text, "--release");
    assert_eq!(stderr(&output), "");
}
