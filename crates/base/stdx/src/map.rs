//! An ordered-by-bucket map with cheap clones: names to ids in the cell.

use crate::hash;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

const BUCKETS: usize = 1024;

/// A map from names to `V`, cut into reference-counted buckets by a fixed hash: cloning copies the list of buckets, a
/// write copies one shared bucket. Iteration is by bucket, then by name: the same on every machine, not alphabetical.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChunkedMap<V> {
    buckets: Vec<Arc<BTreeMap<Box<str>, V>>>,
    length: u64,
}

/// By content: a map that was emptied equals one that never held anything.
impl<V: PartialEq> PartialEq for ChunkedMap<V> {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.iter().eq(other.iter())
    }
}

impl<V: Eq> Eq for ChunkedMap<V> {}

impl<V> Default for ChunkedMap<V> {
    fn default() -> Self {
        ChunkedMap { buckets: Vec::new(), length: 0 }
    }
}

impl<V> ChunkedMap<V> {
    /// The value under `name`.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.buckets.get(bucket_of(name))?.get(name)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// All names with their values, by bucket.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.buckets.iter().flat_map(|bucket| bucket.iter().map(|(name, value)| (&**name, value)))
    }
}

impl<V: Clone> ChunkedMap<V> {
    /// Puts `value` under `name` and returns what stood there.
    pub fn insert(&mut self, name: &str, value: V) -> Option<V> {
        if self.buckets.is_empty() {
            self.buckets = (0..BUCKETS).map(|_| Arc::default()).collect();
        }
        let former = Arc::make_mut(&mut self.buckets[bucket_of(name)]).insert(name.into(), value);
        self.length += u64::from(former.is_none());
        former
    }

    /// Takes the value under `name` out.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        let bucket = self.buckets.get_mut(bucket_of(name))?;
        if !bucket.contains_key(name) {
            return None;
        }
        self.length -= 1;
        Arc::make_mut(bucket).remove(name)
    }
}

fn bucket_of(name: &str) -> usize {
    (hash::bytes(name.as_bytes()) % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_behaves_like_a_map_and_a_clone_keeps_what_it_saw() {
        let mut map = ChunkedMap::default();
        for number in 0..5000u32 {
            assert_eq!(map.insert(&format!("job-{number}"), number), None);
        }
        let before = map.clone();
        assert_eq!(map.insert("job-7", 8), Some(7));
        assert_eq!(map.remove("job-9"), Some(9));
        assert_eq!(map.remove("job-9"), None);
        assert_eq!((map.len(), map.iter().count()), (4999, 4999));
        assert_eq!((before.get("job-7"), before.get("job-9")), (Some(&7), Some(&9)));
        assert_eq!((map.get("job-7"), map.get("absent")), (Some(&8), None));
        assert_ne!(map, before);
        let mut emptied = ChunkedMap::default();
        emptied.insert("job-1", 1);
        emptied.remove("job-1");
        assert_eq!(emptied, ChunkedMap::default());
    }
}
