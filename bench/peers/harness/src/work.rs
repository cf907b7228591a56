//! The work, which is the same for every peer: functions and batches of their calls. The functions are written once,
//! and a peer's macro makes traced functions of them. `twin!` must put the same text around the functions of every
//! peer, so that they differ only in what the macro adds.
//!
//! | body | what a batch calls |
//! | --- | --- |
//! | leaf | one multiply, 5,000 times |
//! | fib | naive recursive fib(17) |
//! | mix | an index builder: 4 documents of 48 lines of 16 words, each word stemmed and counted |
//! | chain | multiplies that take about 50 ns, each on the result of the one before, 500 times; not in C |

/// An odd constant with well-mixed bits.
pub const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Calls of a batch of leaves.
pub const LEAVES: u64 = 5_000;
/// The argument of fib.
pub const FIB: u32 = 17;
/// Calls of a batch of chains.
pub const CHAINS: u64 = 500;
/// Multiplies of a chain: 4 cycles each, so about 50 ns at 3 GHz.
pub const STEPS: u32 = 38;

const DOCUMENTS: u64 = 4;
const LINES: u64 = 48;
const WORDS: u64 = 16;

/// Different words, before their endings.
const VOCABULARY: u64 = 4_096;
/// Slots of the table; a power of two.
const SLOTS: usize = 1 << 15;

/// What the calls of a batch do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Body {
    /// Calls that do next to nothing, one after the other.
    Leaf = 0,
    /// Calls within calls.
    Fib = 1,
    /// Functions of some ns to some µs, four deep.
    Mix = 2,
    /// Calls of about 50 ns, each of which needs the result of the one before.
    Chain = 3,
}

impl Body {
    /// The body of that name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn parse(name: &str) -> Result<Body, String> {
        match name {
            "leaf" => Ok(Body::Leaf),
            "fib" => Ok(Body::Fib),
            "mix" => Ok(Body::Mix),
            "chain" => Ok(Body::Chain),
            _ => Err(format!("unknown body {name}: leaf, fib, mix or chain")),
        }
    }

    /// How many calls a batch of it makes.
    pub fn calls(self) -> u64 {
        match self {
            Body::Leaf => LEAVES,
            Body::Fib => fib_calls(FIB),
            // A document, its lines, and two calls for each word.
            Body::Mix => DOCUMENTS * (1 + LINES * (1 + WORDS * 2)),
            Body::Chain => CHAINS,
        }
    }
}

/// How many calls fib(n) makes: 2 F(n+1) - 1.
fn fib_calls(n: u32) -> u64 {
    let (mut this, mut next) = (0_u64, 1);
    for _ in 0..=n {
        (this, next) = (next, this + next);
    }
    2 * this - 1
}

/// A word's stem and how often it came. C sources know this layout.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Slot {
    /// 0: free.
    pub key: u64,
    /// How often.
    pub count: u64,
}

const _: () = assert!(size_of::<Slot>() == 16);

/// What a thread works on.
pub struct Scratch {
    /// Documents, with a zero byte between them; lines end with `\n`, words with a space, but for the last.
    pub text: Vec<u8>,
    /// The index; its length is a power of two.
    pub table: Vec<Slot>,
}

