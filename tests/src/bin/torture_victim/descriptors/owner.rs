//! A thread's share: two files with a pattern, and the numbers at which it opens them. The first file grows, the second
//! has all its bytes from the beginning and is written again and again. The thread knows at each moment what every
//! number of its share is, how long its files are and what is in them.

use std::ffi::CString;

use fdr_tests::programs::page::Page;
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::descriptors::{
    FIRST_FILE, MAX, NUMBERS, SURE, THREADS, WHOLE, byte, name,
};

use super::table::{self, Number, ensure, wrong};

/// Bytes that are written or read together, at most.
const PIECE: u64 = 4096;

/// A file of the program's.
pub(crate) struct OwnedFile {
    page: Page,
    index: u64,
    path: CString,
    grows: bool,
    length: u64,
    known: Option<(u64, u64)>,
}

impl OwnedFile {
    pub(crate) fn new(page: Page, index: u64, grows: bool) -> OwnedFile {
        OwnedFile {
            page,
            index,
            path: CString::new(name(index)).expect("a name"),
            grows,
            length: 0,
            known: None,
        }
    }

    /// Opens the file under a new number. The caller holds the table's lock.
    pub(crate) fn open(&mut self) -> Number {
        let number = table::open(&self.path, if self.grows { libc::O_APPEND } else { 0 });
        if self.known.is_none() && !self.grows {
            self.page[FIRST_FILE + self.index as usize].set(MAX, WHOLE);
            for offset in (0..WHOLE).step_by(PIECE as usize) {
                self.put(number, offset, PIECE, Some(offset));
            }
            self.wrote(WHOLE);
        }
        self.is_at(number);
        number
    }

    fn put(&self, number: Number, begin: u64, count: u64, at: Option<u64>) {
        let mut bytes = [0; PIECE as usize];
        for (place, written) in bytes.iter_mut().enumerate() {
            *written = byte(self.index, begin + place as u64);
        }
        table::write(number, &bytes[..count as usize], at);
    }

    fn wrote(&mut self, length: u64) {
        self.length = length;
        self.page[FIRST_FILE + self.index as usize].set(SURE, length);
    }

    /// Writes a piece of the pattern.
    pub(crate) fn write(&mut self, number: Number, random: &mut Random) {
        let count = 1 + random.below(PIECE);
        if self.grows {
            let length = self.length + count;
            self.page[FIRST_FILE + self.index as usize].set(MAX, length);
            self.put(number, self.length, count, None);
            self.wrote(length);
        } else {
            let offset = random.below(WHOLE - count);
            self.put(number, offset, count, Some(offset));
        }
    }

    /// The number is this file, which is as long as it must be.
    pub(crate) fn is_at(&mut self, number: Number) {
        let (index, wanted) = (self.index, self.length);
        let Some((device, inode, length, mode)) = table::look(number) else {
            wrong(&format!(
                "number {number} is no descriptor, not file {index}"
            ));
        };
        let known = *self.known.get_or_insert((device, inode));
        ensure(known == (device, inode), || {
            format!("number {number} is another file, not file {index}")
        });
        ensure(length == wanted, || {
            format!("file {index} has {length} bytes of {wanted}")
        });
        ensure(mode & 0o777 == 0o640, || {
            format!("file {index} has the mode {mode:o}")
        });
    }

    /// The end of the file has its pattern and nothing else. All of it is read when the program has ended.
    pub(crate) fn is_whole(&mut self, number: Number) {
        self.is_at(number);
        let (mut offset, index) = (self.length.saturating_sub(WHOLE), self.index);
        let mut bytes = [0; PIECE as usize];
        loop {
            let count = table::read(number, &mut bytes, offset);
            if count == 0 {
                break;
            }
            for (place, read) in bytes[..count].iter().enumerate() {
                ensure(*read == byte(index, offset + place as u64), || {
                    let found = &bytes[place..count.min(place + 16)];
                    let (text, place) = (found.escape_ascii(), offset + place as u64);
                    format!("file {index} has \"{text}\" at {place}")
                });
            }
            offset += count as u64;
        }
        ensure(offset == self.length, || {
            format!("file {index} ends at {offset}")
        });
    }
}

