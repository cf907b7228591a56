//! Functions and scopes in modules of edition 2015. It must build without a warning.
#![deny(warnings)]
#![forbid(unsafe_code)]

mod first {
    #[fdr::traced]
    pub fn one() -> u32 {
        second::two()
    }

    pub mod second {
        #[fdr::traced(always)]
        pub fn two() -> u32 {
            ::first::second::Sum([1, 1]).sum()
        }

        struct Sum([u32; 2]);

        #[fdr::traced]
        impl Sum {
            fn sum(&self) -> u32 {
                let mut sum = 0;
                for part in &self.0 {
                    sum += *part;
                }
                sum
            }
        }
    }
}

#[fdr::traced(untimed)]
fn three() -> u32 {
    first::one() + 1
}

fn main() {
    assert_eq!(three(), 3);
}
