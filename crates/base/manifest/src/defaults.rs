//! What a job is where its file says nothing.

use ohm_model::{Class, ClassKind, GroupSpec, JobSpec, OnDisconnect, SpreadMode};

/// The name of the only group of a job that names none.
pub(crate) const GROUP_NAME: &str = "main";

/// Between the polite signal and the kill, unless the group says otherwise.
pub(crate) const GRACE_MS: u64 = 10_000;

/// Between leaving the endpoints and the polite signal, for tasks that can be reached by ports.
pub(crate) const STOP_DELAY_MS: u64 = 2_000;

/// Between leaving the endpoints and the polite signal, unless the group says otherwise: whom nobody finds by a
/// port has nobody to wait for.
pub(crate) fn stop_delay_ms(has_ports: bool) -> u64 {
    if has_ports { STOP_DELAY_MS } else { 0 }
}

/// The class of a job that names none.
pub(crate) fn class(asks_for_topology: bool) -> Class {
    if asks_for_topology { Class::TAS } else { Class::BATCH }
}

/// What a class is like for the defaults of its jobs. A file does not say what the classes of an operator are like:
/// their jobs have the defaults of batch until that is known ([`LeftOpen`]).
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

/// What a job of a class that is not built in leaves to the class: only a cell knows what that is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOpen {
    pub(crate) on_disconnect: bool,
    pub(crate) groups: Vec<GroupLeftOpen>,
}

/// What a group leaves to the class of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupLeftOpen {
    pub(crate) is_array: bool,
    pub(crate) min_count: bool,
    pub(crate) elastic: bool,
    pub(crate) spread: bool,
}

impl LeftOpen {
    /// Fills it in as a class has it that is like `kind`.
    pub(crate) fn fill(&self, job: &mut JobSpec, kind: ClassKind) {
        if self.on_disconnect {
            job.on_disconnect = on_disconnect(kind);
        }
        job.groups.iter_mut().zip(&self.groups).for_each(|(group, open)| open.fill(group, kind));
    }
}

impl GroupLeftOpen {
    fn fill(&self, spec: &mut GroupSpec, kind: ClassKind) {
        let (min_count, elastic, spread) = group(kind, spec.count, self.is_array);
        if self.min_count {
            spec.min_count = min_count;
        }
        if self.elastic {
            spec.elastic = elastic;
        }
        if self.spread {
            spec.spread = spread;
        }
    }
}