impl Scratch {
    /// The same text every time, and an empty table.
    pub fn new() -> Scratch {
        let mut random = Random(MULTIPLIER);
        let documents = (0..DOCUMENTS).map(|_| document(&mut random));
        Scratch {
            text: documents.collect::<Vec<_>>().join(&0),
            table: vec![Slot::default(); SLOTS],
        }
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

fn document(random: &mut Random) -> Vec<u8> {
    let line = |random: &mut Random| {
        let words: Vec<Vec<u8>> = (0..WORDS).map(|_| word(random)).collect();
        words.join(&b' ')
    };
    let lines: Vec<Vec<u8>> = (0..LINES).map(|_| line(random)).collect();
    lines.join(&b'\n')
}

/// Six to seventeen letters, some words far more often than others, some with an ending or a capital.
fn word(random: &mut Random) -> Vec<u8> {
    let number = random.below(VOCABULARY) & random.below(VOCABULARY);
    let mut letters = Random(MULTIPLIER.wrapping_mul(number + 1));
    let length = 6 + letters.below(12);
    let mut word: Vec<u8> = (0..length)
        .map(|_| b'a' + letters.below(26) as u8)
        .collect();
    let ending: &[u8] = match random.below(8) {
        0 => b"ing",
        1 => b"ed",
        2 => b"s",
        _ => b"",
    };
    word.extend(ending);
    if random.below(8) == 0 {
        word[0] = word[0].to_ascii_uppercase();
    }
    word
}

/// Marsaglia's xorshift: enough for words.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// Makes the module `$module` with the work's functions, each put through the macro `$traced`, and
/// `batch`, which calls them. The macro is given `name(arguments) -> result { body }`, and must make a
/// function that is never inlined of it. It may put it through text: bodies name no `$crate`.
#[macro_export]
macro_rules! twin {
    ($visible:vis $module:ident, $traced:ident) => {
        #[doc(hidden)]
        $visible mod $module {
            use std::hint::black_box;

            use $crate::work::{
                Body, CHAINS, FIB, LEAVES, MULTIPLIER, STEPS, Scratch, Slot, count, key_of,
            };

            $traced! { leaf(x: u64) -> u64 {
                black_box(x.wrapping_mul(MULTIPLIER))
            } }

            // Without the black boxes the untraced twin becomes a loop.
            $traced! { fib(n: u32) -> u64 {
                if n < 2 {
                    u64::from(n)
                } else {
                    black_box(fib(n - 1)).wrapping_add(black_box(fib(n - 2)))
                }
            } }

            $traced! { chain(x: u64, steps: u32) -> u64 {
                (0..steps).fold(x, |y, _| y.wrapping_mul(MULTIPLIER) ^ 1)
            } }

            $traced! { document(text: &[u8], table: &mut [Slot]) -> u64 {
                let lines = text.split(|&byte| byte == b'\n');
                lines.fold(0_u64, |sum, text| sum.wrapping_add(line(text, table)))
            } }

            $traced! { line(text: &[u8], table: &mut [Slot]) -> u64 {
                let words = text.split(|&byte| byte == b' ');
                words.fold(0_u64, |sum, word| sum.wrapping_add(insert(stem(word), table)))
            } }

            $traced! { stem(word: &[u8]) -> u64 {
                key_of(word)
            } }

            $traced! { insert(key: u64, table: &mut [Slot]) -> u64 {
                count(key, table)
            } }

            /// One batch. Its result depends on the work alone.
            pub fn batch(body: Body, scratch: &mut Scratch) -> u64 {
                let Scratch { text, table } = scratch;
                match body {
                    Body::Leaf => (0..LEAVES).fold(0, |sum, x| sum ^ leaf(x)),
                    Body::Fib => fib(black_box(FIB)),
                    Body::Mix => text
                        .split(|&byte| byte == 0)
                        .fold(0_u64, |sum, text| sum.wrapping_add(document(text, table))),
                    Body::Chain => (0..CHAINS).fold(1, |x, _| chain(x, black_box(STEPS))),
                }
            }
        }
    };
}

/// A hash of the word without its ending and in lower case; never 0.
#[inline(always)]
pub fn key_of(word: &[u8]) -> u64 {
    let endings: [&[u8]; 3] = [b"ing", b"ed", b"s"];
    let stem = endings
        .iter()
        .find_map(|ending| word.strip_suffix(*ending).filter(|stem| stem.len() > 2))
        .unwrap_or(word);
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in stem {
        hash = (hash ^ u64::from(byte | 0x20)).wrapping_mul(0x100_0000_01B3);
    }
    hash | 1
}

/// Counts the key in the table, and returns its place mixed into it.
#[inline(always)]
pub fn count(key: u64, table: &mut [Slot]) -> u64 {
    let mask = table.len() - 1;
    let mut at = (key >> 40) as usize & mask;
    loop {
        let slot = &mut table[at];
        if slot.key == key || slot.key == 0 {
            slot.key = key;
            slot.count += 1;
            return key ^ at as u64;
        }
        at = (at + 1) & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::untraced;

    macro_rules! counted {
        ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
            #[inline(never)]
            fn $name($($arguments)*) -> $result {
                crate::work::tests::CALLS.with(|calls| calls.set(calls.get() + 1));
                $($body)*
            }
        };
    }

    thread_local! { static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) }; }

    crate::twin!(counting, counted);

    #[test]
    fn batches_make_the_stated_calls() {
        for body in [Body::Leaf, Body::Fib, Body::Mix, Body::Chain] {
            CALLS.with(|calls| calls.set(0));
            counting::batch(body, &mut Scratch::new());
            assert_eq!(CALLS.with(|calls| calls.get()), body.calls(), "{body:?}");
        }
    }

    #[test]
    fn twins_compute_the_same_again_and_again() {
        let mut scratches = [Scratch::new(), Scratch::new()];
        for body in [Body::Leaf, Body::Fib, Body::Mix, Body::Mix, Body::Chain] {
            let [one, other] = &mut scratches;
            let result = untraced::batch(body, one);
            assert_eq!(result, counting::batch(body, other), "{body:?}");
            assert_eq!(result, untraced::batch(body, one), "{body:?}");
        }
        let counted: u64 = scratches[0].table.iter().map(|slot| slot.count).sum();
        assert_eq!(counted, 4 * DOCUMENTS * LINES * WORDS);
    }

    #[test]
    fn endings_and_capitals_do_not_count() {
        assert_eq!(key_of(b"Walking"), key_of(b"walked"));
        assert_eq!(key_of(b"walks"), key_of(b"walk"));
        assert_ne!(key_of(b"ring"), key_of(b"r"));
    }
}
