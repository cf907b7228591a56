//! What the pictures of the tool have in common: text that a picture may hold, colours, the frame.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write;

use crate::ui;

/// The size of letters, and their width in a font in which all are as wide.
pub(crate) const LETTERS: f64 = 12.0;
pub(crate) const LETTER: f64 = 7.25;

/// Text of a trace as a picture may hold it, between tags and in attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in ui::clean(text).chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No XML may hold these.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Whether a name is that of a picture.
pub(crate) fn is_picture(path: &std::path::Path) -> bool {
    path.extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("svg"))
}

/// The beginning of a picture of that size, white, with a title for readers of screens.
pub(crate) fn begin(
    out: &mut dyn Write,
    width: f64,
    height: f64,
    title: &str,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" \
         font-size=\"{LETTERS}\">\n<title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>",
        escape(title)
    )?;
    Ok(())
}

/// How text is set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style<'a> {
    /// `start`, `middle` or `end`; empty: the first.
    pub(crate) anchor: &'a str,
    /// A colour; empty: black.
    pub(crate) fill: &'a str,
    pub(crate) is_bold: bool,
}

/// One line of text.
pub(crate) fn text(
    out: &mut dyn Write,
    x: f64,
    y: f64,
    text: &str,
    style: Style<'_>,
) -> anyhow::Result<()> {
    let mut more = String::new();
    if !style.anchor.is_empty() {
        write!(more, " text-anchor=\"{}\"", style.anchor)?;
    }
    if !style.fill.is_empty() {
        write!(more, " fill=\"{}\"", style.fill)?;
    }
    if style.is_bold {
        more.push_str(" font-weight=\"bold\"");
    }
    writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\"{more}>{}</text>",
        escape(text)
    )?;
    Ok(())
}

/// The text, shortened to `width` units of the picture. Empty if there is no room for three letters.
pub(crate) fn fitting(text: &str, width: f64) -> Cow<'_, str> {
    let letters = (width / LETTER) as usize;
    match letters {
        0..3 => Cow::Borrowed(""),
        _ => ui::shorten(text, letters),
    }
}

/// The same for the name of a function. It loses its first parts first, because the last parts say most.
pub(crate) fn fitting_name(name: &str, width: f64) -> Cow<'_, str> {
    let letters = (width / LETTER) as usize;
    fitting(ui::last_parts(name, letters), width)
}

/// A colour for names of one module: always the same for the same text.
pub(crate) fn colour(module: &str, name: &str) -> String {
    let hash = |text: &str| {
        let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        text.bytes().fold(0x811c_9dc5, hash)
    };
    // From red over yellow to green; a name moves a little from its module.
    let hue = hash(module) % 110 + hash(name) % 12;
    let light = 66 + hash(name) / 16 % 9;
    format!("hsl({hue},72%,{light}%)")
}

/// The module of a function's name: all but its last part.
pub(crate) fn module(name: &str) -> &str {
    name.rsplit_once("::").map_or(name, |(module, _)| module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_becomes_markup() {
        assert_eq!(
            escape("<a href=\"x\" b='y'>&\u{1b}[2J\u{ffff}\n"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\\u{1b}[2J\u{fffd}\\n"
        );
    }

    #[test]
    fn text_fits_or_is_left_out() {
        assert_eq!(fitting("app::handle", 100.0), "app::handle");
        assert_eq!(fitting("app::handle", 60.0), "ap…andle");
        assert_eq!(fitting("app::handle", 20.0), "");
    }

    #[test]
    fn a_name_loses_its_first_parts_first() {
        let name = "app::db::Store::get";
        assert_eq!(fitting_name(name, 200.0), name);
        assert_eq!(fitting_name(name, 130.0), "db::Store::get");
        assert_eq!(fitting_name(name, 25.0), "get");
        assert_eq!(fitting_name("<app::A as app::B>::c", 60.0), "<a…B>::c");
    }

    #[test]
    fn a_module_keeps_its_colour() {
        assert_eq!(module("app::db::get"), "app::db");
        assert_eq!(module("main"), "main");
        assert_eq!(colour("a", "b"), colour("a", "b"));
    }
}
