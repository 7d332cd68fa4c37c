//! Queues of secrets.

use std::{collections::VecDeque, mem};

use zeroize::Zeroize;

/// Appends to a queue of secrets. If the queue grows, the old buffer is wiped.
pub(crate) fn extend_secret<T: Copy + Zeroize>(
    queue: &mut VecDeque<T>,
    items: impl ExactSizeIterator<Item = T>,
) {
    reserve_secret(queue, items.len());
    queue.extend(items);
}

/// Reserves room for more secrets. If the queue has to grow, the old buffer is wiped, which
/// `VecDeque` does not do.
pub(crate) fn reserve_secret<T: Copy + Zeroize>(queue: &mut VecDeque<T>, more: usize) {
    let needed = queue.len() + more;
    if needed > queue.capacity() {
        drop(replace_buffer(queue, needed.max(2 * queue.len())));
    }
}

/// Moves a queue to a new buffer for at least `capacity` items. Returns the old buffer, wiped.
fn replace_buffer<T: Copy + Zeroize>(queue: &mut VecDeque<T>, capacity: usize) -> VecDeque<T> {
    let mut next = VecDeque::with_capacity(capacity);
    next.extend(queue.iter().copied());
    let mut old = mem::replace(queue, next);
    old.iter_mut().for_each(Zeroize::zeroize);
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_is_outgrown_is_wiped() {
        let mut queue: VecDeque<u64> = VecDeque::with_capacity(4);
        extend_secret(&mut queue, [1, 2, 3].into_iter());
        queue.rotate_left(2);
        assert_eq!(replace_buffer(&mut queue, 10), [0, 0, 0]);
        assert_eq!(queue, [3, 1, 2]);
        let mut expected = vec![3, 1, 2];
        for next in 4..100 {
            extend_secret(&mut queue, [next].into_iter());
            expected.push(next);
            assert_eq!(queue, expected);
        }
    }
}
