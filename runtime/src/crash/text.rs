//! Text where nothing may be allocated: reasons, lines for people, paths. Text that does not fit is left out.
//! It must never write outside the memory that it was given. Async-signal-safe.

use core::ffi::CStr;

use fdr_formats::text::is_unsafe;

use crate::dump::output::decimal;

/// Text in borrowed bytes. The last byte stays a NUL.
pub(super) struct Text<'a> {
    bytes: &'a mut [u8],
    used: usize,
    /// Whether some text did not fit.
    cut: bool,
}

impl<'a> Text<'a> {
    /// All of `bytes` must be zeros.
    pub(super) fn new(bytes: &'a mut [u8]) -> Text<'a> {
        Text {
            bytes,
            used: 0,
            cut: false,
        }
    }

    pub(super) fn clear(&mut self) {
        // Cleared in place, and only the used bytes, because a handler has little stack.
        if let Some(used) = self.bytes.get_mut(..self.used) {
            used.fill(0);
        }
        (self.used, self.cut) = (0, false);
    }

    /// Appends all of the bytes, or none.
    #[inline(never)]
    pub(super) fn push(&mut self, more: &[u8]) -> &mut Self {
        let end = self.used.saturating_add(more.len());
        let fits = end < self.bytes.len();
        match self.bytes.get_mut(self.used..end) {
            Some(place) if fits => {
                place.copy_from_slice(more);
                self.used = end;
            }
            _ => self.cut = true,
        }
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        decimal(number, 1, &mut |digits| {
            self.push(digits);
        });
        self
    }

    /// Appends hexadecimal digits, at least `least` of them.
    pub(super) fn hex(&mut self, number: u64, least: u32) -> &mut Self {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(least);
        for place in (0..digits).rev() {
            let digit = (number >> (4 * place) & 15) as u8;
            self.push(&[if digit < 10 { b'0' } else { b'a' - 10 } + digit]);
        }
        self
    }

    /// Appends a name that others chose: a path, or the name of a thread or of a program. Bytes that are not
    /// UTF-8 and characters that control a terminal are replaced.
    pub(super) fn name(&mut self, name: &[u8]) -> &mut Self {
        for part in name.utf8_chunks() {
            for c in part.valid().chars() {
                let c = if is_unsafe(c) { '\u{fffd}' } else { c };
                self.push(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            if !part.invalid().is_empty() {
                self.push("\u{fffd}".as_bytes());
            }
        }
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or(&[])
    }

    /// The text. It is empty unless all of it is UTF-8.
    pub(super) fn text(&self) -> &str {
        core::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// The text as a path. `None` if some text did not fit, or if it holds a NUL.
    pub(super) fn path(&self) -> Option<&CStr> {
        let with_nul = self.bytes.get(..self.used.saturating_add(1))?;
        CStr::from_bytes_with_nul(with_nul)
            .ok()
            .filter(|_| !self.cut)
    }

    /// The path for the function that makes its folders. That function changes it for a moment.
    pub(super) fn path_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_format_makes_of_them() {
        for number in [0, 1, 9, 10, 0xf0, 4242, u64::MAX] {
            let mut bytes = [0; 64];
            let mut text = Text::new(&mut bytes);
            text.number(number).push(b" 0x").hex(number, 1);
            assert_eq!(text.text(), format!("{number} 0x{number:x}"));
        }
        let mut bytes = [0; 64];
        let mut text = Text::new(&mut bytes);
        assert_eq!(text.hex(0xab, 16).text(), "00000000000000ab");
    }

    #[test]
    fn long_texts_are_cut_and_no_path() {
        let mut bytes = [0; 6];
        let mut text = Text::new(&mut bytes);
        assert_eq!(text.push(b"abc").path(), Some(c"abc"));
        text.push(b"def");
        assert_eq!((text.text(), text.path()), ("abc", None));
        assert_eq!(text.push(b"de").text(), "abcde");
    }

    #[test]
    fn names_are_harmless() {
        let mut bytes = [0; 64];
        let mut text = Text::new(&mut bytes);
        text.name(b"a\x1b[31m\xff\xc3\xa9");
        assert_eq!(text.text(), "a\u{fffd}[31m\u{fffd}é");
    }
}
