//! What jobs name: queues and priority classes count where the files have them.

use crate::answer::IgnoredField;
use crate::names::{ForeignJob, missing};
use crate::question::{AskedJob, Scene};
use ohm_manifest::NamedKind;
use ohm_manifest::kubernetes::QUEUE_LABEL;

/// Gives each job the queue and the priority class that it names, where they are there; what is not is ignored.
pub(crate) fn resolve(scene: &mut Scene) {
    name_queues(scene);
    for ForeignJob { kind, job, names } in std::mem::take(&mut scene.foreign) {
        let Scene { jobs, queues, subqueues, priority_classes, ignored, .. } = &mut *scene;
        let Some(asked) = jobs.iter_mut().find(|asked| asked.spec.name == job) else { continue };
        for named in names {
            let reason = match named.what {
                NamedKind::Queue => {
                    let parts = subqueues.iter().map(|(_, subqueue)| subqueue.name.as_str());
                    missing("Queue", &named.name, queues.iter().map(|(_, queue)| queue.name.as_str()).chain(parts))
                }
                NamedKind::PriorityClass => {
                    let names = priority_classes.iter().map(|(_, class)| class.name.as_str());
                    missing("PriorityClass", &named.name, names).or_else(|| take_class(asked, &named.name))
                }
            };
            if let Some(reason) = reason {
                ignored.push(IgnoredField::of(kind, &job, &named.field, Some(reason)));
            }
        }
    }
}

/// Jobs of Kueue name their queue in a label.
fn name_queues(scene: &mut Scene) {
    let Scene { jobs, queues, subqueues, .. } = scene;
    let names = queues.iter().map(|(_, queue)| &queue.name);
    let names: Vec<&String> = names.chain(subqueues.iter().map(|(_, subqueue)| &subqueue.name)).collect();
    for job in jobs {
        let named = job.spec.labels.get(QUEUE_LABEL);
        if let Some(name) = named.filter(|name| names.contains(name))
            && job.spec.queue.is_empty()
        {
            job.spec.queue.clone_from(name);
        }
    }
}

/// The first class that is named is the job's; why another one is not.
fn take_class(job: &mut AskedJob, name: &str) -> Option<String> {
    let class = &mut job.spec.priority_class;
    if class.is_empty() {
        *class = name.to_string();
    }
    (class != name).then(|| format!("a job has one priority, and this one has that of `{class}`"))
}
