//! The recorder's entrance for the loader. The loader calls it before `main`, and `dlopen` calls it for a
//! library. So a program calls nothing itself. This file must never do more than call `shell::install`.

use crate::shell::install;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    install::at_load();
}
