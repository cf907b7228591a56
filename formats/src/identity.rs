//! The identity of a trace: host, boot, build, version of the program, and tags that the user chose. Each text is
//! bounded, so that a ring file has room for all of them. This file also has the rules for `FDR_TAGS` and
//! `FDR_VERSION`.
//!
//! The texts stand one after the other, each with a NUL behind it, in the order of [`Part::ALL`]. A ring file and
//! an XRay file have these bytes. Readers ignore texts behind the ones that they know.

use crate::text::{self, owned};

/// One text of an [`Identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The host's name, as the kernel knows it.
    Host,
    /// The kernel's id of the machine's boot: hexadecimal digits and hyphens.
    Boot,
    /// The build id of the executable, which its linker made: hexadecimal digits.
    Build,
    /// The version of the program.
    Version,
    /// `key=value,key=value`.
    Tags,
}

impl Part {
    /// All parts, in the order of their bytes.
    pub const ALL: [Part; 5] = [
        Part::Host,
        Part::Boot,
        Part::Build,
        Part::Version,
        Part::Tags,
    ];

    /// The most bytes of the text. A longer one is cut.
    #[must_use]
    pub const fn most_bytes(self) -> usize {
        match self {
            Part::Host | Part::Build | Part::Version => 64,
            Part::Boot => 36,
            Part::Tags => 512,
        }
    }
}

/// The most bytes of an identity.
pub const MAX_BYTES: usize = 3 * 64 + 36 + 512 + Part::ALL.len();

/// Whom a trace is of. A text that the trace does not have is empty.
///
/// # Examples
/// ```
/// use fdr_formats::identity::{Identity, Part};
///
/// let mut identity = Identity::default();
/// identity.set(Part::Host, "db-7");
/// identity.set(Part::Tags, "shard=3,role=leader");
/// assert_eq!(identity.get(Part::Host), "db-7");
/// assert_eq!(identity.tags().last(), Some(("role", "leader")));
/// assert_eq!(Identity::from_bytes(identity.as_bytes()), identity);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Empty, or all parts, each with a NUL behind it.
    texts: String,
}

impl Identity {
    /// A text; empty if it is not known.
    #[must_use]
    pub fn get(&self, part: Part) -> &str {
        let text = text::parts(&self.texts, b'\0').nth(part as usize);
        text.unwrap_or_default()
    }

    /// Sets a text. It ends before a NUL, and is cut at [`Part::most_bytes`].
    pub fn set(&mut self, part: Part, text: &str) {
        let text = text::cut(text, part.most_bytes());
        let text = text::parts(text, b'\0').next().unwrap_or_default();
        let mut texts = String::with_capacity(self.texts.len() + text.len() + Part::ALL.len());
        for other in Part::ALL {
            texts.push_str(if other == part { text } else { self.get(other) });
            texts.push('\0');
        }
        if texts.len() == Part::ALL.len() {
            texts.clear();
        }
        self.texts = texts;
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The tags, in their order. Text that is no tag has no `=`, and is a key without a value.
    pub fn tags(&self) -> impl Iterator<Item = (&str, &str)> {
        let tags = self.get(Part::Tags).split(',');
        let tags = tags.filter(|tag| !tag.is_empty());
        tags.map(|tag| tag.split_once('=').unwrap_or((tag, "")))
    }

    /// The texts, each with a NUL behind it. At most [`MAX_BYTES`]; none if nothing is known.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.texts.as_bytes()
    }

    /// Decodes such bytes. It accepts any bytes: those that are not UTF-8 are replaced.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Identity {
        let mut identity = Identity::default();
        for (part, text) in Part::ALL.into_iter().zip(bytes.split(|&byte| byte == 0)) {
            let text = text.get(..part.most_bytes()).unwrap_or(text);
            identity.set(part, &String::from_utf8_lossy(text));
        }
        identity
    }
}

