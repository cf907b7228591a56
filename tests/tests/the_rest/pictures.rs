//! A flame graph in a browser: its script zooms and searches, and names stay text.

use std::fs;
use std::process::Command;

use fdr_tests::support::folder::Folder;

use super::page::chromium;
use super::page_traces::{hostile, usual};

/// What a person does, and what is to be seen then. `seen` collects that.
const VISIT: &str = r#"<script><![CDATA[
    var seen = [], button = document.getElementById("search");
    var frames = Array.prototype.slice.call(document.querySelectorAll("g.f"));
    function look() {
      var found = document.querySelectorAll("g.found").length;
      var shown = frames.filter(function (frame) { return frame.style.display !== "none"; }).length;
      seen.push(button.textContent + " | " + found + " of " + shown);
    }
    function click(element) { element.dispatchEvent(new MouseEvent("click", { bubbles: true })); look(); }
    function find(answer) {
      window.prompt = function () { return answer; };
      dispatchEvent(new KeyboardEvent("keydown", { key: "f", ctrlKey: true, cancelable: true }));
      look();
    }
    look();
    ANSWERS.forEach(find);
    click(button);
    window.prompt = function () { return "::"; };
    click(button);
    click(frames[frames.length - 1]);
    click(frames[0]);
    find(null);
    var result = document.createElementNS("http://www.w3.org/2000/svg", "desc");
    result.textContent = "seen:" + seen.concat(String(window.hacked)).join("\n") + ":seen";
    document.documentElement.appendChild(result);
]]></script></svg>"#;

#[test]
fn a_flame_graph_zooms_and_searches() {
    let Some(browser) = chromium("a flame graph in a browser") else {
        return;
    };
    let folder = Folder::new("pictures");
    let [trace, picture] = ["t.fdr", "x.svg"].map(|name| folder.join(name));
    let searches = |answers: &str| {
        let mut flame = Command::new(fdr_tests::tool());
        flame.args(["flame", "--force", "-o"]);
        let output = flame.arg(&picture).arg(&trace).output().expect("fdr runs");
        assert!(output.status.success(), "{output:?}");
        let svg = fs::read_to_string(&picture).expect("a picture");
        let visit = VISIT.replace("ANSWERS", answers);
        fs::write(&picture, svg.replace("</svg>", &visit)).expect("room");
        let mut visitor = Command::new(&browser);
        visitor.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
        let profile = format!("--user-data-dir={}", folder.join("profile").display());
        let address = format!("file://{}", picture.display());
        let output = visitor.arg(profile).arg(address).output();
        let output = String::from_utf8(output.expect("the browser runs").stdout).expect("UTF-8");
        let (_, end) = output.rsplit_once(">seen:").expect("what was seen");
        let (lines, _) = end.split_once(":seen<").expect("all that was seen");
        lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };

    usual(&trace);
    let output = Command::new(fdr_tests::tool())
        .arg("flame")
        .arg(&trace)
        .output();
    let lines = String::from_utf8(output.expect("fdr runs").stdout).expect("UTF-8");
    let time = |part: &str| {
        let lines = lines.lines().filter(|line| line.contains(part));
        let times = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        times.sum::<u64>() as f64
    };
    let share = |part| format!("{:.2} %", 100.0 * time(part) / time("app"));
    let [step, leaf] = ["step", "leaf"].map(share);
    assert_eq!(
        searches(r#"["STEP", "e", "leaf", "no such"]"#),
        [
            "search (Ctrl+F) | 0 of 4".to_owned(),
            format!("STEP: {step} · click to end | 1 of 4"),
            // Of frames in frames, the outermost counts.
            format!("e: {step} · click to end | 2 of 4"),
            format!("leaf: {leaf} · click to end | 1 of 4"),
            "no such: 0.00 % · click to end | 0 of 4".to_owned(),
            "search (Ctrl+F) | 0 of 4".to_owned(),
            "::: 100.00 % · click to end | 3 of 4".to_owned(),
            "::: 100.00 % · click to end | 3 of 4".to_owned(),
            "::: 100.00 % · click to end | 3 of 4".to_owned(),
            "search (Ctrl+F) | 0 of 4".to_owned(),
            "undefined".to_owned(),
        ]
    );

    hostile(&trace);
    let answers = searches(r#"["<script>"]"#);
    assert!(answers[1].contains("&lt;script&gt;: "), "{answers:?}");
    assert!(!answers[1].contains("| 0 of"), "{answers:?}");
    assert_eq!(answers.last().map(String::as_str), Some("undefined"));
    // A frame hides those beside it; the lowest one shows them again.
    let shown = |line: &str| line.rsplit(' ').next().map(str::to_owned);
    assert_eq!(shown(&answers[4]).as_deref(), Some("2"), "{answers:?}");
    assert_eq!(shown(&answers[5]), shown(&answers[0]), "{answers:?}");
}
