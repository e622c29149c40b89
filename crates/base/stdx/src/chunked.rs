//! A vector cut into reference-counted chunks: cloning it copies only the list of chunks, and the first later write
//! to a shared chunk copies that chunk alone. A snapshot of the cell is such a clone, so no commit waits for one.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Elements per chunk. A chunk copy costs well under a microsecond per kilobyte.
pub const CHUNK_LENGTH: usize = 256;

/// A growable column of `T` with cheap clones. Indexing is two steps; chunks are full except for the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunked<T> {
    chunks: Vec<Arc<Vec<T>>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { chunks: Vec::new() }
    }
}

impl<T> Chunked<T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK_LENGTH + last.len())
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The element at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK_LENGTH)?.get(index % CHUNK_LENGTH)
    }

    /// All elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The chunks as plain slices, for scans; all but the last hold `CHUNK_LENGTH` elements.
    pub fn slices(&self) -> impl Iterator<Item = &[T]> {
        self.chunks.iter().map(|chunk| chunk.as_slice())
    }
}

impl<T: Clone> Chunked<T> {
    /// The element at `index` for writing; copies its chunk first if a snapshot shares it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(index / CHUNK_LENGTH)?;
        if index % CHUNK_LENGTH >= chunk.len() {
            return None;
        }
        Arc::make_mut(chunk).get_mut(index % CHUNK_LENGTH)
    }

    /// Appends `value`.
    pub fn push(&mut self, value: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK_LENGTH => Arc::make_mut(last).push(value),
            _ => self.chunks.push(Arc::new(vec![value])),
        }
    }

    /// Removes the last element.
    pub fn pop(&mut self) -> Option<T> {
        let last = Arc::make_mut(self.chunks.last_mut()?);
        let value = last.pop();
        if last.is_empty() {
            self.chunks.pop();
        }
        value
    }

    /// Makes the column `length` long, filling new places with `value` or dropping the surplus.
    pub fn resize(&mut self, length: usize, value: T) {
        while self.len() > length {
            self.pop();
        }
        while self.len() < length {
            self.push(value.clone());
        }
    }
}

impl<T> std::ops::Index<usize> for Chunked<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK_LENGTH][index % CHUNK_LENGTH]
    }
}

impl<T: Clone> std::ops::IndexMut<usize> for Chunked<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut Arc::make_mut(&mut self.chunks[index / CHUNK_LENGTH])[index % CHUNK_LENGTH]
    }
}

impl<T: Clone> FromIterator<T> for Chunked<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut column = Chunked::default();
        values.into_iter().for_each(|value| column.push(value));
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_behaves_like_a_vector_and_a_clone_keeps_what_it_saw() {
        let mut column: Chunked<usize> = (0..1000).collect();
        let before = column.clone();
        column[700] = 1;
        *column.get_mut(0).unwrap() = 9;
        assert_eq!((column.len(), column[700], column[0]), (1000, 1, 9));
        assert_eq!((before[700], before[0]), (700, 0));
        assert_eq!(column.get(1000), None);
        assert_eq!(column.get_mut(1000), None);
        for expected in (701..1000).rev() {
            assert_eq!(column.pop(), Some(expected));
        }
        column.resize(3, 0);
        assert_eq!(column.iter().copied().collect::<Vec<_>>(), [9, 1, 2]);
        column.resize(0, 0);
        assert!(column.is_empty() && column.pop().is_none());
    }
}
