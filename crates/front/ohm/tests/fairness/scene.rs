//! The queues and cohorts of a run, what is changed about them, and the jobs.

use super::solver::Node;
use ohm_stdx::Prng;
use std::fmt::Write;

/// How large a run is, and for how long it goes on.
#[derive(Clone, Debug)]
pub struct Scale {
    pub seed: u64,
    pub nodes: usize,
    /// Of each node.
    pub cpus: u64,
    pub queues: usize,
    pub cohorts: usize,
    /// Submitted before anything is measured; more follow where few are left to wait.
    pub jobs: usize,
    /// Schedulers of class batch.
    pub replicas: usize,
    /// How long jobs run, from and to, in seconds.
    pub job_seconds: (u64, u64),
    /// How long usage is averaged, before and after the change.
    pub seconds: (u64, u64),
    /// How far from its fair usage a queue may be, in percent; one task is always allowed.
    pub percent: f64,
}

/// The quota tree, its root first, then the cohorts, then the queues.
#[derive(Clone, Debug)]
pub struct Scene {
    pub nodes: Vec<Node>,
}

impl Scene {
    /// A root and cohorts with quota of their own that all may borrow, and queues with little of their own. All quota
    /// together is what the nodes have.
    pub fn draw(scale: &Scale, prng: &mut Prng) -> Scene {
        let total = scale.nodes as u64 * scale.cpus;
        let weight = |prng: &mut Prng| prng.between(1, 4) as f64;
        let mut nodes = vec![cohort("cell", None, 0, 1.0)];
        for at in 0..scale.cohorts {
            let nominal = of_cohort(scale);
            nodes.push(cohort(&format!("cohort-{at}"), Some(0), nominal, weight(prng)));
        }
        for at in 0..scale.queues {
            let nominal = prng.between(0, of_queue(scale));
            let weight = weight(prng);
            let mut queue = Node { is_cohort: false, ..cohort(&format!("q{at:02}"), None, nominal, weight) };
            queue.parent = Some(1 + at % scale.cohorts);
            if prng.chance(200) {
                queue.borrowing_limit = Some(prng.between(1, total / scale.queues as u64) as f64);
            }
            if prng.chance(200) {
                queue.lending_limit = Some(prng.between(0, nominal / 2) as f64);
            }
            nodes.push(queue);
        }
        let mut scene = Scene { nodes };
        scene.fill(total);
        scene
    }

    /// Gives the root what is left of `total`.
    fn fill(&mut self, total: u64) {
        let given: f64 = self.nodes[1..].iter().map(|node| node.nominal).sum();
        self.nodes[0].nominal = total as f64 - given;
        assert!(self.nodes[0].nominal >= 0.0, "more quota than nodes: {given} of {total}");
    }

    /// The same with other quotas and weights of a third of the queues and cohorts.
    pub fn changed(&self, scale: &Scale, prng: &mut Prng) -> Scene {
        let mut scene = self.clone();
        let total = scale.nodes as u64 * scale.cpus;
        for node in scene.nodes.iter_mut().skip(1) {
            if !prng.chance(333) {
                continue;
            }
            node.nominal = prng.between(0, if node.is_cohort { of_cohort(scale) } else { of_queue(scale) }) as f64;
            node.weight = prng.between(1, 4) as f64;
            // What is lent is never more than there is.
            node.lending_limit = node.lending_limit.map(|limit| limit.min(node.nominal));
        }
        scene.fill(total);
        scene
    }

    /// The names of the queues.
    pub fn queues(&self) -> Vec<String> {
        self.nodes.iter().filter(|node| !node.is_cohort).map(|node| node.name.clone()).collect()
    }

    /// The documents of all that `before` has not the same.
    pub fn documents(&self, before: Option<&Scene>) -> String {
        let mut text = String::from(
            "apiVersion: ohm/v1\nkind: Scheduling\nmetadata: {name: default}\nspec: {fairSharing: {enable: true}}\n",
        );
        for (at, node) in self.nodes.iter().enumerate() {
            let document = self.document(node);
            if before.is_none_or(|before| before.document(&before.nodes[at]) != document) {
                write!(text, "---\n{document}").expect("text takes all");
            }
        }
        text
    }

    fn document(&self, node: &Node) -> String {
        let (kind, above) = if node.is_cohort { ("Cohort", "parent") } else { ("Queue", "cohort") };
        let parent = node.parent.map(|parent| format!("{above}: {}, ", self.nodes[parent].name)).unwrap_or_default();
        let limit = |name: &str, limit: Option<f64>| limit.map(|cpus| format!(", {name}: {{cpu: {cpus}}}"));
        let limits = [limit("borrowingLimit", node.borrowing_limit), limit("lendingLimit", node.lending_limit)];
        let limits: String = limits.into_iter().flatten().collect();
        let (name, nominal, weight) = (&node.name, node.nominal, node.weight);
        format!(
            "apiVersion: ohm/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{{parent}nominalQuota: {{cpu: \
             {nominal}}}{limits}, fairSharing: {{weight: \"{weight}\"}}}}\n"
        )
    }
}

/// A quarter of all quota is that of cohorts, at most,
fn of_cohort(scale: &Scale) -> u64 {
    scale.nodes as u64 * scale.cpus / (scale.cohorts as u64 * 4)
}

/// and three quarters that of queues, so that the root always has the rest.
fn of_queue(scale: &Scale) -> u64 {
    scale.nodes as u64 * scale.cpus * 3 / (scale.queues as u64 * 4)
}

fn cohort(name: &str, parent: Option<usize>, nominal: u64, weight: f64) -> Node {
    let (borrowing_limit, lending_limit) = (None, None);
    Node { name: name.into(), parent, is_cohort: true, nominal: nominal as f64, weight, borrowing_limit, lending_limit }
}

/// A job of one cpu.
pub fn job(queue: &str, number: usize, scale: &Scale, prng: &mut Prng) -> String {
    let (shortest, longest) = scale.job_seconds;
    let (priority, ms) = (prng.below(10), prng.between(shortest * 1000, longest * 1000));
    format!(
        "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {queue}-{number}}}\nspec: {{queue: {queue}, priority: {priority}, \
         requests: {{cpu: 1}}, command: [\"true\"], sim: {{duration: {ms}ms}}}}\n"
    )
}
