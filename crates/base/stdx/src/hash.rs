//! Hashes that are the same on every machine and in every version: digests, shard keys, map buckets.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// XXH3 (64 bit) of `bytes`.
pub fn bytes(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Mixes `value` so that neighbours land far apart (splitmix64's finaliser, Steele et al., OOPSLA 2014).
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Folds `next` into the running value `chain`; order matters.
pub fn chain(chain: u64, next: u64) -> u64 {
    mix(chain.rotate_left(5) ^ next)
}

/// A streaming XXH3 digest over many byte strings.
#[derive(Default)]
pub struct Digest(Xxh3);

impl Digest {
    /// An empty digest.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of everything added so far.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}
