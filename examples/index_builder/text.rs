//! Makes up documents. The same number gives the same document everywhere and always.

use fdr::traced;

use crate::counts::{Function, count};

const SYLLABLES: [&str; 32] = [
    "ba", "cor", "de", "fin", "gal", "hu", "in", "jor", "ka", "lem", "mi", "nor", "o", "pra",
    "qui", "ras", "se", "tu", "ur", "van", "we", "xe", "yl", "zo", "bri", "cla", "dro", "ster",
    "gra", "flo", "spi", "tre",
];
const ENDINGS: [&str; 8] = ["", "", "", "s", "ing", "ed", "ings", "ly"];

/// A small pseudo-random generator, seeded with the document's number.
pub(crate) struct Generator {
    state: u64,
}

impl Generator {
    /// The text of document `number`: 100 to 355 words with a little punctuation.
    #[traced]
    pub(crate) fn document(number: u32) -> String {
        count(Function::Document);
        let mut generator = Generator {
            state: u64::from(number) ^ 0x0F1E_2D3C_4B5A_6978,
        };
        let words = 100 + generator.next() % 256;
        let mut text = String::new();
        for at in 0..words {
            generator.word(&mut text);
            text.push_str(if at % 13 == 12 { ". " } else { " " });
        }
        text
    }

    /// Appends one word; frequent words are much more frequent than rare ones, as in real text.
    #[traced]
    fn word(&mut self, text: &mut String) {
        count(Function::Word);
        // The smallest of three draws: a long tail.
        let rank = (0..3).map(|_| self.next() % 20_000).min().unwrap_or(0);
        if rank < 400 {
            text.push_str(["the", "of", "and", "to"][rank as usize % 4]);
            return;
        }
        let mut rest = rank as usize;
        while rest > 0 {
            text.push_str(SYLLABLES[rest % SYLLABLES.len()]);
            rest /= SYLLABLES.len();
        }
        text.push_str(ENDINGS[(self.next() % 8) as usize]);
    }

    /// splitmix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
