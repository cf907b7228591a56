//! The least of a Rust lexer: tells code from comments and literals. It must keep every line where it
//! is, and must not fail on text that does not compile.

/// The text with comments and the contents of literals turned into spaces; lines stay lines.
pub(super) fn code_only(text: &str) -> String {
    let mut lexer = Lexer {
        rest: text,
        code: String::with_capacity(text.len()),
    };
    while let Some(first) = lexer.rest.chars().next() {
        if lexer.rest.starts_with("//") {
            lexer.blank(lexer.rest.find('\n').unwrap_or(lexer.rest.len()));
        } else if lexer.rest.starts_with("/*") {
            lexer.blank(block_comment(lexer.rest));
        } else if first == '"' {
            lexer.blank(quoted(lexer.rest, '"'));
        } else if first == '\'' {
            lexer.quote();
        } else if first == '_' || first.is_alphanumeric() {
            lexer.word();
        } else {
            lexer.keep(first.len_utf8());
        }
    }
    lexer.code
}

struct Lexer<'a> {
    rest: &'a str,
    code: String,
}

impl Lexer<'_> {
    fn keep(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.code.push_str(taken);
        self.rest = rest;
    }

    fn blank(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.code.extend(
            taken
                .chars()
                .map(|letter| if letter == '\n' { '\n' } else { ' ' }),
        );
        self.rest = rest;
    }

    /// A character, or the tick of a lifetime.
    fn quote(&mut self) {
        let mut letters = self.rest.chars().skip(1);
        let (first, second) = (letters.next(), letters.next());
        if first == Some('\\') || second == Some('\'') {
            self.blank(quoted(self.rest, '\''));
        } else {
            self.keep(1);
        }
    }

    /// An identifier, or the prefix of a raw string.
    fn word(&mut self) {
        let end = self
            .rest
            .find(|letter: char| letter != '_' && !letter.is_alphanumeric());
        let word = &self.rest[..end.unwrap_or(self.rest.len())];
        let raw = matches!(word, "r" | "br" | "cr");
        self.keep(word.len());
        let hashes = self.rest.len() - self.rest.trim_start_matches('#').len();
        if raw && self.rest[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let start = hashes + 1;
            let length = self.rest[start..].find(&close);
            self.blank(length.map_or(self.rest.len(), |length| start + length + close.len()));
        }
    }
}

/// Length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of a literal in quotes, both quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let code = code_only(text);
        assert_eq!(
            code.matches('\n').count(),
            text.matches('\n').count(),
            "{text}"
        );
        let words = code.split(|letter: char| letter != '_' && !letter.is_alphanumeric());
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(words("a // unsafe\nb"), ["a", "b"]);
        assert_eq!(words("a /* x /* y */ z\n */ b"), ["a", "b"]);
        assert_eq!(words("a /* open"), ["a"]);
    }

    #[test]
    fn literals_are_not_code() {
        assert_eq!(words(r#"a("x \" y") b"#), ["a", "b"]);
        assert_eq!(
            words("a r#\"x \" // y\n\"# b br\"z\" c"),
            ["a", "r", "b", "br", "c"]
        );
        assert_eq!(words(r"a '\'' 'x' '→' b"), ["a", "b"]);
        assert_eq!(words("a \"open"), ["a"]);
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        assert_eq!(
            words("fn f<'a>(x: &'a str)"),
            ["fn", "f", "a", "x", "a", "str"]
        );
        assert_eq!(words("r#type 'outer: loop"), ["r", "type", "outer", "loop"]);
    }
}
