//! What every crate may lean on and no crate should write twice: ids, bytes with a checksum, seeded dice, and the
//! reference-counted chunks that make a snapshot of the cell cheap.
//!
//! Invariants: nothing here knows a domain word, reads a clock, or iterates over anything unordered; the same inputs
//! give the same outputs on every machine.

pub mod bug;
pub mod chunked;
pub mod codec;
pub mod hash;
mod id;
pub mod map;
pub mod prng;
pub mod range_set;
pub mod slab;
pub mod text;

pub use chunked::Chunked;
pub use map::ChunkedMap;
pub use prng::Prng;
pub use range_set::RangeSet;
pub use slab::Slab;
