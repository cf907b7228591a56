//! The attribute and the macros in a library without std.
#![no_std]
#![deny(warnings)]

use fdr::traced;

pub struct Ring {
    bytes: [u8; 16],
    next: usize,
}

#[traced]
impl Ring {
    pub fn push(&mut self, byte: u8) -> Result<(), u8> {
        let mut free = 0;
        while free < self.bytes.len() && self.bytes[free] != 0 {
            free += 1;
        }
        let place = self.bytes.get_mut(free).ok_or(byte)?;
        *place = byte;
        self.next = free;
        fdr::gauge!("used", self.next);
        Ok(())
    }

    #[traced(args(byte, before = self.next), ret = ?)]
    pub fn find(&self, byte: u8) -> Option<usize> {
        let _search = fdr::span!("search", byte);
        let found = self.bytes.iter().position(|known| *known == byte);
        fdr::event!("found", place = ?found);
        found
    }
}

#[traced(args, err)]
pub fn checked(text: &str) -> Result<u32, core::num::ParseIntError> {
    text.parse()
}

#[traced]
pub async fn later<T: Clone>(value: &T) -> T {
    fdr::task!("ready", core::future::ready(value.clone())).await
}
