//! This project's recorder, as a program that depends on it uses it: an attribute, and variables. Modes:
//! `rdtscp` (its default), `rdtsc`, `off` (compiled in, nothing set).

use std::fs;
use std::process::ExitCode;

use peer_harness::{Kept, Peer, Result, folder, twin, untraced, with_environment};

macro_rules! traced {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[fdr::traced]
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            $($body)*
        }
    };
}

twin!(traced, traced);

struct Fdr {
    on: bool,
}

impl Peer for Fdr {
    fn finish(&self) -> Result<Kept> {
        if !self.on {
            return Ok(Kept::default());
        }
        let dump = fdr::dump().map_err(|error| error.to_string())?;
        let metadata = fs::metadata(&dump.path);
        let metadata = metadata.map_err(|error| format!("{}: {error}", dump.path.display()))?;
        Ok(Kept {
            bytes: Some(metadata.len()),
            calls: Some(dump.records / 2),
        })
    }
}

fn start(mode: &str) -> Result<Fdr> {
    let on = mode != "off";
    if on {
        let out = folder()?.join("");
        let out = out.to_str().ok_or("the folder's name is not UTF-8")?;
        with_environment(&[("FDR", "1"), ("FDR_CLOCK", mode), ("FDR_OUT", out)])?;
    }
    Ok(Fdr { on })
}

fn main() -> ExitCode {
    peer_harness::main([untraced::batch, traced::batch], start)
}