/// The words of `FDR_TAGS` and `--tags`: `key=value`, with commas between. A value may hold `=`. Blanks around
/// keys and values are dropped.
///
/// # Errors
/// What is wrong, without the text.
pub fn parse_tags(text: &str) -> Result<String, String> {
    let mut tags = String::new();
    let mut keys: Vec<&str> = Vec::new();
    for tag in text::parts(text, b',') {
        let (key, value) = tag
            .split_once('=')
            .ok_or("not key=value, with commas between")?;
        let (key, value) = (text::trimmed(key), text::trimmed(value));
        if key.is_empty() {
            return Err(owned(
                "a tag without a key; accepted is key=value,key=value",
            ));
        }
        if keys.contains(&key) {
            return Err(owned("two tags have the same key"));
        }
        keys.push(key);
        if !tags.is_empty() {
            tags.push(',');
        }
        tags.push_str(key);
        tags.push('=');
        tags.push_str(value);
        // A long text has many keys, and each is compared with all before it.
        if tags.len() > Part::Tags.most_bytes() {
            break;
        }
    }
    checked(&tags, Part::Tags)
}

/// The words of `FDR_VERSION`: any text of one line.
///
/// # Errors
/// What is wrong, without the text.
pub fn parse_version(text: &str) -> Result<String, String> {
    checked(text, Part::Version)
}

fn checked(text: &str, part: Part) -> Result<String, String> {
    let most = part.most_bytes();
    if text.len() > most {
        return Err(format!("too long; {most} bytes are the most"));
    }
    if text.contains(text::is_unsafe) {
        return Err(owned(
            "has a line break, or another character that can't be shown",
        ));
    }
    Ok(owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_and_bounded() {
        let mut identity = Identity::default();
        assert!(identity.is_empty() && identity.as_bytes().is_empty());
        for part in Part::ALL {
            assert_eq!(identity.get(part), "");
        }
        identity.set(Part::Version, "1.2\0.3");
        assert_eq!(identity.as_bytes(), b"\0\0\x001.2\0\0");
        for part in Part::ALL {
            identity.set(part, &"ü".repeat(1 << 20));
            assert_eq!(identity.get(part).len(), part.most_bytes());
        }
        assert_eq!(identity.as_bytes().len(), MAX_BYTES);
        for part in Part::ALL {
            identity.set(part, "");
        }
        assert_eq!(identity, Identity::default());
    }

    #[test]
    fn any_bytes_are_an_identity() {
        let bytes = b"h\xff\0\0b\n\0v\0t\x001/9\0later\0";
        let identity = Identity::from_bytes(bytes);
        let all = Part::ALL.map(|part| identity.get(part));
        assert_eq!(all, ["h\u{fffd}", "", "b\n", "v", "t"]);
        assert_eq!(identity.tags().collect::<Vec<_>>(), [("t", "")]);
        assert_eq!(Identity::from_bytes(&[0; 6]), Identity::default());
        assert_eq!(Identity::from_bytes(&[]), Identity::default());
        let long = Identity::from_bytes(&[0xff; 1 << 20]);
        assert!(long.get(Part::Host).len() <= 64);
        assert_eq!(Identity::from_bytes(b"cut").get(Part::Host), "cut");
    }

    #[test]
    fn tags() {
        for (text, kept) in [
            ("a=1", "a=1"),
            (" a = 1 , b=x=y ", "a=1,b=x=y"),
            ("a=,b=ü 🦀", "a=,b=ü 🦀"),
        ] {
            assert_eq!(parse_tags(text).as_deref(), Ok(kept));
        }
        let longest = format!("a={}", "x".repeat(510));
        assert_eq!(parse_tags(&longest).as_ref(), Ok(&longest));
        let many = (0..100_000).map(|at| format!("{at}=1")).collect::<Vec<_>>();
        for (text, problem) in [
            ("", "not key=value"),
            ("a", "not key=value"),
            ("a=1,", "not key=value"),
            ("a=1,b", "not key=value"),
            ("=1", "without a key"),
            (" =1", "without a key"),
            ("a=1,a=2", "same key"),
            ("a=1\nFDR=0", "line break"),
            ("a=\u{1b}[2J", "line break"),
            ("a=\u{202e}x", "line break"),
            ("a=\0", "line break"),
            (&longest.replace("a=", "aa="), "too long; 512 bytes"),
            (&format!("a={}", "x".repeat(1 << 20)), "too long"),
            (&many.join(","), "too long"),
        ] {
            let error = parse_tags(text).unwrap_err();
            assert!(error.contains(problem), "{error}");
            assert!(error.len() < 100, "{error}");
        }
    }

    #[test]
    fn versions() {
        assert_eq!(parse_version("1.2.3-rc.1+g12ab").unwrap().len(), 16);
        assert!(parse_version("1\n2").unwrap_err().contains("line break"));
        assert!(parse_version(&"1".repeat(65)).unwrap_err().contains("64"));
    }
}
