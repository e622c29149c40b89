//! Nodes that go back to who brought them, as the holder of the duty sees them.

use crate::contract::{Answer, AnswerState, Release};
use ohm_cell::{Cell, releasing_nodes};
use ohm_model::brought::{CLASS_LABEL, REQUEST_LABEL};
use ohm_model::{Index, NodeId, Outcome, ProvisioningClass, Refusal};
use std::collections::BTreeMap;

/// The nodes that were asked about, each with the entry since which it goes back.
pub(crate) type Nodes = Vec<(NodeId, Index)>;

/// What is under way about the nodes of one request that go back.
///
/// ```text
///   due ──asked──▶ "pending" ──▶ due, after pollSeconds
///            ├────▶ failed ────▶ due, after the wait of its class
///            └────▶ released ──▶ to be said in the log ──▶ over, or due for those that go back since
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRelease {
    class: String,
    due_ms: u64,
    failures: u32,
    /// The name of the question that is not answered, and the nodes it is about.
    asked: Option<(String, Nodes)>,
    /// Nodes that were taken back, to be said in the log, and whether that was sent.
    released: Option<(Nodes, bool)>,
}

/// All of them, by the label of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Releases {
    open: BTreeMap<String, OpenRelease>,
}

impl Releases {
    /// What is open is what the cell says.
    pub(crate) fn refresh(&mut self, now_ms: u64, cell: &Cell) {
        let going = by_request(cell);
        self.open.retain(|request, _| going.contains_key(request.as_str()));
        for (request, Going { class, .. }) in going {
            let new = || OpenRelease { class: class.to_string(), due_ms: now_ms, ..OpenRelease::default() };
            self.open.entry(request.to_string()).or_insert_with(new);
        }
    }

    /// Forgets all that is under way.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    /// How many questions are not answered.
    pub(crate) fn asked(&self) -> usize {
        self.open.values().filter(|open| open.asked.is_some()).count()
    }

    /// The questions that are due, `most` at most, each with the class that says who is asked.
    pub(crate) fn ask(&mut self, now_ms: u64, cell: &Cell, most: usize) -> Vec<(Release, String)> {
        let is_due = |open: &OpenRelease| open.due_ms <= now_ms && open.asked.is_none() && open.released.is_none();
        let mut due = self.open.iter_mut().filter(|(_, open)| is_due(open)).take(most).peekable();
        if due.peek().is_none() {
            return Vec::new();
        }
        let mut going = by_request(cell);
        let ask = due.filter_map(|(request, open)| {
            let class = cell.provisioning_classes().get(&open.class)?;
            let Going { nodes, names, .. } = going.remove(request.as_str())?;
            let newest = nodes.iter().map(|(_, since)| *since).max()?;
            let id = format!("{request}.release.{newest}");
            open.asked = Some((id.clone(), nodes));
            let parameters = class.parameters.clone();
            let release = Release { id, request: request.clone(), class: open.class.clone(), nodes: names, parameters };
            Some((release, open.class.clone()))
        });
        ask.collect()
    }

    /// The outside has answered the question called `id`; false when nobody waits for that.
    pub(crate) fn answered(&mut self, now_ms: u64, id: &str, answer: &Answer, cell: &Cell) -> bool {
        let mut open = self.open.values_mut();
        let Some(open) = open.find(|open| open.asked.as_ref().is_some_and(|(asked, _)| asked == id)) else {
            return false;
        };
        let nodes = open.asked.take().map(|(_, nodes)| nodes).unwrap_or_default();
        let class = cell.provisioning_classes().get(&open.class);
        let wait_ms = |failures: u32| class.map_or(0, |class| class.retry.wait_ms(failures)).max(1000);
        let poll_ms = class.map_or(0, |class: &std::sync::Arc<ProvisioningClass>| class.poll_seconds).max(1) * 1000;
        match answer.state {
            AnswerState::Released | AnswerState::Ready => open.released = Some((nodes, false)),
            AnswerState::Pending => open.due_ms = now_ms.saturating_add(poll_ms),
            AnswerState::Failed | AnswerState::Expired | AnswerState::Revoked => {
                open.failures = open.failures.saturating_add(1);
                open.due_ms = now_ms.saturating_add(wait_ms(open.failures));
            }
        }
        true
    }

    /// What is to be said in the log, each with the request it is about.
    pub(crate) fn say(&mut self) -> Vec<(String, Nodes)> {
        let mut said = Vec::new();
        for (request, open) in &mut self.open {
            if let Some((nodes, sent)) = open.released.as_mut().filter(|(_, sent)| !*sent) {
                *sent = true;
                said.push((request.clone(), nodes.clone()));
            }
        }
        said
    }

    /// The log has taken what was said about `request`, or will not; what was not judged is said again.
    pub(crate) fn heard(&mut self, request: &str, outcome: Option<&Outcome>) {
        let Some(open) = self.open.get_mut(request) else { return };
        match outcome {
            None | Some(Outcome::Refused(Refusal::Busy { .. } | Refusal::SessionGone(_))) => {
                open.released.iter_mut().for_each(|(_, sent)| *sent = false);
            }
            Some(_) => open.released = None,
        }
    }
}

