//! The runs that are probed: when, and what follows.

use super::{Action, LocalRun, Phase, Runs};
use crate::probes::{ProbeOrder, ProbeResult, Probing};
use crate::wanted::WantedRun;
use ohm_model::{Exit, Index, ProbeKind, Probes, RunRef};
use std::sync::Arc;

impl Runs {
    /// When a probe is due.
    pub(super) fn probes_due_ms(&self) -> Option<u64> {
        self.probe_times.first().map(|(due_ms, _)| *due_ms)
    }

    /// The probes that are due.
    pub(crate) fn send_probes(&mut self, now_ms: u64) -> Vec<ProbeOrder> {
        let mut orders = Vec::new();
        while let Some(&(due_ms, run)) = self.probe_times.first()
            && due_ms <= now_ms
        {
            self.probe_times.pop_first();
            let Some(local) = self.runs.get_mut(&run) else { continue };
            let Some(probing) = &mut local.probing else { continue };
            probing.planned_ms = None;
            if let Phase::Running { .. } = local.phase {
                orders.extend(probing.send(now_ms, run, &mut self.probe_number));
                self.plan_probes(run);
            }
        }
        orders
    }

    /// The result of a probe.
    pub(crate) fn probed(
        &mut self,
        (now_ms, run): (u64, RunRef),
        (kind, number): (ProbeKind, u64),
        result: ProbeResult,
        out: &mut Vec<Action>,
    ) {
        let Some(local) = self.runs.get_mut(&run) else { return };
        let Some(probing) = local.probing.as_mut().filter(|_| matches!(local.phase, Phase::Running { .. })) else {
            return;
        };
        probing.take(kind, number, result);
        if let Some((_, Some(grace_ms))) = probing.unhealthy() {
            local.grace_ms = grace_ms;
        }
        self.settle_one((now_ms, run), false, out);
        self.plan_probes(run);
    }

    /// Gives `run` its place among the times of probes.
    pub(super) fn plan_probes(&mut self, run: RunRef) {
        if let Some(local) = self.runs.get_mut(&run) {
            local.plan_probes(run, &mut self.probe_times);
        }
    }

    /// Gives all runs theirs.
    pub(super) fn plan_all_probes(&mut self) {
        let probed = self.runs.iter_mut().filter(|(_, local)| local.probing.is_some());
        probed.for_each(|(run, local)| local.plan_probes(*run, &mut self.probe_times));
    }
}

impl LocalRun {
    /// It runs since `started_ms`, and is probed so.
    pub(super) fn begin_probes(&mut self, probes: Option<Arc<Probes>>, started_ms: u64) {
        self.probing = probes.map(|probes| Box::new(Probing::new(probes, started_ms, false)));
    }

    /// What a set says of its probes, and of what the cell knows by them. A run that an earlier agent process has
    /// started is probed from here on.
    pub(super) fn renew_probes(&mut self, index: Index, wanted: &WantedRun) {
        if let (Phase::Running { started_ms, .. }, None, Some(probes)) = (&self.phase, &self.probing, &wanted.probes) {
            self.probing = Some(Box::new(Probing::new(Arc::clone(probes), *started_ms, wanted.ready)));
        }
        if let Some(probing) = &mut self.probing {
            probing.renew(index, wanted.ready);
        }
    }

    pub(super) fn is_unhealthy(&self) -> bool {
        self.probing.as_ref().is_some_and(|probing| probing.unhealthy().is_some())
    }

    /// How it counts as ended, and what is said of it: that a probe ended it goes before how it obeyed.
    pub(super) fn exit_of(&self, exit: Exit, message: String) -> (Exit, String) {
        let by_probe = self.probing.as_ref().and_then(|probing| probing.unhealthy());
        match (by_probe, exit) {
            (Some((why, _)), Exit::Code(_) | Exit::Signal(_) | Exit::OutOfMemory | Exit::OverRequest) => {
                (Exit::Unhealthy, why.to_string())
            }
            _ => (exit, message),
        }
    }

    fn plan_probes(&mut self, run: RunRef, times: &mut std::collections::BTreeSet<(u64, RunRef)>) {
        let Some(probing) = &mut self.probing else { return };
        let due_ms = if let Phase::Running { .. } = self.phase { probing.due_ms() } else { None };
        if probing.planned_ms == due_ms {
            return;
        }
        if let Some(former_ms) = std::mem::replace(&mut probing.planned_ms, due_ms) {
            times.remove(&(former_ms, run));
        }
        times.extend(due_ms.map(|due_ms| (due_ms, run)));
    }
}
