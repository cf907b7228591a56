//! What a command holds of a small file, whatever is in it: never more than half a gigabyte; where that is
//! not enough, it says so.

mod memory_support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fdr_formats::registry::targets;
use fdr_tests::support::folder::Folder;
use memory_support::{SHAPES, write};

/// How a command ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    mib: u64,
    stderr: String,
}

fn fdr(folder: &Folder, arguments: &[&str]) -> Ended {
    let told = folder.join("peak");
    let output = Command::new(env!("CARGO_BIN_EXE_peak"))
        .arg(&told)
        .arg(fdr_tests::tool(fdr_tests::Profile::Dev))
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .expect("the tool runs");
    let told = fs::read_to_string(told).expect("its end");
    let (code, kib) = told.trim().split_once(' ').expect("two numbers");
    Ended {
        code: code.parse().expect("a code"),
        mib: kib.parse::<u64>().expect("a size") / 1024,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn discovery() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let folder = Folder::new("memory");
    for shape in SHAPES {
        if !shape.name.contains(&only) { continue; }
        for target in targets() {
            let path = folder.join(&format!("{}.{}", shape.name, target.name));
            write(shape, target, &path);
            let size = size(&path);
            let path = path.to_str().expect("UTF-8");
            let mut commands: Vec<Vec<String>> = Vec::new();
            let mut add = |words: &str| commands.push(words.split(' ').map(|w| w.replace('@', path)).collect());
            if target.name.starts_with("xray") || target.name == "heph" {
            for words in ["report @", "report --per-thread @", "report --json --per-thread @", "report --csv @", "info @", "info --functions @", "records @", "verify @", "flame @", "flame --per-thread @", "state @", "state --at 50% @", "state --json @", "state @ --snapshot s.json", "map @ -o m.elf", "pack @ -o p.zst --force", "unpack p.zst -o u --force","pack --dense @ -o p.zst --force", "report p.zst"] {
                add(words);
            }
            for to in targets() { add(&format!("convert @ --to {} -o out.x --force", to.name)); }
            } else { for words in ["report @", "records @", "verify @", "flame @", "state @", "convert @ --to xray -o out.x --force", "convert @ --to tcstate -o out.x --force"] { add(words); } }
            for words in commands {
                let started = std::time::Instant::now();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let ended = fdr(&folder, &words);
                let took = started.elapsed().as_millis();
                if words[0] == "convert" { let p = folder.join("out.x"); let _ = fs::remove_dir_all(&p); let _ = fs::remove_file(&p); }
                let stderr: String = ended.stderr.chars().take(150).collect();
                if ended.mib > 64 || took > 3000 || ended.code > 1 {
                println!("{:6} MiB code {} {took:6} ms size {:7} {} {:?} {}", ended.mib, ended.code, size, shape.name, words.iter().map(|w| w.rsplit('/').next().unwrap_or(w)).collect::<Vec<_>>().join(" "), stderr);
                }
            }
        }
    }
}

fn size(path: &Path) -> u64 {
    match path.is_dir() {
        true => fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").metadata().expect("metadata").len()).sum(),
        false => fs::metadata(path).expect("a file").len(),
    }
}
