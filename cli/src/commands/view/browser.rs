//! Opens the page in the browser. The address has the token, and any user of the machine can read the command lines of
//! all programs. So the browser is given a file that this user alone can read, and the file leads to the address.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::output_file::{self, Pending};
use crate::ui;

/// Opens the page. Returns the folder of the file, which is removed when that is dropped or a signal ends the command.
/// Where there is no browser, the person opens the address.
pub(super) fn open(address: &str) -> Option<Pending> {
    // The name can't be guessed, so no other user can make the folder before us.
    let number = RandomState::new().hash_one(0);
    let folder = env::temp_dir().join(format!("fdr-view-{number:016x}"));
    let opened = Pending::folder(&folder, false).and_then(|folder| {
        let file = folder.temporary().join("view.html");
        output_file::write(&file, false, |out| {
            Ok(out.write_all(page(address).as_bytes())?)
        })?;
        begin(&file)?;
        Ok(folder)
    });
    let why = |error: anyhow::Error| {
        ui::complain(&format!(
            "no browser could be opened: {error:#}: open the address yourself"
        ));
    };
    opened.map_err(why).ok()
}

/// Our addresses have no character that HTML would want to have escaped.
fn page(address: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><title>fdr view</title><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\"><a href=\"{address}\">fdr view</a>\n"
    )
}

fn begin(file: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("xdg-open");
    command.arg(file);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let started = command.spawn();
    let mut child = started.map_err(|error| anyhow::anyhow!("xdg-open: {error}"))?;
    // Without a wait, the child would stay a zombie.
    std::thread::spawn(move || child.wait());
    Ok(())
}
