//! The search of Kueue's classical preemption.
//!
//! Candidates stand in three groups (other queues that the job has the hierarchical advantage over, other queues, its
//! own queue); those that stop already come first, then the least important, then those that got their quota last. They
//! are taken in that order until the job fits; what turns out to be needless is put back. Whether the queue may borrow
//! in the end decides which candidates count: at most two attempts are made, and the first that succeeds is the answer.

use super::order::{open_jobs, order};
use ohm_cell::{Job, Preemptor, QuotaIf, Stopping, Variant, WhatIf};
use ohm_model::{PreemptionNeed, Victim};
use ohm_stdx::bug::{self, Bug};

/// A job that may be stopped.
struct Candidate<'a> {
    job: &'a Job,
    variant: Variant,
}

/// The jobs to stop, in the order in which each may be; none where that would not do. The tree is as before afterwards.
pub(super) fn search(what: WhatIf<'_>, preemptor: &Preemptor<'_>, tree: &mut QuotaIf<'_>) -> Vec<Victim> {
    let candidates = candidates(what, preemptor, tree);
    for may_borrow in attempts(preemptor, tree, &candidates) {
        let found = attempt(preemptor, tree, &candidates, *may_borrow);
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Who may be stopped at all, in the order in which they are tried.
fn candidates<'a>(what: WhatIf<'a>, preemptor: &Preemptor<'_>, tree: &QuotaIf<'_>) -> Vec<Candidate<'a>> {
    let candidate = |job: &'a Job| {
        let variant = preemptor.variant(job)?;
        preemptor.is_open(tree, Stopping::whole(job), variant).then_some(Candidate { job, variant })
    };
    let mut candidates: Vec<Candidate<'a>> =
        open_jobs((what.cell, what.over), preemptor, tree).into_iter().filter_map(candidate).collect();
    candidates.sort_by_cached_key(|candidate| {
        let (stops_not, used, priority, breaks, since, name) = order(what.cell, preemptor.queue_name(), candidate.job);
        (stops_not, group_of(candidate.variant), used, priority, (breaks, since), name)
    });
    candidates
}

fn group_of(variant: Variant) -> u8 {
    match variant {
        Variant::Hierarchical => 0,
        Variant::WithoutBorrowing | Variant::WhileBorrowing => 1,
        Variant::InQueue => 2,
    }
}

/// Whether the queue may borrow in the end, by attempt.
fn attempts(preemptor: &Preemptor<'_>, tree: &QuotaIf<'_>, candidates: &[Candidate<'_>]) -> &'static [bool] {
    let any = |variants: &[Variant]| candidates.iter().any(|candidate| variants.contains(&candidate.variant));
    let others = any(&[Variant::Hierarchical, Variant::WithoutBorrowing, Variant::WhileBorrowing]);
    match preemptor.may_not_borrow() {
        _ if !others => &[true],
        true if preemptor.is_at_nominal(tree) => &[true],
        true if !any(&[Variant::Hierarchical]) => &[false, true],
        _ => &[true, false],
    }
}

/// Takes candidates until the job fits, and puts back who is needless. The tree is as before afterwards.
fn attempt(
    preemptor: &Preemptor<'_>,
    tree: &mut QuotaIf<'_>,
    candidates: &[Candidate<'_>],
    may_borrow: bool,
) -> Vec<Victim> {
    let fits = |tree: &QuotaIf<'_>| preemptor.fits(tree) && (may_borrow || preemptor.is_within_own(tree));
    let (mut taken, mut enough): (Vec<&Candidate<'_>>, bool) = (Vec::new(), false);
    for candidate in candidates {
        let counts = !may_borrow || candidate.variant != Variant::WithoutBorrowing;
        if !counts || !preemptor.is_open(tree, Stopping::whole(candidate.job), candidate.variant) {
            continue;
        }
        tree.stop(candidate.job);
        taken.push(candidate);
        if fits(tree) {
            enough = true;
            break;
        }
    }
    let mut kept = Vec::new();
    for (at, candidate) in taken.iter().enumerate().rev() {
        // The last one made it fit.
        if at + 1 < taken.len() && enough {
            tree.put_back(candidate.job);
            if fits(tree) && !bug::is_planted(Bug::PreemptInVain) {
                continue;
            }
            tree.stop(candidate.job);
        }
        kept.push(*candidate);
    }
    kept.iter().for_each(|candidate| tree.put_back(candidate.job));
    if !enough {
        return Vec::new();
    }
    kept.reverse();
    kept.iter()
        .map(|candidate| Victim::whole(candidate.job.id, PreemptionNeed::Quota, candidate.variant.reason()))
        .collect()
}
