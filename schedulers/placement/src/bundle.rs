//! Groups that are placed together.

use crate::asks::GroupAsk;
use ohm_cell::Job;

/// Groups that are placed together; mostly one.
pub type Bundle = Vec<GroupAsk>;

/// The asks in order, groups that share a label and ask for the same level of a topology put together.
pub fn bundles(job: &Job, asks: &[GroupAsk]) -> Vec<Bundle> {
    let mut bundles: Vec<Bundle> = Vec::new();
    let spec = |ask: &GroupAsk| job.spec.groups.get(usize::from(ask.group.0));
    for ask in asks {
        let joins = |bundle: &&mut Vec<GroupAsk>| {
            let (Some(own), Some(first)) = (spec(ask), bundle.first().and_then(spec)) else { return false };
            let (one, other) = (&own.topology, &first.topology);
            one.is_asked()
                && !own.place_with.is_empty()
                && own.place_with == first.place_with
                && (one.mode, &one.level, &one.topology) == (other.mode, &other.level, &other.topology)
        };
        match bundles.iter_mut().find(joins) {
            Some(bundle) => bundle.push(*ask),
            None => bundles.push(vec![*ask]),
        }
    }
    bundles
}

/// The leader and the workers of a bundle of two, if it has a leader: the group of one task, of two such the second.
pub(crate) fn pair(job: &Job, bundle: &[GroupAsk]) -> Option<(GroupAsk, GroupAsk)> {
    let &[first, second] = bundle else { return None };
    let count = |ask: &GroupAsk| job.spec.groups.get(usize::from(ask.group.0)).map_or(0, |spec| spec.count);
    match (count(&first), count(&second)) {
        (_, 1) => Some((second, first)),
        (1, _) => Some((first, second)),
        _ => None,
    }
}
