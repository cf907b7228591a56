//! Which names a person may have meant by a pattern that matches none. Must never take long on long
//! names: both sides are cut.

/// How much of a name and of a pattern is compared, characters.
const LONGEST: usize = 200;
/// Names that are looked at.
const MOST: usize = 10_000;

/// The `count` names nearest to the pattern, best first. However far off they are: a sample of what
/// there is helps as well.
pub(crate) fn nearest<'a>(
    names: impl Iterator<Item = &'a str>,
    pattern: &str,
    count: usize,
) -> Vec<&'a str> {
    let pattern: Vec<char> = pattern.chars().take(LONGEST).collect();
    // The same, anywhere in the name: `parse` for `app::parser::run`.
    let within = [&['*'], &pattern[..], &['*']].concat();
    let mut costs: Vec<(usize, usize, &str)> = names
        .take(MOST)
        .map(|name| {
            let text: Vec<char> = name.chars().take(LONGEST).collect();
            let cost = distance(&pattern, &text).min(distance(&within, &text) + 1);
            (cost, text.len(), name)
        })
        .collect();
    costs.sort_unstable();
    costs.dedup();
    costs
        .into_iter()
        .take(count)
        .map(|(.., name)| name)
        .collect()
}

/// The name that was surely meant: at most a third of its characters differ.
pub(crate) fn near<'a>(names: impl Iterator<Item = &'a str>, word: &str) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(LONGEST).collect();
    let chars = |name: &str| name.chars().take(LONGEST).collect::<Vec<char>>();
    let cost = |name: &'a str| (distance(&word, &chars(name)), name);
    let (cost, name) = names.take(MOST).map(cost).min()?;
    (cost * 3 <= name.chars().count().max(word.len()).max(3)).then_some(name)
}

/// How many characters must be put in, taken out or exchanged until the pattern matches the name;
/// what `*` and `?` cover is free.
fn distance(pattern: &[char], name: &[char]) -> usize {
    // row[j]: of the pattern so far and the first j characters of the name.
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for &want in pattern {
        let mut diagonal = row[0];
        row[0] += usize::from(want != '*');
        for (at, &have) in name.iter().enumerate() {
            let (above, left) = (row[at + 1], row[at]);
            row[at + 1] = if want == '*' {
                above.min(left)
            } else {
                let differs = want != '?' && want != have;
                (diagonal + usize::from(differs))
                    .min(above + 1)
                    .min(left + 1)
            };
            diagonal = above;
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let of = |pattern: &str, name: &str| {
            let chars = |text: &str| text.chars().collect::<Vec<char>>();
            distance(&chars(pattern), &chars(name))
        };
        assert_eq!(of("kitten", "sitting"), 3);
        assert_eq!(of("", "abc"), 3);
        assert_eq!(of("abc", ""), 3);
        assert_eq!(of("app::*", "app::run"), 0);
        assert_eq!(of("ap::*", "app::run"), 1);
        assert_eq!(of("a?c", "abc"), 0);
    }

    #[test]
    fn what_was_meant_comes_first() {
        let names = ["app::parser::run", "app::parse", "lib::step", "app::parse"];
        let near = |pattern: &str| nearest(names.into_iter(), pattern, 2);
        assert_eq!(near("app::prase"), ["app::parse", "app::parser::run"]);
        assert_eq!(near("stpe")[0], "lib::step");
        assert_eq!(near("lib::*x")[0], "lib::step");
        assert_eq!(nearest(std::iter::empty(), "x", 2), [""; 0]);
        let formats = ["xray", "xray1", "et", "heph"];
        let near = |word: &str| super::near(formats.into_iter(), word);
        assert_eq!(
            [near("xrey"), near("EP"), near("hep")],
            [Some("xray"), Some("et"), Some("heph")]
        );
        assert_eq!([near("perfetto"), near("json"), near("")], [None; 3]);
    }
}
