//! Predicts the next call, and the place of its delta. Encoder and decoder predict the same, so a predicted
//! call needs no bytes. Any call may come: a wrong prediction costs bytes and nothing else. The two sides
//! must never differ.
//!
//! A call's *symbol* is its word: the function's number shifted left by 4, with the action in bits 1 to 3.
//! The number of an exit is combined, by exclusive or, with that of the open function. So all exits of a
//! trace whose calls nest have one symbol.
//!
//! The prediction is the symbol that came last time after the same three symbols, with the same open
//! function. Deltas of the same *place* stand together, because they are alike. A place is a pair of calls,
//! this one and the previous one, with the open function.

/// Places of deltas.
pub(super) const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 10;
/// Expectations.
const EXPECTED: usize = 1 << EXPECTED_BITS;
const EXPECTED_BITS: u32 = 14;
/// Open calls that are remembered; of deeper ones, the latest.
const DEPTH: usize = 4096;
/// Bits of the history that are kept.
const HISTORY: u64 = (1 << 48) - 1;
/// Bits of a function's number in a word.
const FUNCTION: u32 = !0xf;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What has come in a block so far.
pub(super) struct Model {
    open: Box<[u32; DEPTH]>,
    depth: usize,
    expected: Box<[u32; EXPECTED]>,
    /// The last three symbols, 16 bits of each.
    history: u64,
    before: u32,
}

/// What is known before a call.
#[derive(Clone, Copy)]
pub(super) struct Guess {
    /// The symbol that is expected.
    pub(super) symbol: u32,
    /// The open function's number.
    open: u32,
    slot: usize,
}

fn is_exit(word: u32) -> bool {
    matches!(word & 0b110, 0b010 | 0b100)
}

impl Model {
    pub(super) fn new() -> Model {
        Model {
            open: Box::new([0; DEPTH]),
            depth: 0,
            expected: Box::new([0; EXPECTED]),
            history: 0,
            before: 0,
        }
    }

    /// Forgets what has come.
    pub(super) fn clear(&mut self) {
        self.open.fill(0);
        self.expected.fill(0);
        (self.depth, self.history, self.before) = (0, 0, 0);
    }

    #[inline(always)]
    pub(super) fn guess(&self) -> Guess {
        let open = self.open[self.depth % DEPTH];
        let mixed = (self.history ^ u64::from(open).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
        let slot = (mixed >> (64 - EXPECTED_BITS)) as usize;
        Guess {
            symbol: self.expected[slot],
            open,
            slot,
        }
    }

    /// A call came that has this word, and this symbol: returns its delta's place.
    #[inline(always)]
    pub(super) fn learn(&mut self, guess: Guess, word: u32, symbol: u32) -> usize {
        self.expected[guess.slot] = symbol;
        let short = symbol.wrapping_mul(FACTOR as u32) >> 16;
        self.history = (self.history << 16 | u64::from(short)) & HISTORY;
        if is_exit(word) {
            self.depth = self.depth.wrapping_sub(1);
        } else {
            self.depth = self.depth.wrapping_add(1);
            self.open[self.depth % DEPTH] = word & FUNCTION;
        }
        let pair = u64::from(self.before) << 32 | u64::from(symbol);
        self.before = symbol;
        let mixed = pair.wrapping_mul(FACTOR) ^ u64::from(guess.open);
        (mixed.wrapping_mul(FACTOR) >> (64 - PLACE_BITS)) as usize
    }
}

impl Guess {
    /// The symbol of a word, and the word of a symbol.
    #[inline(always)]
    pub(super) fn turn(self, word: u32) -> u32 {
        match is_exit(word) {
            true => word ^ self.open,
            false => word,
        }
    }
}
