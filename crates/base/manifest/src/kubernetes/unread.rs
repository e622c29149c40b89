//! What of an object nobody has read: named as ignored where it bears on where pods go, refused where the object is to
//! run and it bears on how, an error where the API has no such field.

use super::api::{Field, Shape, Type, is_for_schedulers};
use super::running::{self, Rule};
use crate::decode::{At, Context};
use crate::document::{Content, Ignored, KubernetesObject};
use crate::error::{Problem, ProblemKind};
use crate::path::Trail;
use crate::text::{nearest, shorten};
use crate::tree::{Entry, Node, Value};

/// What is to be said of the object at `root`, which has been read as `content`.
pub(super) fn look(
    cx: &mut Context,
    root: At<'_>,
    (kind, of): (&'static str, &'static Type),
    content: Option<&Content>,
) -> Option<Box<KubernetesObject>> {
    let name = root.node.get("metadata").and_then(|node| node.get("name")).and_then(Node::as_text);
    let mut object = KubernetesObject {
        kind,
        name: shorten(name.unwrap_or_default()),
        ignored: Vec::new(),
        names: std::mem::take(&mut cx.names),
    };
    let is_stored = root.node.get("metadata").is_some_and(|node| node.get("uid").is_some());
    let is_standing = matches!(content, Some(Content::Pod(pod)) if pod.stands());
    let (runs, is_whole) = (cx.runs(), content.is_some());
    let mut look = Look { cx, is_stored, is_standing, is_whole, ignored: &mut object.ignored };
    match content {
        _ if runs => look.walk_running(root, of),
        Some(Content::Pod(pod)) if pod.is_over => {}
        _ => look.walk(root, of, &mut Look::ignore),
    }
    (!object.ignored.is_empty() || !object.names.is_empty()).then(|| Box::new(object))
}

/// A walk through an object.
struct Look<'l> {
    cx: &'l mut Context,
    /// Whether an API server has stored the object: then its fields are none of a person's slips.
    is_stored: bool,
    /// Whether it is a pod that stands already.
    is_standing: bool,
    /// Whether it was read to its end: else what was not read may be such as would have been.
    is_whole: bool,
    ignored: &'l mut Vec<Ignored>,
}

impl Look<'_> {
    fn walk(&mut self, at: At<'_>, of: &'static Type, ignore: &mut dyn FnMut(&mut Self, Trail<'_>)) {
        let Value::Map(entries) = &at.node.value else { return };
        for entry in entries.iter().filter(|entry| !of.is_aside(&entry.key)) {
            let below = At { node: &entry.value, trail: Trail::Field(&at.trail, &entry.key) };
            match of.field(&entry.key) {
                Some(field) if self.is_standing && !field.of_standing => {}
                Some(field) => self.walk_field(below, field, ignore),
                None if self.is_stored => ignore(self, below.trail),
                None => self.report_unknown(at, entry, of),
            }
        }
    }

    fn report_unknown(&mut self, at: At<'_>, entry: &Entry<'_>, of: &'static Type) {
        let hint = match nearest(&entry.key, of.names()) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => format!("; {} of the Kubernetes API has no such field", of.name),
        };
        let unknown = || ProblemKind::UnknownField { field: shorten(&entry.key), hint };
        self.cx.report(entry.position, at.trail, unknown);
    }

    /// Refuses what bears on how the object runs and that nobody has read.
    fn walk_running(&mut self, at: At<'_>, of: &'static Type) {
        let Value::Map(entries) = &at.node.value else { return };
        for entry in entries {
            let below = At { node: &entry.value, trail: Trail::Field(&at.trail, &entry.key) };
            let field = of.field(&entry.key);
            if field.is_none() && !of.is_aside(&entry.key) {
                self.report_unknown(at, entry, of);
            } else if !says_nothing(below.node, field.and_then(|field| field.default)) {
                self.judge(below, running::rule(of.name, &entry.key), field.map(|field| field.shape));
            }
        }
    }

    /// What is to be said of the field at `at`, for which there is this rule.
    fn judge(&mut self, at: At<'_>, rule: Rule, shape: Option<Shape>) {
        match (rule, shape) {
            // What is said to schedulers is judged note by note.
            (_, Some(Shape::Notes)) => self.walk_running_notes(at),
            (Rule::Idle, _) => {}
            (Rule::Refused(why), _) => at.rule(self.cx, why),
            (Rule::Unless(values, why), _) => {
                if !values.iter().any(|value| at.node.is_written(value)) {
                    at.rule(self.cx, why);
                }
            }
            (Rule::Unread, None) => self.refuse_unread(at),
            (Rule::Unread, Some(shape)) => self.walk_running_field(at, shape),
        }
    }

    fn walk_running_field(&mut self, at: At<'_>, shape: Shape) {
        match (shape, &at.node.value) {
            (Shape::One(of), _) => self.walk_running(at, of),
            (Shape::Many(of), Value::List(items)) => {
                for (index, node) in items.iter().enumerate() {
                    self.walk_running(At { node, trail: Trail::Item(&at.trail, index) }, of);
                }
            }
            _ => self.refuse_unread(at),
        }
    }

    fn walk_running_notes(&mut self, at: At<'_>) {
        let Value::Map(entries) = &at.node.value else { return };
        for entry in entries.iter().filter(|entry| is_for_schedulers(&entry.key)) {
            let below = At { node: &entry.value, trail: Trail::Field(&at.trail, &entry.key) };
            match running::rule_of_note(&entry.key) {
                Some(why) => below.rule(self.cx, why),
                None => self.refuse_unread(below),
            }
        }
    }

    /// What is in something that is wrong itself may be such as would have been read.
    fn refuse_unread(&mut self, at: At<'_>) {
        if !self.is_whole || at.node.is_read() {
            return;
        }
        let path = at.trail.to_path();
        let is_around = |problem: &Problem| {
            let is_of_value = !matches!(problem.kind, ProblemKind::UnknownField { .. });
            is_of_value && !problem.field.is_empty() && path.0.starts_with(&problem.field.0)
        };
        if !self.cx.problems.iter().any(is_around) {
            at.rule(self.cx, running::UNREAD);
        }
    }

    fn walk_field(&mut self, at: At<'_>, field: &Field, ignore: &mut dyn FnMut(&mut Self, Trail<'_>)) {
        if says_nothing(at.node, field.default) {
            return;
        }
        match (field.shape, &at.node.value) {
            (Shape::Whole, _) if !at.node.is_read() => ignore(self, at.trail),
            (Shape::One(of), _) => self.walk(at, of, ignore),
            (Shape::Many(of), Value::List(items)) => {
                for (index, node) in items.iter().enumerate() {
                    self.walk(At { node, trail: Trail::Item(&at.trail, index) }, of, ignore);
                }
            }
            (Shape::Notes, Value::Map(entries)) => {
                for entry in entries.iter().filter(|entry| is_for_schedulers(&entry.key) && !entry.value.is_read()) {
                    ignore(self, Trail::Field(&at.trail, &entry.key));
                }
            }
            _ => {}
        }
    }

    fn ignore(&mut self, trail: Trail<'_>) {
        self.ignored.push(Ignored { field: trail.to_path(), reason: None });
    }
}

/// Whether a value asks for nothing: there is nothing in it, or the default.
fn says_nothing(node: &Node<'_>, default: Option<&str>) -> bool {
    match &node.value {
        Value::Null => true,
        Value::Bool(value) => default == Some(if *value { "true" } else { "false" }),
        Value::Number(text) | Value::Text(text) => text.is_empty() || default == Some(text),
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
    }
}
