//! The tests of `fdr-fleet` as a program: what it exports is what `fdr report` says, whatever moment it is killed at and
//! whatever is damaged.

mod bucket;
mod damage;
mod engines;
mod faulty_proxy;
mod house;
mod kills;
mod overlap;
mod sums;
mod support;
