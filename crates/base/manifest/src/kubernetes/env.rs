//! The environment of a container that is to run here, and what `$(NAME)` in its values, its command and its arguments
//! means.
//!
//! Kubernetes puts in the values of variables when it starts a container. They are known when the object is read, but
//! for those of fields that only a task's node knows: such a variable names Ohm's own one ([`VALUES_OF_NODES`]), which
//! the agent puts in, and only into values of other variables.

use crate::decode::{At, Context, Fields};
use crate::text::shorten;
use ohm_model::selector::Labels;

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
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: String,
    /// Whether a node puts something in.
    is_open: bool,
}

const RANK: &str = "$(OHM_RANK)";
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
pub(super) fn variables(cx: &mut Context, container: &Fields<'_>, of: Pods<'_>) -> Vec<Variable> {
    let mut variables = Vec::new();
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
            let (value, is_open) = match source {
                Some(at) => cx.of_ohm(|cx| value_from(cx, at, of))?,
                None => {
                    let (value, open) = expanded(&fields.text(cx, "value").unwrap_or_default(), &variables);
                    (value, open.is_some())
                }
            };
            variables.push(Variable { name, value, is_open });
            Some(())
        });
    }
    let is_said = variables.iter().any(|variable| variable.name == INDEX_VARIABLE);
    if of.numbers == Numbers::Completions && !is_said {
        variables.push(Variable { name: INDEX_VARIABLE.to_string(), value: RANK.to_string(), is_open: true });
    }
    variables
}

/// A word of a command, with the values of the variables that it names.
pub(super) fn word(cx: &mut Context, at: At<'_>, variables: &[Variable]) -> Option<String> {
    let (word, open) = expanded(&at.text(cx)?, variables);
    if let Some(name) = open {
        let problem = "whose value only the node of a task knows; have the program read it from its environment";
        at.rule(cx, format!("names `$({})`, {problem}", shorten(name)));
    }
    Some(word)
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

/// `text` with the values of the variables that it names as `$(NAME)`, and the last of them that a node has a part in.
/// As in Kubernetes `$$` is one `$`, and a name that no variable has stays as it is.
fn expanded<'v>(text: &str, variables: &'v [Variable]) -> (String, Option<&'v str>) {
    let (mut whole, mut rest, mut open) = (String::with_capacity(text.len()), text, None);
    while let Some((before, after)) = rest.split_once('$') {
        whole.push_str(before);
        let named = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        rest = match named {
            _ if after.starts_with('$') => {
                whole.push('$');
                &after[1..]
            }
            Some((name, behind)) => {
                // Of two with one name the last one counts.
                match variables.iter().rev().find(|variable| variable.name == name) {
                    Some(variable) => {
                        whole.push_str(&variable.value);
                        open = variable.is_open.then_some(variable.name.as_str()).or(open);
                    }
                    None => {
                        whole.extend(["$(", name, ")"]);
                    }
                }
                behind
            }
            None => {
                whole.push('$');
                after
            }
        };
    }
    whole.push_str(rest);
    (whole, open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_mean_what_they_do_in_kubernetes() {
        let variable = |name: &str, value: &str, is_open| Variable { name: name.into(), value: value.into(), is_open };
        let known = [variable("A", "1", false), variable("IP", "$(OHM_NODE_IP)", true), variable("A", "2", false)];
        for (text, value, open) in [
            ("", "", None),
            ("plain $HOME $", "plain $HOME $", None),
            ("$(A)-$(B)-$(A", "2-$(B)-$(A", None),
            ("$$(A) $$$(A) $$$$", "$(A) $2 $$", None),
            ("http://$(IP):$(A)", "http://$(OHM_NODE_IP):2", Some("IP")),
            ("$($(A))", "$($(A))", None),
        ] {
            assert_eq!(expanded(text, &known), (value.to_string(), open), "{text}");
        }
    }
}
