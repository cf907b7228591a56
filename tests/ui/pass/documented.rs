//! The example in the documentation of `#[traced]`.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;

#[traced]
fn parse(line: &str) -> Option<u32> {
    line.trim().parse().ok()
}

struct Index;

impl Index {
    #[traced]
    fn insert(&mut self, _word: &str) { /* … */
    }

    #[traced(name = "Index::merge (slow path)")]
    fn merge_slowly(&mut self, _other: &Index) { /* … */
    }
}

fn main() {
    let mut index = Index;
    index.insert("word");
    index.merge_slowly(&Index);
    assert_eq!(parse(" 1\n"), Some(1));
}
