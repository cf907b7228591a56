//! How much stack the attribute takes where nothing is optimized: the same recursive functions are measured with the
//! attribute and without.

use crate::package::{Package, text_of};

/// Bytes that a level of recursion may take more with the attribute: the guard's frame.
const BOUND: usize = 160;

/// Bytes of stack per level, by the function's name.
fn levels(package: &Package, features: &str) -> Vec<(String, usize)> {
    let output = package.cargo("run", &["--features", features]);
    assert!(output.status.success(), "{}", text_of(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let levels = text.lines().map(|line| {
        let (name, bytes) = line.split_once(' ').expect("a name and a number");
        (name.to_owned(), bytes.parse().expect("a number"))
    });
    levels.collect()
}

#[test]
fn functions_of_many_calls_take_little_more_stack() {
    let package = Package::copy_of("dispatch", "");
    let plain = levels(&package, "");
    let traced = levels(&package, "traced");
    assert_eq!(plain.len(), 2, "{plain:?}");
    assert_eq!(traced.len(), plain.len(), "{traced:?}");
    for ((name, plain), (_, traced)) in plain.into_iter().zip(traced) {
        assert!(
            plain > 0 && traced <= plain + BOUND,
            "{name}: {plain} bytes of stack per level without the attribute, {traced} with it"
        );
    }
}
