//! What a job is where its file says nothing.

use ohm_model::{Class, ClassKind, OnDisconnect, SpreadMode};

/// The name of the only group of a job that names none.
pub(crate) const GROUP_NAME: &str = "main";

/// Between the polite signal and the kill, unless the group says otherwise.
pub(crate) const GRACE_MS: u64 = 10_000;

/// The class of a job that names none.
pub(crate) fn class(asks_for_topology: bool) -> Class {
    if asks_for_topology { Class::TAS } else { Class::BATCH }
}

/// What a class is like for the defaults of its jobs. A file does not say what the classes of an operator are like:
/// their jobs have the defaults of batch.
pub(crate) fn kind_of(class: Class) -> ClassKind {
    class.built_in().unwrap_or(ClassKind::Batch)
}

/// What the tasks of a job of a class of this kind do on a node that lost its servers, unless the job says otherwise.
pub(crate) fn on_disconnect(kind: ClassKind) -> OnDisconnect {
    if kind == ClassKind::Service { OnDisconnect::Keep } else { OnDisconnect::Stop }
}

/// What a group in a job of a class of this kind is, unless it says otherwise: the fewest that may start, whether it
/// grows later, whether it spreads.
pub(crate) fn group(kind: ClassKind, count: u32, is_array: bool) -> (u32, bool, SpreadMode) {
    match kind {
        ClassKind::Service => (1, true, SpreadMode::Spread),
        ClassKind::Batch | ClassKind::Tas if is_array => (1, true, SpreadMode::Pack),
        ClassKind::Batch | ClassKind::Tas => (count, false, SpreadMode::Pack),
    }
}
