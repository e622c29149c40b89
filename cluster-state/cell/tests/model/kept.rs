//! Runs that live on where nobody sees them, in the plain model.

use crate::judge::{Expected, Facts};
use crate::life::NOBODY;
use crate::state::{GPU, Phase, Plain, PlainKept, PlainRun, State, ports_meet, request};
use ohm_model::{
    ClassId, Grain, GroupSpec, HostPort, JobGuard, JobId, JobSpec, NodeHealth, NodeId, OnDisconnect, Placement,
    Reconcile, RunRef, StopCause, Transaction,
};
use std::cmp::Reverse;

fn run_ref(run: &PlainRun) -> RunRef {
    RunRef::new(run.job, run.group, run.task, run.incarnation)
}

impl Plain {
    /// What lives on there is away again, or is to be judged anew.
    pub(crate) fn withdraw_kept(&mut self, node: NodeId) {
        for kept in self.kept.iter_mut().filter(|kept| kept.run.node == node) {
            kept.back = None;
        }
    }

    pub(crate) fn keep_runs_on(&mut self, node: NodeId) {
        self.withdraw_kept(node);
        let stays = |run: &&PlainRun| {
            let job = &self.jobs[&run.job];
            let counts = run.task < job.spec.groups[usize::from(run.group)].count;
            let keeps = job.spec.on_disconnect == OnDisconnect::Keep && job.state == State::Active;
            run.stop.is_none() && counts && keeps
        };
        let found: Vec<PlainKept> =
            self.runs_on(node).filter(stays).map(|run| PlainKept { run: run.clone(), back: None }).collect();
        self.kept.extend(found);
        self.kept.sort_by_key(|kept| run_ref(&kept.run));
    }

    pub(crate) fn forget_kept(&mut self, is_meant: impl Fn(&PlainKept) -> bool) {
        let (gone, stays): (Vec<_>, Vec<_>) = std::mem::take(&mut self.kept).into_iter().partition(is_meant);
        self.kept = stays;
        for PlainKept { run, .. } in gone {
            if self.nodes.get(&run.node).is_some_and(|node| node.health != NodeHealth::Lost) {
                self.touch(run.node, NOBODY);
            }
        }
    }

    pub(crate) fn forget_kept_of(&mut self, job: JobId) {
        self.forget_kept(|kept| kept.run.job == job);
    }

    /// What is newer than a run beats it.
    pub(crate) fn forget_changed(&mut self, id: JobId, stays: &[bool], spec: &JobSpec) {
        let keeps = spec.on_disconnect == OnDisconnect::Keep;
        self.forget_kept(|kept| {
            let at = usize::from(kept.run.group);
            let counts = spec.groups.get(at).is_some_and(|group| kept.run.task < group.count);
            kept.run.job == id && !(keeps && counts && stays.get(at) == Some(&true))
        });
    }

    /// The node is back, and these runs live there.
    pub(crate) fn reconcile(&mut self, node: NodeId, alive: &[RunRef]) {
        let mut returned: Vec<PlainRun> =
            self.kept.iter().filter(|kept| kept.run.node == node).map(|kept| kept.run.clone()).collect();
        returned.sort_by_key(|run| {
            let job = &self.jobs[&run.job];
            let task = job.tasks.get(&(run.group, run.task));
            let is_replaced = task.is_some_and(|task| task.phase == Phase::Live);
            (is_replaced, Reverse(job.spec.priority), run_ref(run))
        });
        for run in returned {
            let Some(after) = self.lives_after(&run, alive) else {
                self.forget_kept(|kept| run_ref(&kept.run) == run_ref(&run));
                continue;
            };
            let same = self.kept.iter_mut().find(|kept| run_ref(&kept.run) == run_ref(&run));
            same.into_iter().for_each(|kept| kept.back = Some(after));
            if after.is_some() {
                self.clear_the_way(&run);
            }
        }
    }