/// The nodes of one request that go back.
#[derive(Default)]
struct Going<'c> {
    class: &'c str,
    nodes: Nodes,
    names: Vec<String>,
}

/// All nodes that go back, by the label of the request.
fn by_request(cell: &Cell) -> BTreeMap<&str, Going<'_>> {
    let mut going: BTreeMap<&str, Going<'_>> = BTreeMap::new();
    for (node, record) in releasing_nodes(cell) {
        let (labels, since) = (&record.spec.labels, record.releasing());
        let (Some(request), Some(class), Some(since)) = (labels.get(REQUEST_LABEL), labels.get(CLASS_LABEL), since)
        else {
            continue;
        };
        let of_request = going.entry(request).or_default();
        of_request.class = class;
        of_request.nodes.push((node, since));
        of_request.names.push(record.spec.name.clone());
    }
    going
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_cell::Applied;
    use ohm_model::{Command, Entry, Envelope, NodeSpec, Provisioner, Role, Sequence, SessionId};

    /// A cell in which these nodes, brought by class spot for request a, go back.
    fn cell(nodes: &[&str]) -> Cell {
        let mut cell = Cell::new();
        let mut apply = |at_ms: u64, command: Command| {
            let index = cell.applied().0 + 1;
            let session = SessionId(if matches!(command, Command::OpenSession { .. } | Command::Tick) { 0 } else { 1 });
            let sequence = Sequence(if session.0 == 0 { 0 } else { index });
            let commands = vec![Envelope::new(session, sequence, sequence, command)];
            cell.apply(Index(index), &Entry { stamp_ms: at_ms, commands }, &mut Applied::default());
        };
        apply(1, Command::OpenSession { nonce: 1, role: Role::Server, name: "server".into() });
        let mut class = ProvisioningClass::of("spot", Provisioner::Command { command: vec!["bring".into()] });
        (class.idle_seconds, class.poll_seconds, class.retry.base_seconds) = (10, 5, 30);
        apply(2, Command::PutProvisioningClass(class));
        for name in nodes {
            let labels = [(REQUEST_LABEL, "a"), (CLASS_LABEL, "spot")];
            let labels = labels.map(|(key, value)| (key.to_string(), value.to_string())).into();
            let (taints, capacity, address) = Default::default();
            let spec = NodeSpec { name: name.to_string(), labels, taints, capacity, address };
            apply(3, Command::RegisterNode { spec, key: 1, instance: 1, boot: 1, alive: Vec::new() });
        }
        apply(20_000, Command::Tick);
        cell
    }

    #[test]
    fn nodes_of_a_request_are_asked_for_together_and_once() {
        let cell = cell(&["n1", "n2"]);
        let mut releases = Releases::default();
        releases.refresh(100, &cell);
        let asked = releases.ask(100, &cell, 8);
        let [(release, class)] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!((release.nodes.join(" "), release.request.as_str(), class.as_str()), ("n1 n2".into(), "a", "spot"));
        releases.refresh(200, &cell);
        assert!(releases.ask(200, &cell, 8).is_empty(), "nobody is asked twice before he has answered");
        assert_eq!(releases.asked(), 1);
    }

    #[test]
    fn answers_lead_to_a_report_or_to_the_next_question() {
        let cell = cell(&["n1"]);
        let asked_again_ms = |state: AnswerState| {
            let mut releases = Releases::default();
            releases.refresh(0, &cell);
            let (release, _) = releases.ask(0, &cell, 8).remove(0);
            assert!(!releases.answered(1_000, "another", &Answer::of(state, ""), &cell));
            assert!(releases.answered(1_000, &release.id, &Answer::of(state, ""), &cell));
            let said = releases.say();
            let again = (1..100_000).step_by(500).find(|now_ms| !releases.clone().ask(*now_ms, &cell, 8).is_empty());
            (said.len(), again)
        };
        assert_eq!(asked_again_ms(AnswerState::Released), (1, None));
        assert_eq!(asked_again_ms(AnswerState::Ready), (1, None), "as a program says that answers nothing");
        assert_eq!(asked_again_ms(AnswerState::Pending), (0, Some(6_001)));
        assert_eq!(asked_again_ms(AnswerState::Failed), (0, Some(31_001)));
    }

    #[test]
    fn what_the_log_did_not_judge_is_said_again() {
        let cell = cell(&["n1"]);
        let mut releases = Releases::default();
        releases.refresh(0, &cell);
        let (release, _) = releases.ask(0, &cell, 8).remove(0);
        releases.answered(1, &release.id, &Answer::of(AnswerState::Released, ""), &cell);
        let (request, nodes) = releases.say().remove(0);
        assert_eq!(nodes, [(NodeId(0), cell.nodes().get(NodeId(0)).and_then(|node| node.releasing()).unwrap())]);
        assert!(releases.say().is_empty());
        releases.heard(&request, None);
        assert_eq!(releases.say().len(), 1, "it was lost");
        releases.heard(&request, Some(&Outcome::Done));
        assert!(releases.say().is_empty());
    }
}
