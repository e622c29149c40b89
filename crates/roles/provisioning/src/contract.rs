//! What the outside is asked, and what it may answer: the words of the JSON that hooks and webhooks see.

use ohm_cell::{
    Cell, Check, CheckState, Filters, Job, RepairRequest, domain_labels, filters_of, own_filters_of, repair_request_id,
    request_id,
};
use ohm_model::brought::{CLASS_LABEL, REQUEST_LABEL};
use ohm_model::resources::display;
use ohm_model::selector::Labels;
use ohm_model::{GroupIndex, GroupSpec, ProvisioningClass, TaintEffect, Toleration, TolerationOperator, full_job_name};
use ohm_stdx::RangeSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the outside is asked. Which it is, is the word in its field `action`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum Question {
    /// Nodes are wanted, or it is asked whether those that were brought are still there.
    Provision(Request),
    /// Nodes that were brought are used by nobody any more: they are to be taken back.
    Release(Release),
}

impl Question {
    /// Its name: the same whenever this is asked again.
    pub fn id(&self) -> &str {
        match self {
            Question::Provision(request) => &request.id,
            Question::Release(release) => &release.id,
        }
    }
}

/// Nodes that are to be taken back. They stay in the cell, without new work, until they are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// Its name: the same whenever this is asked again about the same nodes.
    pub id: String,
    /// The request that the nodes were brought for, as their label `provisioning.ohm/request` names it.
    pub request: String,
    /// The class that brought them.
    pub class: String,
    /// Their names.
    pub nodes: Vec<String>,
    /// The parameters of the class.
    pub parameters: BTreeMap<String, String>,
}

/// A request for nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Its name: the same whenever this is asked again, another one for another attempt.
    pub id: String,
    /// `NAMESPACE/NAME` of the job.
    pub job: String,
    /// Its queue.
    pub queue: String,
    /// Its priority.
    pub priority: i32,
    /// The class that asks.
    pub class: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Whether it is for what a running job has lost with nodes; then `groups` says what was lost.
    pub repair: bool,
    /// Whether the nodes were ready before: then this asks whether they still are.
    pub ready: bool,
    /// Labels that the nodes are to register with: then they are kept for the job, and released when nobody uses them
    /// any more.
    pub node_labels: Labels,
    /// What has to find room.
    pub groups: Vec<RequestGroup>,
    /// The parameters of the class.
    pub parameters: BTreeMap<String, String>,
}

/// A group of equal tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestGroup {
    /// Its name.
    pub name: String,
    /// How many tasks.
    pub count: u32,
    /// With how many it starts.
    pub min_count: u32,
    /// What each task asks for.
    pub requests: BTreeMap<String, String>,
    /// Labels that its nodes must have.
    pub node_selector: Labels,
    /// Taints it may stand on.
    pub tolerations: Vec<TolerationWords>,
    /// Most tasks on one node; 0 is no limit.
    pub max_per_node: u32,
}

/// What the outside says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Answer {
    /// How it stands.
    pub state: AnswerState,
    /// Of nodes that are ready: labels that the job's nodes must have besides.
    #[serde(default)]
    pub node_selector: Labels,
    /// Of nodes that are ready: taints that the job may stand on besides.
    #[serde(default)]
    pub tolerations: Vec<TolerationWords>,
    /// For people.
    #[serde(default)]
    pub message: String,
}

impl Answer {
    /// An answer without updates.
    pub fn of(state: AnswerState, message: impl Into<String>) -> Self {
        Answer { state, node_selector: Labels::new(), tolerations: Vec::new(), message: message.into() }
    }
}

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerState {
    /// The nodes are there, or about to join.
    Ready,
    /// Not yet: ask again.
    Pending,
    /// There will be none.
    Failed,
    /// They were there and are kept no longer.
    Expired,
    /// They are taken away, whatever runs there.
    Revoked,
    /// Of nodes that are to be taken back: they are, or are about to go.
    Released,
}

/// A toleration in Kubernetes' words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TolerationWords {
    /// The taint key.
    #[serde(default)]
    pub key: String,
    /// `Equal` (the default) or `Exists`.
    #[serde(default)]
    pub operator: Option<String>,
    /// The value for `Equal`.
    #[serde(default)]
    pub value: String,
    /// The effect tolerated; all when absent.
    #[serde(default)]
    pub effect: Option<String>,
    /// For how long a `NoExecute` taint is tolerated; for ever when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<u64>,
}

impl TolerationWords {
    fn of(toleration: &Toleration) -> Self {
        TolerationWords {
            key: toleration.key.clone(),
            operator: Some(format!("{:?}", toleration.operator)),
            value: toleration.value.clone(),
            effect: toleration.effect.map(|effect| format!("{effect:?}")),
            toleration_seconds: toleration.toleration_seconds,
        }
    }

