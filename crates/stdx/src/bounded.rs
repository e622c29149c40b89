//! A queue with an end: whoever fills it is told so at once instead of being buffered without limit.

use std::collections::VecDeque;

/// A first-in first-out queue that holds at most `limit` items.
#[derive(Clone, Debug)]
pub struct Bounded<T> {
    items: VecDeque<T>,
    limit: usize,
}

/// The queue was full; the refused item comes back to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> Bounded<T> {
    /// An empty queue for at most `limit` items.
    pub fn new(limit: usize) -> Self {
        Bounded { items: VecDeque::new(), limit }
    }

    /// Appends `item`, or hands it back when the queue is full.
    pub fn push(&mut self, item: T) -> Result<(), Full<T>> {
        if self.items.len() >= self.limit {
            return Err(Full(item));
        }
        self.items.push_back(item);
        Ok(())
    }

    /// Takes the oldest item.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many more items fit.
    pub fn room(&self) -> usize {
        self.limit - self.items.len()
    }
}
