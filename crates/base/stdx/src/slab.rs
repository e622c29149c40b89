//! Slots with generations: a dense index that is used again, under a key that is not.

use crate::Chunked;
use serde::{Deserialize, Serialize};

/// A column of optional values that reuses free slots, last freed first, so equal histories give equal slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slab<T> {
    slots: Chunked<Slot<T>>,
    free: Chunked<u32>,
    live: u32,
}

/// One slot, as a snapshot writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Chunked::default(), free: Chunked::default(), live: 0 }
    }
}

impl<T: Clone> Slab<T> {
    /// Puts `value` into a free slot and returns the slot and its generation.
    pub fn insert(&mut self, value: T) -> (u32, u32) {
        self.live += 1;
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.slots[slot as usize];
            entry.value = Some(value);
            return (slot, entry.generation);
        }
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 slots");
        self.slots.push(Slot { generation: 0, value: Some(value) });
        (slot, 0)
    }

    /// Empties `slot`; its next tenant has another generation.
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let entry = self.slots.get_mut(slot as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
        self.live -= 1;
        Some(value)
    }

    /// The value in `slot` for writing.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.value.as_mut()
    }
}

impl<T> Slab<T> {
    /// The value in `slot`.
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.value.as_ref()
    }

    /// The generation of `slot`, occupied or not.
    pub fn generation(&self, slot: u32) -> Option<u32> {
        Some(self.slots.get(slot as usize)?.generation)
    }

    /// Occupied slots in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, entry)| Some((slot as u32, entry.value.as_ref()?)))
    }

    /// The slots chunk by chunk, for snapshots.
    pub fn slices(&self) -> impl Iterator<Item = &[Slot<T>]> {
        self.slots.slices()
    }

    /// Free slots, last freed last, for snapshots.
    pub fn free(&self) -> &Chunked<u32> {
        &self.free
    }

    /// The slab with these slots and free slots; nothing when they contradict each other.
    pub fn from_parts(slots: Chunked<Slot<T>>, free: Chunked<u32>) -> Option<Self> {
        let live = slots.iter().filter(|slot| slot.value.is_some()).count();
        let empty = |slot: &u32| slots.get(*slot as usize).is_some_and(|slot| slot.value.is_none());
        let whole = live + free.len() == slots.len() && free.iter().all(empty);
        whole.then(|| Slab { slots, free, live: live as u32 })
    }

    /// How many slots are occupied.
    pub fn len(&self) -> usize {
        self.live as usize
    }

    /// Whether no slot is occupied.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// One past the highest slot ever used.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_comes_back_under_a_new_generation() {
        let mut slab = Slab::default();
        let (a, first) = slab.insert("a");
        let (b, _) = slab.insert("b");
        assert_eq!(slab.remove(a), Some("a"));
        assert_eq!(slab.remove(a), None);
        let (again, second) = slab.insert("c");
        assert_eq!((again, slab.len(), slab.slots()), (a, 2, 2));
        assert_ne!(first, second);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(a, &"c"), (b, &"b")]);
    }
}
