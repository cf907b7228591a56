//! The rule about the files of the page of `fdr view`: no circle of imports. It reads lines, as a formatter leaves them.

use std::fs;
use std::path::Path;

use super::Finding;
use super::rooms::{Arrow, circles};
use xtask::Result;

const FOLDER: &str = "cli/page/src";

/// Checks the page's files.
///
/// # Errors
///
/// If a file cannot be read.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let bad = |error| format!("{FOLDER}: {error}");
    let mut arrows = Vec::new();
    for entry in fs::read_dir(root.join(FOLDER)).map_err(bad)? {
        let file = entry.map_err(bad)?;
        let name = file.file_name().to_string_lossy().into_owned();
        if let Some(module) = name.strip_suffix(".ts") {
            let text = fs::read_to_string(file.path()).map_err(bad)?;
            arrows.extend(imports(module, &text));
        }
    }
    Ok(circles(&arrows))
}

/// What a module imports: each `from "./NAME"` of its text.
fn imports(module: &str, text: &str) -> Vec<Arrow> {
    let import = |(nth, line): (usize, &str)| {
        let (_, behind) = line.split_once("from \"./")?;
        let (name, _) = behind.split_once('"')?;
        Some(Arrow {
            from: module.to_owned(),
            to: name.to_owned(),
            path: format!("{FOLDER}/{module}.ts"),
            line: nth + 1,
        })
    };
    text.lines().enumerate().filter_map(import).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_imports_is_found() {
        let mut arrows = imports("panel", "// The panel.\nimport { task } from \"./task\";\n");
        arrows.extend(imports("task", "import { el } from \"./dom\";\n"));
        assert!(circles(&arrows).is_empty());
        arrows.extend(imports("task", "import {\n  Host,\n} from \"./panel\";\n"));
        let found: Vec<String> = circles(&arrows).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "cli/page/src/panel.ts:2: panel uses task, and task uses panel or what leads to it: cut the circle",
                "cli/page/src/task.ts:3: task uses panel, and panel uses task or what leads to it: cut the circle"
            ]
        );
    }
}
