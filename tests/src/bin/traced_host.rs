//! A traced program that loads the plug-in; see `plugin/commands.rs`.

#[path = "plugin/commands.rs"]
mod commands;

#[fdr::traced]
fn own() {
    std::hint::black_box(());
}

#[fdr::traced]
fn all() {
    commands::run(own);
}

fn main() {
    all();
    println!("host {}", fdr::statistics().threads.len());
}
