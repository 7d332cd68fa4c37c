//! Sets of numbers, stored as ranges: packet numbers and offsets of a stream.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of `u64`, stored as disjoint, non-adjacent half-open ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// Maps the start of each range to its end.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of separate ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges.iter().next().map(|(&start, &end)| start..end)
    }

    pub(crate) fn last(&self) -> Option<Range<u64>> {
        (self.ranges.iter().next_back()).map(|(&start, &end)| start..end)
    }

    /// Returns the range that contains this number.
    pub(crate) fn holding(&self, number: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ranges.range(..=number).next_back()?;
        (number < end).then_some(start..end)
    }

    /// Returns whether all of the range is in the set.
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty() || (self.holding(range.start)).is_some_and(|held| range.end <= held.end)
    }

    /// Adds a range and returns the number of new members.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (mut start, mut end) = (range.start, range.end);
        let mut known = 0;
        // Merges all ranges that touch the new one.
        while let Some((&old_start, &old_end)) = self.ranges.range(..=end).next_back() {
            if old_end < start {
                break;
            }
            known += old_end
                .min(range.end)
                .saturating_sub(old_start.max(range.start));
            self.ranges.remove(&old_start);
            start = start.min(old_start);
            end = end.max(old_end);
        }
        self.ranges.insert(start, end);
        range.end - range.start - known
    }

    /// Removes a range and returns the number of members removed.
    pub(crate) fn remove(&mut self, range: Range<u64>) -> u64 {
        let mut removed = 0;
        while let Some((&start, &end)) = self.ranges.range(..range.end).next_back() {
            if end <= range.start || range.is_empty() {
                break;
            }
            self.ranges.remove(&start);
            removed += end.min(range.end) - start.max(range.start);
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
        }
        removed
    }

    /// Returns the parts of `range` that are not in the set.
    pub(crate) fn missing_from(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        if let Some(held) = self.holding(at) {
            at = held.end;
        }
        while at < range.end {
            let next = self.ranges.range(at..range.end).next();
            let (start, end) = next.map_or((range.end, range.end), |(&s, &e)| (s, e));
            if at < start {
                missing.push(at..start);
            }
            at = end;
        }
        missing
    }

    /// Removes all numbers below this one.
    pub(crate) fn forget_below(&mut self, floor: u64) {
        while let Some((&start, &end)) = self.ranges.iter().next() {
            if start >= floor {
                break;
            }
            self.ranges.remove(&start);
            if end > floor {
                self.ranges.insert(floor, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_an_ordinary_set(steps in prop::collection::vec((0u8..3, 0u64..60, 0u64..20), 1..60)) {
            let mut set = RangeSet::default();
            let mut plain = BTreeSet::new();
            for (kind, start, length) in steps {
                let range = start..start + length;
                match kind {
                    0 => {
                        let new = range.clone().filter(|&n| plain.insert(n)).count() as u64;
                        prop_assert_eq!(set.insert(range.clone()), new);
                    }
                    1 => {
                        let gone = range.clone().filter(|n| plain.remove(n)).count() as u64;
                        prop_assert_eq!(set.remove(range.clone()), gone);
                    }
                    _ => {
                        let floor = start / 4;
                        plain.retain(|&n| n >= floor);
                        set.forget_below(floor);
                    }
                }
                let flat: Vec<_> = set.iter().flatten().collect();
                prop_assert_eq!(&flat, &plain.iter().copied().collect::<Vec<_>>());
                let ranges: Vec<_> = set.iter().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                let missing: Vec<_> = set.missing_from(range.clone()).into_iter().flatten().collect();
                let expected: Vec<_> = range.clone().filter(|n| !plain.contains(n)).collect();
                prop_assert_eq!(set.covers(&range), expected.is_empty());
                prop_assert_eq!(missing, expected);
            }
        }
    }
}
