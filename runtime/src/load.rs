//! The recorder's entrance for the loader. It is called before `main`, and by `dlopen` for a library, so a
//! program calls nothing itself. It must never do more than hand over to `shell::install`.

use crate::shell::install;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    install::at_load();
}
