//! The name of a lock's type, for generic code that does not have this type itself.

/// Gives the name of a type. A constant function can't ask for that name itself.
pub type TypeName = fn() -> &'static str;

/// The type of a lock, for the generic code that wraps it. Empty without the recorder.
#[derive(Clone, Copy)]
pub struct TypeOf {
    #[cfg(all(feature = "record", target_os = "linux"))]
    name: TypeName,
}

impl TypeOf {
    /// The type of that name.
    #[must_use]
    pub const fn new(name: TypeName) -> TypeOf {
        let _ = name;
        TypeOf {
            #[cfg(all(feature = "record", target_os = "linux"))]
            name,
        }
    }

    /// The name of the type. Empty without the recorder.
    #[must_use]
    pub fn name(self) -> &'static str {
        #[cfg(all(feature = "record", target_os = "linux"))]
        return (self.name)();
        #[cfg(not(all(feature = "record", target_os = "linux")))]
        return "";
    }
}
