//! What the locks of another library tell the recorder. Only the crate `fdr-parking-lot` uses this, because it changes
//! without notice. No guard here remembers who holds a lock, so the caller says it.

pub use super::condvar::Condition;
pub use super::type_name::{TypeName, TypeOf};
pub use super::watch::{Origin, SharedWatch, Watch, is_on};