    /// The toleration these words mean.
    ///
    /// # Errors
    /// Says which word is not known.
    pub fn toleration(&self) -> Result<Toleration, String> {
        let operator = match self.operator.as_deref() {
            None | Some("Equal") => TolerationOperator::Equal,
            Some("Exists") => TolerationOperator::Exists,
            Some("Gt") => TolerationOperator::Gt,
            Some("Lt") => TolerationOperator::Lt,
            Some(other) => return Err(format!("tolerations: operator \"{other}\" is not Equal, Exists, Gt or Lt")),
        };
        let effect = match self.effect.as_deref() {
            None | Some("") => None,
            Some("NoSchedule") => Some(TaintEffect::NoSchedule),
            Some("PreferNoSchedule") => Some(TaintEffect::PreferNoSchedule),
            Some("NoExecute") => Some(TaintEffect::NoExecute),
            Some(other) => return Err(format!("tolerations: \"{other}\" is no effect of a taint")),
        };
        let toleration_seconds = self.toleration_seconds;
        Ok(Toleration { key: self.key.clone(), operator, value: self.value.clone(), effect, toleration_seconds })
    }
}

impl Request {
    /// What is asked as `job` is admitted.
    pub(crate) fn of(cell: &Cell, (job, check): (&Job, &Check), class: &ProvisioningClass) -> Self {
        let group = |(at, group): (usize, &GroupSpec)| {
            let Filters { labels, tolerations, .. } = own_filters_of(cell, job, at);
            RequestGroup::of(group, labels, &tolerations)
        };
        Request {
            id: request_id(job, &check.class),
            job: full_job_name(&job.spec.name),
            queue: job.spec.queue.clone(),
            priority: job.spec.priority,
            class: check.class.clone(),
            attempt: check.attempt,
            repair: false,
            ready: check.state == CheckState::Ready,
            node_labels: [(REQUEST_LABEL, &check.request), (CLASS_LABEL, &check.class)]
                .map(|(key, value)| (key.to_string(), value.clone()))
                .into(),
            groups: job.spec.groups.iter().enumerate().map(group).collect(),
            parameters: class.parameters.clone(),
        }
    }

    /// What a repair asks for besides: room for what was lost, on nodes that are as the job's others.
    pub(crate) fn of_repair(
        cell: &Cell,
        (job, check): (&Job, &Check),
        asked: &RepairRequest,
        class: &ProvisioningClass,
    ) -> Self {
        Request {
            id: repair_request_id(job, &asked.class, asked.number),
            attempt: asked.attempt,
            repair: true,
            ready: false,
            groups: asked.tasks.iter().flat_map(|(group, tasks)| lost_of(cell, job, *group, tasks)).collect(),
            ..Request::of(cell, (job, check), class)
        }
    }
}

/// The lost tasks of one group, apart by where they may go.
fn lost_of(cell: &Cell, job: &Job, group: GroupIndex, tasks: &RangeSet) -> Vec<RequestGroup> {
    let Some(spec) = job.spec.groups.get(usize::from(group.0)) else { return Vec::new() };
    let Filters { labels, tolerations, .. } = filters_of(cell, job, usize::from(group.0));
    let mut by_domain: BTreeMap<Labels, u32> = BTreeMap::new();
    for rank in tasks.values() {
        *by_domain.entry(domain_labels(cell, job, group, rank)).or_default() += 1;
    }
    let lost = by_domain.into_iter().map(|(domain, count)| RequestGroup {
        count,
        min_count: count,
        ..RequestGroup::of(spec, labels.clone().into_iter().chain(domain).collect(), &tolerations)
    });
    lost.collect()
}

impl RequestGroup {
    fn of(group: &GroupSpec, node_selector: Labels, tolerations: &[Toleration]) -> Self {
        RequestGroup {
            name: group.name.clone(),
            count: group.count,
            min_count: group.min_count,
            requests: group.requests.iter().map(|(name, &amount)| (name.clone(), display(name, amount))).collect(),
            node_selector,
            tolerations: tolerations.iter().map(TolerationWords::of).collect(),
            max_per_node: group.max_per_node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_documented() {
        let read = |text: &str| serde_json::from_str::<Answer>(text);
        assert_eq!(read(r#"{"state": "pending"}"#).unwrap(), Answer::of(AnswerState::Pending, ""));
        let text = r#"{"state": "ready", "nodeSelector": {"pool": "spot"},
            "tolerations": [{"key": "spot", "operator": "Exists"}], "message": "4 nodes"}"#;
        let answer = read(text).unwrap();
        let toleration = answer.tolerations[0].toleration().unwrap();
        assert_eq!((toleration.operator, toleration.effect), (TolerationOperator::Exists, None));
        assert!(read(r#"{"state": "soon"}"#).is_err() && read(r#"{"state": "ready", "label": {}}"#).is_err());
        let wrong = TolerationWords { operator: Some("Like".into()), ..TolerationWords::default() };
        assert!(wrong.toleration().unwrap_err().contains("Like"));
    }
}
