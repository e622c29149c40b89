//! Words about shares, and about who may preempt whom.

use super::Script;
use super::parse::Words;
use ohm_cell::{HeldUsage, subqueue_usage, subqueues, usage_key, waiting_jobs};
use ohm_model::queue::{PREEMPTION_POLICIES, SHARE_RULES, STOP_POLICIES};
use ohm_model::resources::display;
use ohm_model::{
    BorrowWithinCohort, FairSharing, PreemptionPolicy, QueuePreemption, ReadyTimeout, Scheduling, StopPolicy,
};

impl Words<'_> {
    /// `[within=POLICY] [reclaim=POLICY] [borrow-up-to=PRIORITY] [outside=POLICY]`
    pub(super) fn preemption(&mut self) -> QueuePreemption {
        let policy = |word: Option<&str>| word.map_or(PreemptionPolicy::Never, |word| of(&PREEMPTION_POLICIES, word));
        let (within, reclaim) = (self.option("within"), self.option("reclaim"));
        let threshold = self.option("borrow-up-to").map(|number| number.parse().expect("a priority"));
        QueuePreemption {
            within_cluster_queue: policy(within),
            reclaim_within_cohort: policy(reclaim),
            borrow_within_cohort: BorrowWithinCohort {
                lower_priority: threshold.is_some(),
                max_priority_threshold: threshold,
            },
            outside_root: policy(self.option("outside")),
        }
    }

    /// `[stop=POLICY]`
    pub(super) fn stop_policy(&mut self) -> StopPolicy {
        self.option("stop").map_or(StopPolicy::None, |word| of(&STOP_POLICIES, word))
    }

    /// `ready=TIMEOUT,RECOVERY,BASE,MAX[,LIMIT]`, in seconds.
    pub(super) fn ready_timeout(&mut self) -> Option<ReadyTimeout> {
        let numbers: Vec<u64> =
            self.option("ready")?.split(',').map(|number| number.parse().expect("seconds")).collect();
        Some(ReadyTimeout {
            timeout_seconds: numbers[0],
            recovery_timeout_seconds: numbers[1],
            backoff_base_seconds: numbers[2],
            backoff_max_seconds: numbers[3],
            backoff_limit: numbers.get(4).map(|limit| *limit as u32),
        })
    }

    /// `scheduling [RULE…]`: fair sharing by these rules, or none.
    pub(super) fn scheduling(&mut self) -> Scheduling {
        let preemption_strategies: Vec<_> =
            std::iter::from_fn(|| self.next()).map(|word| of(&SHARE_RULES, word)).collect();
        let fair_sharing = (!preemption_strategies.is_empty()).then_some(FairSharing { preemption_strategies });
        Scheduling { fair_sharing }
    }
}

fn of<T: Copy>(words: &[(&str, T)], word: &str) -> T {
    words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value).expect("a word of Kueue's")
}

impl Script {
    /// What each part of the queue uses and has consumed, its key in thousandths, and who waits, in order.
    pub(super) fn usage_text(&self, queue: &str) -> String {
        let parts = subqueues(&self.cell).iter().filter(|part| part.queue == queue).map(|part| part.name.as_str());
        let mut text = format!("usage of queue {queue}");
        for part in std::iter::once("").chain(parts) {
            let usage = subqueue_usage(&self.cell, queue, part);
            let uses = usage.iter().filter(|usage| usage.name != "pods").map(|usage| {
                let [used, consumed] = [usage.used, usage.consumed].map(|amount| display(usage.name, amount));
                format!(", {} {used} now, {consumed} consumed", usage.name)
            });
            let key = usage_key(&self.cell, queue, part, &HeldUsage::new()).thousandths();
            let key = key.map_or("last".to_string(), |key| key.to_string());
            text += &format!(
                "\n    {}: key {key}{}",
                if part.is_empty() { "(itself)" } else { part },
                uses.collect::<String>()
            );
        }
        let waiting = waiting_jobs(&self.cell, queue).map(|job| job.spec.name.as_str());
        format!("{text}\n    waiting: {}", waiting.collect::<Vec<_>>().join(" "))
    }

    /// The quota tree, one line for each queue and cohort.
    pub(super) fn tree_text(&self) -> String {
        let (quota, resources) = (self.cell.quota(), self.cell.resources());
        let mut text = format!("sharing {:?}", quota.scheduling().fair_sharing);
        for (node, uses) in quota.iter().zip(quota.uses(resources)) {
            let (name, share) = (&node.spec.name, quota.share(&node.spec.name, resources));
            let dominant = share.dominant().map_or("nothing", |resource| resources.name(resource));
            let kind = if node.is_implicit() { "named only" } else { "put" };
            let parent = if node.spec.parent.is_empty() { "-" } else { &node.spec.parent };
            text.push_str(&format!("\n    {name} below {parent}, {kind}, share {} of {dominant}", share.weighted()));
            for used in uses {
                let (flavor, resource) = (quota.columns().flavor(used.column), quota.columns().resource(used.column));
                let resource = resources.name(resource);
                let [total, borrowed, available, potential] =
                    [used.used, used.borrowed, used.available, used.potential].map(|amount| display(resource, amount));
                let of = if flavor.is_empty() { String::new() } else { format!("{flavor}:") };
                let uses = format!("{total} used, {borrowed} borrowed, {available} available, {potential} at most");
                text.push_str(&format!("\n        {of}{resource}: {uses}"));
            }
        }
        text
    }
}
