//! A graph as a picture, which the program `dot` of Graphviz draws of the text.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::{TitledGraph, dot};

const INSTALL: &str =
    "`dot` draws pictures: install Graphviz, or write the text into a file whose name ends in .dot";

/// Draws the graph as SVG.
pub(super) fn draw(out: &mut dyn Write, drawn: &TitledGraph<'_>) -> anyhow::Result<()> {
    if drawn.graph.nodes.is_empty() {
        bail!("nothing to draw: no function is left");
    }
    let mut text = Vec::new();
    dot::write(&mut text, drawn)?;
    let mut program = Command::new("dot");
    let program = program.arg("-Tsvg").stdin(Stdio::piped());
    let program = program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().context(INSTALL)?;
    // It reads all of the text before it writes. If it stops before that, its message says more than our error.
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(&text));
    let drawing = child.wait_with_output()?;
    if !drawing.status.success() {
        let message = String::from_utf8_lossy(&drawing.stderr);
        bail!(
            "dot: {}: {}",
            drawing.status,
            crate::ui::clean(message.trim())
        );
    }
    written
        .unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
        .context("dot")?;
    Ok(out.write_all(&drawing.stdout)?)
}
