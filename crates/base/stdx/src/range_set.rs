//! A set of integers kept as disjoint ranges: the pending tasks of an array of a hundred thousand are one entry.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Disjoint, non-touching ranges of `u32`, by first element.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeSet {
    /// First element to one past the last.
    ranges: BTreeMap<u32, u32>,
    count: u32,
}

impl RangeSet {
    /// The set `0..count`.
    pub fn all(count: u32) -> Self {
        let mut set = RangeSet::default();
        set.insert(0, count);
        set
    }

    /// How many elements are in the set.
    #[inline]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The ranges as (first, count), ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.ranges.iter().map(|(&first, &end)| (first, end - first))
    }

    /// The elements, ascending.
    pub fn values(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter().flat_map(|(first, count)| first..first + count)
    }

    /// Whether all of `first .. first + count` is in the set. The empty range always is.
    pub fn contains(&self, first: u32, count: u32) -> bool {
        let Some(end) = first.checked_add(count) else { return false };
        count == 0 || self.ranges.range(..=first).next_back().is_some_and(|(_, &range_end)| end <= range_end)
    }

    /// How many elements of `first .. first + count` are in the set.
    #[inline]
    pub fn overlap(&self, first: u32, count: u32) -> u32 {
        if self.is_empty() { 0 } else { self.overlap_of_some(first, count) }
    }

    fn overlap_of_some(&self, first: u32, count: u32) -> u32 {
        let end = first.saturating_add(count);
        let below = self.ranges.range(..end).rev();
        let ranges = below.take_while(|(_, range_end)| **range_end > first);
        ranges.map(|(start, range_end)| (*range_end).min(end).saturating_sub((*start).max(first))).sum()
    }

    /// Adds `first .. first + count`; elements already there stay.
    pub fn insert(&mut self, first: u32, count: u32) {
        if count == 0 {
            return;
        }
        self.remove(first, count);
        let (mut start, mut end) = (first, first + count);
        if let Some((&left, &left_end)) = self.ranges.range(..first).next_back()
            && left_end == first
        {
            self.ranges.remove(&left);
            start = left;
        }
        if let Some(right_end) = self.ranges.remove(&end) {
            end = right_end;
        }
        self.ranges.insert(start, end);
        self.count += count;
    }

    /// Removes what is in `other`, too.
    pub fn remove_all(&mut self, other: &RangeSet) {
        other.iter().for_each(|(first, count)| self.remove(first, count));
    }

    /// Removes `first .. first + count`; elements not there are ignored.
    pub fn remove(&mut self, first: u32, count: u32) {
        if count == 0 {
            return;
        }
        let end = first + count;
        while let Some((&start, &range_end)) = self.ranges.range(..end).next_back() {
            if range_end <= first {
                break;
            }
            self.ranges.remove(&start);
            if start < first {
                self.ranges.insert(start, first);
            }
            if range_end > end {
                self.ranges.insert(end, range_end);
            }
            self.count -= range_end.min(end) - start.max(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn it_equals_a_plain_set() {
        let mut dice = Prng::new(3);
        let (mut set, mut plain) = (RangeSet::default(), BTreeSet::new());
        for _ in 0..3000 {
            let (first, count) = (dice.below(60) as u32, dice.below(9) as u32);
            if dice.chance(500) {
                set.insert(first, count);
                plain.extend(first..first + count);
            } else {
                set.remove(first, count);
                plain.retain(|element| !(first..first + count).contains(element));
            }
            let listed: Vec<u32> = set.iter().flat_map(|(first, count)| first..first + count).collect();
            assert_eq!(listed, plain.iter().copied().collect::<Vec<_>>());
            assert_eq!(set.values().collect::<Vec<_>>(), listed);
            let (mut rest, other) = (set.clone(), RangeSet::all(dice.below(60) as u32));
            rest.remove_all(&other);
            assert!(rest.values().eq(plain.iter().copied().filter(|element| *element >= other.len())));
            assert_eq!(set.len() as usize, plain.len());
            let touching = set.iter().zip(set.iter().skip(1)).any(|((a, n), (b, _))| a + n >= b);
            assert!(!touching, "ranges must be merged");
            let within = plain.range(first..first + count).count();
            assert_eq!(set.overlap(first, count) as usize, within);
            assert_eq!(set.contains(first, count), (first..first + count).all(|element| plain.contains(&element)));
        }
    }
}
