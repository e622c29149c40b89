//! The environment of a container that is to run here, and what `$(NAME)` in its values, its command and its arguments
//! means.
//!
//! Kubernetes puts in the values of variables when it starts a container. They are known when the object is read, but
//! for those of fields that only a task's node knows: such a variable names Ohm's own one ([`VALUES_OF_NODES`]), which
//! the agent puts in, and only into values of other variables.

use crate::decode::{At, Context, Fields};
use crate::text::shorten;
use ohm_model::selector::Labels;
use std::collections::BTreeMap;

/// What is known of the pods of a template.
#[derive(Clone, Copy)]
pub(super) struct Pods<'p> {
    pub(super) labels: &'p Labels,
    pub(super) numbers: Numbers,
}

/// Whether the pods have numbers that they are told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// They are all alike.
    None,
    /// A StatefulSet's ordinals.
    Ordinals,
    /// The indices of a Job's completions.
    Completions,
}

/// A variable of a container.
struct Variable {
    name: String,
    value: String,
    /// Whether a node puts something in.
    is_open: bool,
}

/// The variables of a container in their order, and by name: of two with one name the last one counts.
#[derive(Default)]
pub(super) struct Variables {
    list: Vec<Variable>,
    by_name: BTreeMap<String, usize>,
}

impl Variables {
    fn push(&mut self, name: &str, (value, is_open): (String, bool)) {
        self.by_name.insert(name.to_string(), self.list.len());
        self.list.push(Variable { name: name.to_string(), value, is_open });
    }

    fn find(&self, name: &str) -> Option<&Variable> {
        self.list.get(*self.by_name.get(name)?)
    }

    /// What the task gets.
    pub(super) fn into_env(self) -> Vec<(String, String)> {
        self.list.into_iter().map(|variable| (variable.name, variable.value)).collect()
    }
}

const RANK: &str = "$(OHM_RANK)";
/// How the variables begin that every task has.
const OWN: &str = "OHM_";
/// So many bytes may variables add that others name, and so many times of what is written besides.
const GROWN_BYTES_MIN: usize = 4 << 10;
const GROWN_TIMES_MAX: usize = 4;
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Fields of a pod whose value is that of a variable which every task has.
const VALUES_OF_NODES: [(&str, &str); 3] =
    [("spec.nodeName", "$(OHM_NODE)"), ("status.hostIP", "$(OHM_NODE_IP)"), ("status.podIP", "$(OHM_NODE_IP)")];
const INDEX_FIELDS: [&str; 2] = [
    "metadata.annotations['batch.kubernetes.io/job-completion-index']",
    "metadata.labels['batch.kubernetes.io/job-completion-index']",
];
const ORDINAL_FIELD: &str = "metadata.labels['apps.kubernetes.io/pod-index']";

