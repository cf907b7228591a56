//! XRay.
use crate::registry::Format;
/// The format.
pub const FORMAT: Format = Format { name: "xray", title: "XRay FDR", probe: |_| false, open: |_| Err(crate::Error::format(0, "")) };
