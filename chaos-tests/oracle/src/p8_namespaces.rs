//! P8, namespaces: a job comes into a namespace that is there, and into a queue that takes jobs of it; a namespace goes
//! only when no job is in it. Books of commands and their answers alone.

use crate::facts::{Fact, Taken};
use crate::history::Broken;
use ohm_model::{Command, EventKind, Index, JobOutcome, JobSpec, NAMESPACE_DEFAULT, Outcome, split_job_name};
use std::collections::{BTreeMap, BTreeSet};

/// The books.
pub(crate) struct Namespaces {
    there: BTreeSet<String>,
    /// Whose jobs each queue takes, where it says so.
    takes: BTreeMap<String, BTreeSet<String>>,
    /// The queue of each subqueue.
    subqueues: BTreeMap<String, String>,
    /// The queue of each job that the cell knows.
    jobs: BTreeMap<String, String>,
}

impl Default for Namespaces {
    fn default() -> Self {
        let there = [NAMESPACE_DEFAULT.to_string()].into();
        Namespaces { there, takes: BTreeMap::new(), subqueues: BTreeMap::new(), jobs: BTreeMap::new() }
    }
}

impl Namespaces {
    /// Judges an entry.
    pub(crate) fn entry(&mut self, index: Index, taken: &[Taken<'_>], facts: &[Fact<'_>], broken: &mut Vec<Broken>) {
        let mut gone: BTreeSet<&str> = BTreeSet::new();
        let mut break_it = |what: String| broken.push(Broken::new("P8", format!("entry {index}: {what}")));
        for (command, outcome) in taken {
            match (command, outcome) {
                (Command::SubmitJobs { jobs }, Outcome::Jobs(outcomes)) => {
                    let accepted = jobs.iter().zip(outcomes).filter(|(_, of)| matches!(of, JobOutcome::Accepted(_)));
                    accepted.filter_map(|(spec, _)| self.comes(spec)).for_each(&mut break_it);
                }
                (Command::UpdateJob { spec, .. }, Outcome::Jobs(outcomes)) => {
                    let is_done = matches!(outcomes.first(), Some(JobOutcome::Updated(_)));
                    is_done.then(|| self.comes(spec)).flatten().into_iter().for_each(&mut break_it);
                }
                (Command::PutNamespace(namespace), _) => {
                    self.there.insert(namespace.name.clone());
                    gone.remove(namespace.name.as_str());
                }
                (Command::RemoveNamespace { name }, _) => {
                    self.there.remove(name);
                    gone.insert(name);
                }
                (Command::PutQueue(spec), _) => match &spec.namespaces {
                    Some(namespaces) => drop(self.takes.insert(spec.name.clone(), (**namespaces).clone())),
                    None => drop(self.takes.remove(&spec.name)),
                },
                (Command::RemoveQueue { name }, _) => drop(self.takes.remove(name)),
                (Command::PutSubqueue(subqueue), _) => {
                    self.subqueues.insert(subqueue.name.clone(), subqueue.queue.clone());
                }
                (Command::RemoveSubqueue { name }, _) => drop(self.subqueues.remove(name)),
                _ => {}
            }
        }
        // One that is forgotten may make room for the next of its name in the same entry.
        for fact in facts {
            match fact {
                Fact::Happened { kind: EventKind::JobForgotten { name }, .. } => drop(self.jobs.remove(name)),
                Fact::Submitted { spec, .. } => drop(self.jobs.insert(spec.name.clone(), self.queue_of(spec))),
                _ => {}
            }
        }
        let stays = |name: &&String| gone.contains(split_job_name(name).0);
        if let Some(job) = self.jobs.keys().find(stays) {
            break_it(format!("the namespace of {job} goes, and the job is in it"));
        }
    }

    fn queue_of(&self, spec: &JobSpec) -> String {
        self.subqueues.get(&spec.queue).unwrap_or(&spec.queue).clone()
    }

    /// A job comes into its queue, or stays in it; what is wrong about that.
    fn comes(&mut self, spec: &JobSpec) -> Option<String> {
        let (name, (namespace, _)) = (&spec.name, split_job_name(&spec.name));
        let queue = self.queue_of(spec);
        let stays = self.jobs.insert(name.clone(), queue.clone()).is_some_and(|former| former == queue);
        if !self.there.contains(namespace) {
            return Some(format!("{name} comes into a namespace that is not there"));
        }
        let takes = self.takes.get(&queue).is_none_or(|namespaces| namespaces.contains(namespace));
        (!takes && !stays).then(|| format!("{name} comes into queue {queue}, which takes no jobs of {namespace}"))
    }
}
