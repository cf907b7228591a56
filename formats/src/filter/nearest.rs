//! Finds the names that a person may have meant. Messages use it for a filter without a match, and for an unknown
//! variable or format.

/// The most characters of a name and of a pattern that are compared.
const MAX_CHARS: usize = 200;

/// The `count` names nearest to the glob `pattern`, best first, each once. Even far names are given,
/// because a sample of the existing names helps a person who mistyped everything. Each name costs up to
/// 80,000 steps, so a caller with names from a file must bound their number.
#[must_use]
pub fn nearest<'a>(names: &[&'a str], pattern: &str, count: usize) -> Vec<&'a str> {
    let whole = beginning(pattern);
    // The same, anywhere in the name: `parse` for `app::parser::run`.
    let mut within = vec!['*'];
    within.extend_from_slice(&whole);
    within.push('*');
    let mut best: Vec<(u32, usize, &'a str)> = Vec::new();
    for &name in names {
        let chars = beginning(name);
        // A cost above that of the last kept name need not be exact.
        let limit = if best.len() < count {
            u32::MAX
        } else {
            best.last().map_or(0, |worst| worst.0)
        };
        let mut cost = distance(&whole, &chars, limit);
        if cost > 1 {
            cost = cost.min(distance(&within, &chars, limit).saturating_add(1));
        }
        let entry = (cost, name.len(), name);
        let place = best.partition_point(|kept| *kept <= entry);
        if place < count && !best.contains(&entry) {
            best.insert(place, entry);
            best.truncate(count);
        }
    }
    let mut names = Vec::new();
    best.iter().for_each(|(_, _, name)| names.push(*name));
    names
}

/// The characters that are compared.
fn beginning(text: &str) -> Vec<char> {
    let mut chars = Vec::new();
    for char in text.chars().take(MAX_CHARS) {
        chars.push(char);
    }
    chars
}

/// The nearest name, if it is near enough to be meant: at most a third of its characters differ.
pub fn near<'a>(names: impl Iterator<Item = &'a str>, word: &str) -> Option<&'a str> {
    let word = beginning(&word.to_lowercase());
    let cost = |name: &'a str| (distance(&word, &beginning(name), u32::MAX), name);
    let (cost, name) = names.map(cost).min()?;
    (cost as usize * 3 <= name.chars().count().max(word.len()).max(3)).then_some(name)
}

/// The number of characters to insert, remove or exchange until the glob matches the name. Characters
/// that `*` and `?` cover cost nothing. Above `limit`, the result is `u32::MAX`.
fn distance(glob: &[char], name: &[char], limit: u32) -> u32 {
    // row[j]: the cost of matching the glob so far with the first j characters of the name.
    let mut row: Vec<u32> = (0..).take(name.len() + 1).collect();
    for &want in glob {
        let mut diagonal = row[0];
        row[0] = if want == '*' { diagonal } else { diagonal + 1 };
        let mut least = row[0];
        for (j, &have) in name.iter().enumerate() {
            let above = row[j + 1];
            let left = row[j];
            row[j + 1] = if want == '*' {
                above.min(left)
            } else {
                let exchange = diagonal + u32::from(want != '?' && want != have);
                exchange.min(above + 1).min(left + 1)
            };
            diagonal = above;
            least = least.min(row[j + 1]);
        }
        if least > limit {
            return u32::MAX;
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(glob: &str, name: &str) -> u32 {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        distance(&chars(glob), &chars(name), u32::MAX)
    }

    #[test]
    fn costs_are_those_of_the_definition() {
        for (glob, name, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("abc", "abc", 0),
            ("a*", "abcdef", 0),
            ("*", "", 0),
            ("a*f", "abcdeg", 1),
            ("a?c", "abc", 0),
            ("a?c", "ac", 1),
            ("my_ap::*", "my_app::run", 1),
            ("*x*", "abc", 1),
        ] {
            assert_eq!(cost(glob, name), expected, "{glob} {name}");
        }
    }

    #[test]
    fn the_limit_changes_no_smaller_result() {
        let (a, b): (Vec<char>, Vec<char>) =
            ("kitten".chars().collect(), "sitting".chars().collect());
        assert_eq!(distance(&a, &b, 3), 3);
        assert_eq!(distance(&a, &b, 1), u32::MAX);
    }

    const NAMES: [&str; 5] = [
        "my_app::parse",
        "my_app::index::build",
        "my_app::index::merge",
        "lib::run",
        "my_app::main",
    ];

    #[test]
    fn finds_what_was_meant() {
        assert_eq!(nearest(&NAMES, "my_app::prase", 1), ["my_app::parse"]);
        assert_eq!(
            nearest(&NAMES, "my_app::idnex::*", 2),
            ["my_app::index::build", "my_app::index::merge"]
        );
        assert_eq!(nearest(&NAMES, "merge", 1), ["my_app::index::merge"]);
        assert_eq!(nearest(&NAMES, "lib::rum", 1), ["lib::run"]);
    }

    #[test]
    fn shorter_and_whole_matches_come_first() {
        // One letter too many against one wrong.
        assert_eq!(nearest(&["abcdeX", "abcdX"], "abcde", 1), ["abcdX"]);
        assert_eq!(
            nearest(&["a::xyzbb", "a::one_xyz"], "a::*xyz", 1),
            ["a::one_xyz"]
        );
    }

    #[test]
    fn results_are_bounded_by_limit_and_list() {
        assert_eq!(nearest(&NAMES, "zzz", 3).len(), 3);
        assert_eq!(nearest(&NAMES, "zzz", 10).len(), 5);
        assert_eq!(nearest(&NAMES, "zzz", 0), [""; 0]);
        assert_eq!(nearest(&[], "zzz", 3), [""; 0]);
        assert_eq!(nearest(&["a", "a", "b"], "a", 3), ["a", "b"]);
    }

    #[test]
    fn the_limit_does_not_change_the_order() {
        let many: Vec<String> = (0..500)
            .map(|i| format!("app::module_{}::function_{i}", i % 7))
            .collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        let nearest = |pattern: &str, count| nearest(&names, pattern, count);
        assert_eq!(
            nearest("app::module_3::funtion_94", 1),
            ["app::module_3::function_94"]
        );
        let all = nearest("app::module_3::funtion_94", 500);
        assert_eq!(nearest("app::module_3::funtion_94", 5), all[..5]);
    }

    #[test]
    fn long_and_odd_texts_are_cut_not_refused() {
        let long = "x".repeat(100_000);
        assert_eq!(nearest(&[long.as_str(), "日本"], &long, 1), [long.as_str()]);
        assert_eq!(nearest(&[long.as_str(), "日本"], "日", 1), ["日本"]);
    }

    #[test]
    fn the_name_that_was_surely_meant() {
        let formats = ["xray", "xray1", "et", "heph"];
        let near = |word: &str| near(formats.into_iter(), word);
        let found = [near("xrey"), near("EP"), near("hep")];
        assert_eq!(found, [Some("xray"), Some("et"), Some("heph")]);
        assert_eq!([near("perfetto"), near("json"), near("")], [None; 3]);
    }
}