    fn clear_the_way(&mut self, run: &PlainRun) {
        let place = |run: &PlainRun| (run.job, run.group, run.task);
        self.forget_kept(|kept| {
            place(&kept.run) == place(run) && kept.run.incarnation != run.incarnation && kept.back.is_some()
        });
        for at in 0..self.runs.len() {
            if place(&self.runs[at]) == place(run) && self.runs[at].stop.is_none() {
                self.runs[at].stop = Some(StopCause::Reconciled);
                self.touch(self.runs[at].node, NOBODY);
            }
        }
    }

    /// Whether the run lives on, and which attempt must be over first.
    fn lives_after(&self, run: &PlainRun, alive: &[RunRef]) -> Option<Option<u32>> {
        let job = self.jobs.get(&run.job).filter(|job| job.state == State::Active)?;
        let spec = &job.spec.groups[usize::from(run.group)];
        if !alive.contains(&run_ref(run)) || run.task >= spec.count {
            return None;
        }
        let limited = spec.max_per_node > 0
            && self.occupants(run.node).filter(|other| (other.job, other.group) == (run.job, run.group)).count()
                >= spec.max_per_node as usize;
        let fits = !limited && self.fits(run, spec);
        match job.tasks[&(run.group, run.task)].phase {
            Phase::Pending | Phase::BackingOff => fits.then_some(None),
            Phase::Live => {
                let same = |other: &&PlainRun| (other.job, other.group, other.task) == (run.job, run.group, run.task);
                let standing = self.runs.iter().find(same).expect("a live run");
                let together = |other: usize| {
                    other == usize::from(run.group)
                        || (!spec.place_with.is_empty() && job.spec.groups[other].place_with == spec.place_with)
                };
                let mut domains =
                    (0..job.spec.groups.len()).filter(|at| together(*at)).filter_map(|at| job.domain[at].clone());
                let at_home = domains.next().is_none_or(|domain| self.domain(spec, run.node) == Some(domain));
                let waiting = self
                    .kept
                    .iter()
                    .find(|kept| same(&&kept.run) && kept.run.incarnation != run.incarnation && kept.back.is_some());
                let rival = waiting.map_or(standing, |kept| &kept.run);
                let wins = match job.spec.reconcile {
                    Reconcile::Newer => run.incarnation > rival.incarnation,
                    Reconcile::Original => run.incarnation < rival.incarnation,
                    Reconcile::LongestRunning => match (run.started_ms, rival.started_ms) {
                        (_, None) => true,
                        (None, Some(_)) => false,
                        (Some(own), Some(other)) => own <= other,
                    },
                };
                let driven = self.driven_from(run.job, run.group, run.node).is_some() || self.is_driven_out(run);
                (fits && at_home && !driven && wins).then_some(Some(standing.incarnation))
            }
            _ => None,
        }
    }

    fn fits(&self, run: &PlainRun, spec: &GroupSpec) -> bool {
        let amounts = request(spec).iter().all(|(name, amount)| self.free(run.node, name) >= *amount);
        let taken = |port: &HostPort| {
            self.occupants(run.node)
                .any(|other| self.group_of(other).ports.iter().any(|other| ports_meet(*other, *port)))
        };
        let (present, used) = self.devices(run.node);
        let gpu = spec.requests.get(GPU).copied().unwrap_or(0);
        let lacks = |device: u32| device >= present || 1000 - used.get(&device).copied().unwrap_or(0) < gpu.min(1000);
        let named = |mask: &u64| (0..64).filter(|device| mask & (1 << device) != 0).collect::<Vec<u32>>();
        let lacking = run.masks.iter().flat_map(named).any(lacks);
        amounts && !lacking && !spec.ports.iter().any(taken)
    }

