//! The recorder's side of the locks of another library. Only the crate `fdr-parking-lot` uses this, because it changes
//! without notice. No guard here remembers which thread holds a lock, so the caller reports each change.

pub use super::condvar::Condition;
pub use super::type_name::{TypeName, TypeOf};
pub use super::watch::{Claim, Origin, SharedWatch, Watch, is_on};
pub use crate::{
    __fdr_condition_constructors as condition_constructors,
    __fdr_lock_constructors as lock_constructors,
};
