//! What the locks of another library tell the recorder. Only the crate `fdr-parking-lot` uses this, because it changes
//! without notice. No guard here remembers who holds a lock, so the caller says it.

pub use super::condvar::Condition;
pub use super::watch::{Origin, SharedWatch, Watch, is_on};

/// Gives the name of a type. A constant function can't ask for that name itself.
pub type TypeName = fn() -> &'static str;

/// What a lock is, for a lock that does not know it by its own type. Without the recorder, nothing.
#[derive(Clone, Copy)]
pub struct TypeOf {
    #[cfg(feature = "record")]
    name: TypeName,
}

impl TypeOf {
    /// The type of that name.
    #[must_use]
    pub const fn new(name: TypeName) -> TypeOf {
        let _ = name;
        TypeOf {
            #[cfg(feature = "record")]
            name,
        }
    }

    /// Gives the name of the type.
    #[must_use]
    pub fn name(self) -> TypeName {
        #[cfg(feature = "record")]
        return self.name;
        #[cfg(not(feature = "record"))]
        return || "";
    }
}
