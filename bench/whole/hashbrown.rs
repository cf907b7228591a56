//! A workload of the map hashbrown: inserts, look-ups, removals and walks, with a hasher that gives the same hashes in
//! every run. `cargo xtask bench whole` builds it beside the library's sources.

use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::{HashMap, HashSet};

#[derive(Default)]
struct Multiplying(u64);

impl Hasher for Multiplying {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

type Build = BuildHasherDefault<Multiplying>;

fn main() {
    let rounds: u64 = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number of rounds");
    let mut sum = 0;
    for round in 0..rounds {
        let mut map: HashMap<u64, u64, Build> = HashMap::default();
        let mut names: HashSet<String, Build> = HashSet::default();
        for number in 0..50_000 {
            *map.entry(number * 7919 % 30_011).or_insert(round) += number;
            if number % 16 == 0 {
                names.insert(format!("name {}", number % 4096));
            }
        }
        for number in 0..30_000 {
            sum += map.get(&number).copied().unwrap_or(1);
            if number % 3 == 0 {
                map.remove(&number);
            }
        }
        map.retain(|_, value| *value % 2 == 0);
        sum += map.values().sum::<u64>() + names.len() as u64;
        map.shrink_to_fit();
        sum += map.clone().into_iter().count() as u64;
    }
    println!("{sum}");
}
