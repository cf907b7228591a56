//! A program without the recorder that loads the plug-in; see `plugin/commands.rs`.

#[path = "plugin/commands.rs"]
mod commands;

fn main() {
    commands::run(|| ());
}
