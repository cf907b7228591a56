use fdr::traced;

#[traced]
#[traced]
fn twice() {}

#[fdr::traced]
#[inline]
#[fdr::traced(name = "again")]
fn twice_by_path() {}

fn main() {
    twice();
    twice_by_path();
}
