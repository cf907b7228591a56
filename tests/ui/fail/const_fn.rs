//! There is no clock at compile time.
use fdr::traced;

#[traced]
pub const fn square(x: u32) -> u32 {
    x * x
}

struct Side(u32);

impl Side {
    #[traced]
    const unsafe fn get(&self) -> u32 {
        self.0
    }
}

const _: u32 = square(2);

fn main() {}
