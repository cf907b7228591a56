//! The rule about tests that share a program. Each file beside the program's root must be a module of the program.
//! Otherwise the file is never compiled, and its tests never run. The rule reads text only.

use std::collections::BTreeMap;

use super::Finding;

/// Checks the folders of tests whose root is `main.rs` or `mod.rs`; `texts` holds each file's text by its path.
pub(super) fn check(texts: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (root, text) in texts {
        let Some((folder, "main.rs" | "mod.rs")) = root.rsplit_once('/') else {
            continue;
        };
        // A program of its own is named in the crate's manifest.
        let Some((package, below)) = folder.split_once("/tests") else {
            continue;
        };
        if !below.is_empty() && !below.starts_with('/') {
            continue;
        }
        let manifest = texts.get(&format!("{package}/Cargo.toml"));
        for path in texts.keys() {
            let file = path.strip_prefix(folder).and_then(|p| p.strip_prefix('/'));
            let Some(name) = file.and_then(|file| file.strip_suffix(".rs")) else {
                continue;
            };
            let own_path = format!("path = \"tests{below}/{name}.rs\"");
            let is_module = text.lines().any(|line| declares(line, name));
            if !name.contains('/')
                && path != root
                && !is_module
                && !manifest.is_some_and(|text| text.contains(&own_path))
            {
                let what = format!("its tests never run: add `mod {name};` to {root}");
                findings.push(Finding::new(path, 0, what));
            }
        }
    }
    findings
}

/// Whether the line is `mod NAME;`, public or not.
fn declares(line: &str, name: &str) -> bool {
    let line = line.trim();
    let module = line.strip_suffix(';').and_then(|line| {
        let (before, module) = line.rsplit_once("mod ")?;
        (before.is_empty() || before.starts_with("pub")).then_some(module)
    });
    module == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_module_is_found() {
        let texts = [
            (
                "cli/Cargo.toml",
                "[[test]]\nname = \"own\"\npath = \"tests/own.rs\"\n",
            ),
            ("cli/tests/main.rs", "mod used;\nmod rest;\n// mod lost;\n"),
            ("cli/tests/used.rs", ""),
            ("cli/tests/lost.rs", ""),
            ("cli/tests/own.rs", ""),
            ("cli/tests/rest/mod.rs", "pub mod slow;\n"),
            ("cli/tests/rest/slow.rs", ""),
            ("cli/tests/rest/lost.rs", ""),
            ("cli/src/lost.rs", ""),
            ("fuzz/src/main.rs", ""),
        ];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let found: Vec<String> = check(&texts.into())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "cli/tests/lost.rs: its tests never run: add `mod lost;` to cli/tests/main.rs",
                "cli/tests/rest/lost.rs: its tests never run: add `mod lost;` to cli/tests/rest/mod.rs"
            ]
        );
    }
}
