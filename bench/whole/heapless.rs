//! A workload of heapless, containers without an allocator: queues, heaps, maps, strings and vectors are filled and
//! emptied. `cargo xtask bench whole` builds it beside the library's sources.

use std::fmt::Write;

use heapless::binary_heap::{BinaryHeap, Max};
use heapless::index_map::FnvIndexMap;
use heapless::{Deque, LinearMap, String, Vec, spsc};

fn main() {
    let rounds: u32 = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number of rounds");
    let mut sum = 0_u64;
    for round in 0..rounds {
        let mut heap: BinaryHeap<u32, Max, 256> = BinaryHeap::new();
        let mut map: FnvIndexMap<u32, u32, 256> = FnvIndexMap::new();
        let mut few: LinearMap<u32, u32, 16> = LinearMap::new();
        let mut vector: Vec<u32, 256> = Vec::new();
        let mut deque: Deque<u32, 64> = Deque::new();
        for number in 0..200 {
            let number = number * 7919 % 1009 + round % 7;
            let _ = heap.push(number);
            let _ = map.insert(number, round);
            let _ = few.insert(number % 16, round);
            let _ = vector.push(number);
            if deque.is_full() {
                sum += u64::from(deque.pop_front().unwrap_or(0));
            }
            let _ = deque.push_back(number);
        }
        vector.sort_unstable();
        vector.retain(|number| number % 2 == 0);
        while let Some(number) = heap.pop() {
            sum += u64::from(number);
            map.remove(&number);
        }
        let mut text: String<128> = String::new();
        let _ = write!(text, "{round} and {sum}");
        sum += text.len() as u64 + vector.len() as u64 + few.len() as u64;
        let mut queue: spsc::Queue<u32, 64> = spsc::Queue::new();
        let (mut producer, mut consumer) = queue.split();
        for number in 0..200 {
            let _ = producer.enqueue(number);
            if number % 2 == 1 {
                sum += u64::from(consumer.dequeue().unwrap_or(0));
            }
        }
    }
    println!("{sum}");
}
