//! A library crate whose functions are traced: a trait with a default method, two types, generics.
//! Its user decides at run time whether anything is recorded; the library itself must not care.
//! The example `library` is the program that uses it.

use fdr::traced;

/// A way to put things in order.
pub trait Sort {
    /// Sorts `items` in place, smallest first.
    fn sort<T: Ord + Clone>(&self, items: &mut [T]);

    /// Returns a sorted copy and leaves `items` alone.
    #[traced]
    fn sorted<T: Ord + Clone>(&self, items: &[T]) -> Vec<T> {
        let mut copy = items.to_vec();
        self.sort(&mut copy);
        copy
    }
}

/// Moves every item left until it is in place: quick for a handful.
#[derive(Debug, Clone, Copy, Default)]
pub struct InsertionSort;

impl Sort for InsertionSort {
    #[traced]
    fn sort<T: Ord + Clone>(&self, items: &mut [T]) {
        for end in 1..items.len() {
            let mut at = end;
            while at > 0 && items[at - 1] > items[at] {
                items.swap(at - 1, at);
                at -= 1;
            }
        }
    }
}

/// Sorts the halves, then merges them.
#[derive(Debug, Clone, Copy)]
pub struct MergeSort {
    /// [`InsertionSort`] sorts slices of up to this many items.
    pub small: usize,
}

impl Default for MergeSort {
    fn default() -> MergeSort {
        MergeSort { small: 16 }
    }
}

impl MergeSort {
    #[traced]
    fn merge<T: Ord + Clone>(left: &[T], right: &[T]) -> Vec<T> {
        let mut merged = Vec::with_capacity(left.len() + right.len());
        let (mut left, mut right) = (left, right);
        while let (Some(l), Some(r)) = (left.first(), right.first()) {
            // `<=` keeps equal items in their order.
            if l <= r {
                merged.push(l.clone());
                left = &left[1..];
            } else {
                merged.push(r.clone());
                right = &right[1..];
            }
        }
        merged.extend_from_slice(left);
        merged.extend_from_slice(right);
        merged
    }
}

impl Sort for MergeSort {
    #[traced]
    fn sort<T: Ord + Clone>(&self, items: &mut [T]) {
        if items.len() <= self.small.max(1) {
            return InsertionSort.sort(items);
        }
        let (left, right) = items.split_at_mut(items.len() / 2);
        self.sort(left);
        self.sort(right);
        let merged = MergeSort::merge(left, right);
        items.clone_from_slice(&merged);
    }
}

/// Whether no item is greater than the one after it.
#[traced]
pub fn is_sorted<T: PartialOrd>(items: &[T]) -> bool {
    items.windows(2).all(|pair| pair[0] <= pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffled(count: u64) -> Vec<u64> {
        (0..count)
            .map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (count / 2 + 1))
            .collect()
    }

    #[test]
    fn both_sorts_agree_with_the_standard_library() {
        for count in [0, 1, 2, 16, 17, 100, 1000] {
            let mut expected = shuffled(count);
            expected.sort();
            assert_eq!(
                InsertionSort.sorted(&shuffled(count)),
                expected,
                "{count} items"
            );
            assert_eq!(
                MergeSort::default().sorted(&shuffled(count)),
                expected,
                "{count} items"
            );
            assert_eq!(
                MergeSort { small: 0 }.sorted(&shuffled(count)),
                expected,
                "{count} items"
            );
        }
    }

    #[test]
    fn equal_items_keep_their_order_in_a_merge() {
        let left = [(1, 'a'), (2, 'a')];
        let right = [(1, 'b'), (2, 'b')];
        let merged = MergeSort::merge(&left, &right);
        assert_eq!(merged, [(1, 'a'), (1, 'b'), (2, 'a'), (2, 'b')]);
    }

    #[test]
    fn disorder_is_seen() {
        assert!(is_sorted::<u8>(&[]));
        assert!(is_sorted(&[1, 1, 2]));
        assert!(!is_sorted(&[1, 3, 2]));
    }
}