/// A thread's files and numbers.
pub(crate) struct Owner {
    share: u64,
    first: Number,
    pub(crate) random: Random,
    files: [OwnedFile; 2],
    /// What the numbers of the share are: the first or second file.
    held: Vec<Option<usize>>,
}

impl Owner {
    /// The share of a thread; numbers begin with `first`.
    pub(crate) fn new(page: Page, seed: u64, share: u64, first: Number) -> Owner {
        Owner {
            share,
            first,
            random: Random::new(seed.wrapping_add(share)),
            files: [true, false]
                .map(|grows| OwnedFile::new(page, 2 * share + u64::from(!grows), grows)),
            held: vec![None; (NUMBERS / THREADS) as usize],
        }
    }

    fn number(&self, place: usize) -> Number {
        (place as u64 * THREADS + self.share) as Number
    }

    fn is_ours(&self, place: usize) -> bool {
        self.number(place) >= self.first
    }

    fn any(&mut self) -> usize {
        loop {
            let place = self.random.below(self.held.len() as u64) as usize;
            if self.is_ours(place) {
                return place;
            }
        }
    }

    /// A number of that file.
    fn held(&mut self, file: usize) -> Option<Number> {
        let from = self.any();
        let places = (from..self.held.len()).chain(0..from);
        let mut held = places.filter(|&place| self.held[place] == Some(file));
        held.next().map(|place| self.number(place))
    }

    /// All numbers were closed: opens the files anew.
    pub(crate) fn begin(&mut self) {
        self.held.fill(None);
        for file in 0..2 {
            let place = self.any();
            self.open_at(file, place);
        }
        // One may have come over the other.
        for file in 0..2 {
            self.has(file);
        }
    }

    fn open_at(&mut self, file: usize, place: usize) {
        let _table = table::lock();
        let wanted = self.number(place);
        table::close(wanted);
        let number = self.files[file].open();
        if number != wanted {
            table::dup_over(number, wanted);
            table::close(number);
        }
        // It may have been a free number of the share.
        self.held[place] = Some(file);
    }

    /// A descriptor number of the file. Opens the file if it has none.
    fn has(&mut self, file: usize) -> Number {
        if self.held(file).is_none() {
            let free = (0..self.held.len())
                .find(|&place| self.is_ours(place) && self.held[place].is_none());
            let place = free.unwrap_or_else(|| self.any());
            self.open_at(file, place);
        }
        self.held(file).unwrap_or_else(|| wrong("no number"))
    }

    /// Makes `count` random steps. A step closes a descriptor, opens a file, copies one descriptor over another,
    /// writes, or checks.
    pub(crate) fn steps(&mut self, count: u64, mut between: impl FnMut()) {
        for step in 0..count {
            let (place, file) = (self.any(), self.random.below(2) as usize);
            match self.random.below(8) {
                0 | 1 => self.close(place),
                2 | 3 => {
                    let from = self.has(file);
                    let _table = table::lock();
                    table::dup_over(from, self.number(place));
                    self.held[place] = Some(file);
                }
                4 => self.open_at(file, place),
                5 | 6 => {
                    let number = self.has(file);
                    self.files[file].write(number, &mut self.random);
                }
                _ => {
                    let number = self.has(file);
                    self.files[file].is_at(number);
                }
            }
            if step % 32 == 0 {
                between();
            }
        }
    }

    fn close(&mut self, place: usize) {
        let _table = table::lock();
        table::close(self.number(place));
        self.held[place] = None;
    }

    /// Puts one of the files at each number that is free.
    pub(crate) fn fill(&mut self) {
        for place in 0..self.held.len() {
            if self.is_ours(place) && self.held[place].is_none() {
                let file = self.random.below(2) as usize;
                let from = self.has(file);
                let _table = table::lock();
                table::dup_over(from, self.number(place));
                self.held[place] = Some(file);
            }
        }
    }

    /// Each number is the file that it must be, and the files have what they must have.
    pub(crate) fn check(&mut self) {
        for place in 0..self.held.len() {
            if let Some(file) = self.held[place] {
                let number = self.number(place);
                self.files[file].is_at(number);
            }
        }
        for file in 0..2 {
            let number = self.has(file);
            self.files[file].is_whole(number);
        }
    }
}