    /// Those that are back and have nothing in their way any more stand again, if they may.
    pub(crate) fn settle_kept(&mut self, facts: &dyn Facts) {
        let mut jobs: Vec<JobId> =
            self.kept.iter().filter(|kept| kept.back.is_some()).map(|kept| kept.run.job).collect();
        jobs.sort();
        jobs.dedup();
        for id in jobs {
            let job = self.jobs[&id].clone();
            let back: Vec<PlainKept> =
                self.kept.iter().filter(|kept| kept.run.job == id && kept.back.is_some()).cloned().collect();
            let (mut free, mut waits) = (Vec::new(), false);
            for PlainKept { run, back } in back {
                let same = |other: &&PlainRun| (other.job, other.group, other.task) == (id, run.group, run.task);
                let standing = self.runs.iter().find(same).map(|other| other.incarnation);
                match job.tasks[&(run.group, run.task)].phase {
                    Phase::Pending | Phase::BackingOff => free.push(run),
                    Phase::Live if back == Some(standing) => waits = true,
                    _ => self.forget_kept(|kept| run_ref(&kept.run) == run_ref(&run)),
                }
            }
            let together = job.whole() && waits;
            if !free.is_empty() && !together {
                self.adopt(id, free, facts);
            }
        }
    }

    fn adopt(&mut self, id: JobId, runs: Vec<PlainRun>, facts: &dyn Facts) {
        let job = self.jobs.get_mut(&id).expect("a job");
        for run in &runs {
            job.tasks.get_mut(&(run.group, run.task)).expect("a task").phase = Phase::Pending;
        }
        let (shard, guard) = (job.shard, JobGuard { job: id, version: job.version, reserved: false });
        self.kept.retain(|kept| !runs.iter().any(|run| run_ref(run) == run_ref(&kept.run)));
        let row = |run: &PlainRun| Placement {
            job: id,
            group: run_ref(run).task.group,
            first: run_ref(run).task.task,
            count: 1,
            node: run.node,
            class: ClassId::default(),
            devices: run.masks.clone(),
        };
        let transaction = Transaction {
            jobs: vec![guard],
            place: runs.iter().map(row).collect(),
            ..Transaction::empty(shard, Default::default(), self.index, Grain::PerTask)
        };
        let mut expected = Expected { accepted: vec![0; runs.len()], conflicts: Vec::new() };
        let mut before = self.clone();
        before.adopts = true;
        let mut trial = before.clone();
        trial.judge_placements(&before, NOBODY, &transaction, facts, &mut expected);
        let attempts = |run: &PlainRun| before.jobs[&id].tasks[&(run.group, run.task)].attempts;
        trial.adopts = false;
        *self = trial;
        for (row, run) in runs.iter().enumerate() {
            self.touch(run.node, NOBODY);
            if expected.accepted[row] == 0 {
                continue;
            }
            self.returned += 1;
            self.note_placed(&transaction.place[row], 1);
            self.note_admitted(id);
            self.use_hold(&transaction.place[row], 1);
            self.end_head(transaction.place[row].job);
            self.note_moved(&transaction.place[row], 1);
            let task =
                self.jobs.get_mut(&id).and_then(|job| job.tasks.get_mut(&(run.group, run.task))).expect("a task");
            (task.incarnation, task.attempts) = (run.incarnation, attempts(run));
            let now_ms = self.now_ms;
            let same = |other: &&mut PlainRun| (other.job, other.group, other.task) == (id, run.group, run.task);
            let placed = self.runs.iter_mut().find(same).expect("the run that was placed");
            (placed.incarnation, placed.started_ms) = (run.incarnation, run.started_ms.or(Some(now_ms)));
            placed.placed_ms = run.placed_ms;
        }
        self.settle_start(id);
        for (_, run) in runs.iter().enumerate().filter(|(row, _)| expected.accepted[*row] > 0) {
            self.run_started(id, run.group, run.task);
        }
        for (_, run) in runs.iter().enumerate().filter(|(row, _)| expected.accepted[*row] > 0) {
            self.stop_repelled(run.node);
            self.watch_tolerations(run.node);
            self.end_drain(run.node);
        }
    }
}
