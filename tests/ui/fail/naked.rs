//! The body of a naked function is assembly and nothing else.
use fdr::traced;

#[traced]
#[unsafe(naked)]
pub extern "C" fn trap() {
    std::arch::naked_asm!("")
}

fn main() {}
