//! The inverted index: for every term, the documents that hold it and how often. Documents are added
//! in rising order, and indexes are merged in the order of their documents.

use std::collections::HashMap;
use std::fmt;

use fdr::traced;

use crate::counts::{Function, count};

/// One document of a term's list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posting {
    document: u32,
    occurrences: u32,
}

/// Terms and where they occur.
#[derive(Default)]
pub(crate) struct Index {
    terms: HashMap<String, Vec<Posting>>,
}

/// What an index comes to; equal for equal documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    terms: usize,
    postings: usize,
    encoded_bytes: usize,
    checksum: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary {
            terms,
            postings,
            encoded_bytes,
            checksum,
        } = self;
        write!(
            f,
            "{terms} terms, {postings} postings, {encoded_bytes} bytes, "
        )?;
        write!(f, "checksum {checksum:016x}")
    }
}

impl Index {
    /// Notes that `term` occurs in `document`, which is not before any document added so far.
    #[traced]
    pub(crate) fn add(&mut self, term: &str, document: u32) {
        count(Function::Add);
        let Some(postings) = self.terms.get_mut(term) else {
            self.terms.insert(
                term.to_owned(),
                vec![Posting {
                    document,
                    occurrences: 1,
                }],
            );
            return;
        };
        match postings.last_mut() {
            Some(last) if last.document == document => last.occurrences += 1,
            _ => postings.push(Posting {
                document,
                occurrences: 1,
            }),
        }
    }

    /// Appends an index of later documents.
    #[traced]
    pub(crate) fn merge(mut self, later: Index) -> Index {
        count(Function::Merge);
        for (term, mut postings) in later.terms {
            self.terms.entry(term).or_default().append(&mut postings);
        }
        self
    }

    /// Encodes every list, in the order of the terms, and sums up.
    #[traced]
    pub(crate) fn summary(&self) -> Summary {
        count(Function::Summary);
        let mut terms: Vec<_> = self.terms.iter().collect();
        terms.sort_unstable_by_key(|&(term, _)| term);
        let mut checksum = 0xCBF2_9CE4_8422_2325;
        let mut bytes = Vec::new();
        let (mut postings, mut encoded_bytes) = (0, 0);
        for (term, list) in &terms {
            bytes.clear();
            encode(list, &mut bytes);
            postings += list.len();
            encoded_bytes += bytes.len();
            checksum = fnv1a(fnv1a(checksum, term.as_bytes()), &bytes);
        }
        Summary {
            terms: terms.len(),
            postings,
            encoded_bytes,
            checksum,
        }
    }
}

/// Document numbers as differences, then occurrences, 7 bits a byte.
#[traced]
fn encode(postings: &[Posting], bytes: &mut Vec<u8>) {
    count(Function::Encode);
    let mut before = 0;
    for posting in postings {
        for mut value in [posting.document - before, posting.occurrences] {
            while value > 0x7F {
                bytes.push((value & 0x7F) as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(value as u8);
        }
        before = posting.document;
    }
}

fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
