//! The rules about links between Markdown pages. A relative link leads to a file of the tree. An anchor leads to a
//! heading of its page. Every page of docs/ is linked from another page, and is in the book.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::Finding;

/// A link of a page.
struct Link {
    line: usize,
    /// As it is written, without the anchor; empty: the page itself.
    path: String,
    anchor: Option<String>,
}

/// The table of contents of the book. Its links don't count as links from a page.
const BOOK: &str = "docs/SUMMARY.md";

/// Checks the links of all pages. `pages` has path and text of each page, `files` every file of the tree; paths are
/// relative to the workspace, with `/`.
pub(super) fn check(pages: &[(String, String)], files: &BTreeSet<String>) -> Vec<Finding> {
    let anchors: BTreeMap<&str, BTreeSet<String>> = pages
        .iter()
        .map(|(path, text)| (path.as_str(), anchors(text)))
        .collect();
    let mut findings = Vec::new();
    let (mut linked, mut in_book) = (BTreeSet::new(), BTreeSet::new());
    for (page, text) in pages {
        for link in links(text) {
            let mut found = |what: String| findings.push(Finding::new(page, link.line, what));
            let Some(target) = resolve(page, &link.path) else {
                found(format!("{}: the link leaves the tree", link.path));
                continue;
            };
            if page == BOOK {
                in_book.insert(target.clone());
            } else if target != *page {
                linked.insert(target.clone());
            }
            if !is_there(&target, files) {
                found(format!("{}: no such file; mend the link", link.path));
            } else if let Some(anchor) = link.anchor {
                let known = anchors.get(target.as_str());
                if !known.is_some_and(|known| known.contains(&anchor)) {
                    found(format!("#{anchor}: {target} has no such heading"));
                }
            }
        }
    }
    let is_of_docs = |page: &&str| page.starts_with("docs/") && *page != BOOK;
    for page in pages
        .iter()
        .map(|(page, _)| page.as_str())
        .filter(is_of_docs)
    {
        if !linked.contains(page) {
            let what = "no page links to it: link it, or take it out";
            findings.push(Finding::new(page, 0, what));
        }
        if !in_book.contains(page) {
            let what = format!("it is not in the book: add it to {BOOK}");
            findings.push(Finding::new(page, 0, what));
        }
    }
    findings
}

fn is_there(target: &str, files: &BTreeSet<String>) -> bool {
    let folder = format!("{}/", target.trim_end_matches('/'));
    let mut below = files.range(folder.clone()..);
    files.contains(target) || below.next().is_some_and(|file| file.starts_with(&folder))
}

/// The path of a link's target, from the workspace; `None` where it leads out.
fn resolve(page: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(page.to_owned());
    }
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Links to files. Addresses on the network, and paths of Rust items, are left out.
fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (event, place) in parser(text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
            continue;
        };
        let (path, anchor) = match dest_url.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor.to_owned())),
            None => (&*dest_url, None),
        };
        if !path.contains(':') {
            links.push(Link {
                line: 1 + text[..place.start].matches('\n').count(),
                path: path.to_owned(),
                anchor,
            });
        }
    }
    links
}

/// The anchors of a page's headings, as GitHub and GitLab make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading = None;
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                heading.iter_mut().for_each(|heading| *heading += &text);
            }
            Event::End(TagEnd::Heading(_)) => {
                let kept = |letter: &char| letter.is_alphanumeric() || "_- ".contains(*letter);
                let heading = heading.take().unwrap_or_default().to_lowercase();
                let anchor: String = heading.chars().filter(kept).collect();
                let anchor = anchor.replace(' ', "-");
                let mut numbered = anchor.clone();
                let mut number = 0;
                while !anchors.insert(numbered) {
                    number += 1;
                    numbered = format!("{anchor}-{number}");
                }
            }
            _ => {}
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[(&str, &str)]) -> Vec<(String, usize, String)> {
        let pages: Vec<(String, String)> = pages
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        let mut files: BTreeSet<String> = pages.iter().map(|(path, _)| path.clone()).collect();
        files.insert("docs/peers.svg".to_owned());
        check(&pages, &files)
            .into_iter()
            .map(|finding| (finding.path, finding.line, finding.what))
            .collect()
    }

    const IN_BOOK: (&str, &str) = (BOOK, "- [Clocks](clocks.md)\n");

    const PAGE: &str =
        "# Clocks\n\n## When `it` lies: why?\n\n```sh\n# no heading\n```\n\n## Twice\n## Twice\n";

    #[test]
    fn good_links_pass() {
        let readme = "[a](docs/clocks.md) and [b](docs/clocks.md#when-it-lies-why)\n\
                      ![plot](docs/peers.svg) [c](https://example.org/x) [d](crate::open) [e](#top)\n\
                      # Top\n`[code](nowhere.md)` [f](docs) [g](docs/clocks.md#twice-1)\n\
                      ```\n[h](nowhere.md)\n```\n";
        let page = format!("{PAGE}[up](../README.md) [here](#clocks) [beside](./clocks.md)\n");
        assert_eq!(
            found(&[("README.md", readme), ("docs/clocks.md", &page), IN_BOOK]),
            []
        );
    }

    #[test]
    fn bad_links_are_found() {
        let readme =
            "[a](docs/clock.md)\n[b](docs/clocks.md#no-heading)\n[c](../x) `x` [d](x.md)\n";
        let found = found(&[("README.md", readme), ("docs/clocks.md", PAGE), IN_BOOK]);
        let found: Vec<(usize, &str)> = found
            .iter()
            .map(|(_, line, what)| (*line, what.as_str()))
            .collect();
        let wanted = [
            (1, "docs/clock.md: no such file; mend the link"),
            (2, "#no-heading: docs/clocks.md has no such heading"),
            (3, "../x: the link leaves the tree"),
            (3, "x.md: no such file; mend the link"),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_page_that_nobody_links_to_is_found() {
        let alone = "# Alone\n[itself](alone.md)\n";
        let found = found(&[("README.md", "# Top\n"), ("docs/alone.md", alone)]);
        let whats: Vec<(&str, &str)> = found
            .iter()
            .map(|(path, _, what)| (path.as_str(), what.as_str()))
            .collect();
        let wanted = [
            "no page links to it: link it, or take it out",
            "it is not in the book: add it to docs/SUMMARY.md",
        ];
        assert_eq!(whats, wanted.map(|what| ("docs/alone.md", what)));
    }
}
