//! Prints the sum as the build script, the compiler and the program compute it.

fn main() {
    let sums = [env!("SUM"), in_builds_macros::sum!()];
    println!("{} {}", sums.join(" "), in_builds::sum());
}
