//! The bell that wakes whoever listens.

use std::sync::atomic::{AtomicBool, Ordering};

/// Called whenever there is something to hear.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// Wakes whoever listens, once until it has listened.
pub(super) struct Bell {
    is_rung: AtomicBool,
    wake: Wake,
}

impl Bell {
    pub(super) fn new(wake: Wake) -> Self {
        Bell { is_rung: AtomicBool::new(false), wake }
    }

    /// Whoever listens has listened: the next ring wakes again.
    pub(super) fn listened(&self) {
        self.is_rung.store(false, Ordering::Release);
    }

    pub(super) fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
    }
}