/// The `env` of a container.
pub(super) fn variables(cx: &mut Context, container: &Fields<'_>, of: Pods<'_>) -> Variables {
    let mut variables = Variables::default();
    let given = container.get("env");
    let known: &[&[&'static str]] = &[&["name", "value", "valueFrom"]];
    if let Some(at) = given {
        at.list(cx, |cx, at| {
            // No table of the API has these fields.
            let fields = cx.of_ohm(|cx| Fields::open(cx, at, known))?;
            let name = fields.require(cx, "name", "the name of the variable")?.text(cx)?;
            let source = fields.get("valueFrom");
            if let (Some(at), Some(_)) = (source, fields.get("value")) {
                at.rule(cx, "`value` is given, too; keep one");
            }
            let value = match source {
                Some(at) => cx.of_ohm(|cx| value_from(cx, at, of))?,
                None => match fields.get("value") {
                    Some(at) => {
                        let (value, open) = text(cx, at, &variables)?;
                        (value, open.is_some())
                    }
                    None => (String::new(), false),
                },
            };
            variables.push(&name, value);
            Some(())
        });
    }
    if of.numbers == Numbers::Completions && variables.find(INDEX_VARIABLE).is_none() {
        variables.push(INDEX_VARIABLE, (RANK.to_string(), true));
    }
    variables
}

/// A word of a command, with the values of the variables that it names.
pub(super) fn word(cx: &mut Context, at: At<'_>, variables: &Variables) -> Option<String> {
    let (word, open) = text(cx, at, variables)?;
    // No agent looks at commands.
    if open.as_deref() == Some(OWN) {
        return Some(word.replace("$$(OHM_", "$(OHM_"));
    }
    if let Some(name) = open {
        let problem = "whose value only the node of a task knows; have the program read it from its environment";
        at.rule(cx, format!("names `$({})`, {problem}", shorten(&name)));
    }
    Some(word)
}

/// The text at `at` with the values of the variables that it names, and the last of them that a node has a part in.
/// What variables that name each other add is bounded by what is written.
fn text(cx: &mut Context, at: At<'_>, variables: &Variables) -> Option<(String, Option<String>)> {
    let text = at.text(cx)?;
    let (written, grown) = cx.expanded;
    let written = written.saturating_add(text.len());
    let most = GROWN_BYTES_MIN.saturating_add(written.saturating_mul(GROWN_TIMES_MAX)).saturating_sub(grown);
    let Some((value, open)) = expanded(&text, variables, text.len().saturating_add(most)) else {
        let problem = "is far longer with the variables that it names than the object is; write it out";
        at.rule(cx, problem);
        return None;
    };
    cx.expanded = (written, grown.saturating_add(value.len().saturating_sub(text.len())));
    Some((value, open))
}

/// What a variable gets from elsewhere, and whether a node puts it in.
fn value_from(cx: &mut Context, at: At<'_>, of: Pods<'_>) -> Option<(String, bool)> {
    const ELSEWHERE: [(&str, &str); 4] = [
        ("configMapKeyRef", "there are no ConfigMaps; write the `value`"),
        ("secretKeyRef", "there are no Secrets; write the `value`, or have the program read a file of its node"),
        ("resourceFieldRef", "write the `value`"),
        ("fileKeyRef", "tasks have no volumes; write the `value`"),
    ];
    let names: Vec<&'static str> = ELSEWHERE.iter().map(|(name, _)| *name).chain(["fieldRef"]).collect();
    let fields = Fields::open(cx, at, &[&names])?;
    for (name, why) in ELSEWHERE {
        if let Some(at) = fields.get(name) {
            at.rule(cx, why);
            return None;
        }
    }
    let at = fields.require(cx, "fieldRef", "the field of the task that is the value")?;
    let reference = Fields::open(cx, at, &[&["apiVersion", "fieldPath"]])?;
    reference.get("apiVersion");
    let at = reference.require(cx, "fieldPath", "such as `spec.nodeName`")?;
    let path = at.text(cx)?;
    let found = of_field(&path, of);
    if found.is_none() {
        let known = "`spec.nodeName`, `status.hostIP`, `status.podIP`, and labels of the template";
        at.rule(cx, format!("`{}` is nothing that a task has; known: {known}", shorten(&path)));
    }
    found
}

/// The value of this field of a pod, and whether a node puts it in.
fn of_field(path: &str, of: Pods<'_>) -> Option<(String, bool)> {
    if let Some((_, value)) = VALUES_OF_NODES.iter().find(|(known, _)| *known == path) {
        return Some((value.to_string(), true));
    }
    let is_rank = match of.numbers {
        Numbers::None => false,
        Numbers::Ordinals => path == ORDINAL_FIELD,
        Numbers::Completions => INDEX_FIELDS.contains(&path),
    };
    if is_rank {
        return Some((RANK.to_string(), true));
    }
    let label = path.strip_prefix("metadata.labels['")?.strip_suffix("']")?;
    Some((of.labels.get(label)?.clone(), false))
}

/// `text` with the values of the variables that it names as `$(NAME)`, and the last of them that a node has a part in;
/// nothing where that is longer than `most` bytes. As in Kubernetes `$$` is one `$`, and a name that no variable has
/// stays as it is; but agents put in what `$(OHM_` begins, and take `$$(OHM_` for the text.
fn expanded(text: &str, variables: &Variables, most: usize) -> Option<(String, Option<String>)> {
    let (mut whole, mut rest, mut open) = (String::with_capacity(text.len()), text, None);
    let mut closes = true;
    while let Some((before, after)) = rest.split_once('$') {
        whole.push_str(before);
        let named = after.strip_prefix('(').filter(|_| closes);
        let found = named.and_then(|after| after.split_once(')'));
        closes &= named.is_none() || found.is_some();
        rest = match found {
            _ if after.starts_with("$(OHM_") => {
                whole.push_str("$$");
                open = open.or_else(|| Some(OWN.to_string()));
                &after[1..]
            }
            _ if after.starts_with('$') => {
                whole.push('$');
                &after[1..]
            }
            Some((name, behind)) => {
                match variables.find(name) {
                    Some(variable) => {
                        whole.push_str(&variable.value);
                        open = variable.is_open.then(|| variable.name.clone()).or(open);
                    }
                    None => {
                        whole.extend(["$(", name, ")"]);
                        open = name.starts_with(OWN).then(|| name.to_string()).or(open);
                    }
                }
                behind
            }
            None => {
                whole.push('$');
                after
            }
        };
        if whole.len() > most {
            return None;
        }
    }
    whole.push_str(rest);
    Some((whole, open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_mean_what_they_do_in_kubernetes() {
        let mut known = Variables::default();
        for (name, value, is_open) in [("A", "1", false), ("IP", "$(OHM_NODE_IP)", true), ("A", "2", false)] {
            known.push(name, (value.to_string(), is_open));
        }
        for (text, value, open) in [
            ("", "", None),
            ("plain $HOME $", "plain $HOME $", None),
            ("$(A)-$(B)-$(A", "2-$(B)-$(A", None),
            ("$(A $$ $(A $$(A", "$(A $ $(A $(A", None),
            ("$$(A) $$$(A) $$$$", "$(A) $2 $$", None),
            ("http://$(IP):$(A)", "http://$(OHM_NODE_IP):2", Some("IP")),
            ("$($(A))", "$($(A))", None),
            ("$(OHM_RANK)", "$(OHM_RANK)", Some("OHM_RANK")),
            ("$$(OHM_RANK)", "$$(OHM_RANK)", Some("OHM_")),
        ] {
            assert_eq!(expanded(text, &known, 100), Some((value.to_string(), open.map(str::to_string))), "{text}");
        }
        assert_eq!(expanded("$(IP)$(IP)", &known, 27), None, "it has 28 bytes");
    }
}
