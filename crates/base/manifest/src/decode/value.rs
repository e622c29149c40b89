//! Reading single values: typed access to a tree, with every problem collected at its place.

use crate::PROBLEMS_MAX;
use crate::aside::Aside;
use crate::defaults::LeftOpen;
use crate::document::{Dialect, KubernetesObject, Named};
use crate::error::{Position, Problem, ProblemKind};
use crate::hints::unknown_field_hint;
use crate::path::Trail;
use crate::quantity::{self, Decimal, QuantityError, Rounding};
use crate::text::{alternatives, shorten};
use crate::time;
use crate::tree::{Node, Value};
use crate::validate::Violation;
use ohm_model::resources::{Amounts, UnitKind};
use ohm_model::selector::Labels;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The problems of one document.
#[derive(Default)]
pub(crate) struct Context {
    pub(crate) problems: Vec<Problem>,
    pub(crate) omitted: usize,
    /// Whether the document is not ours: then the tables of its API say which fields there are.
    pub(crate) foreign: bool,
    /// Of an object of Kubernetes: other objects that it names.
    pub(crate) names: Vec<Named>,
    /// Of a container of Kubernetes: its ports that have names.
    pub(crate) port_names: BTreeMap<String, u16>,
    /// Of an object of Kubernetes: how many bytes its variables and words have as written, and how many more by the
    /// variables that they name.
    pub(crate) expanded: (usize, usize),
    /// Of an object of Kubernetes: what is to be said of it.
    pub(crate) object: Option<Box<KubernetesObject>>,
    /// What the job leaves to its class, which is not built in.
    pub(crate) left_open: Option<LeftOpen>,
    /// When the job was created, if the document says so.
    pub(crate) created_us: Option<i64>,
    /// The namespace that the metadata of a job name.
    pub(crate) namespace: Option<String>,
    /// Whose documents are read.
    pub(crate) dialect: Dialect,
    /// What the document says beside its content.
    pub(crate) aside: Option<Box<Aside>>,
}

impl Context {
    /// Whether what only `ohm plan` goes by is read, too.
    pub(crate) fn reads_kubernetes(&self) -> bool {
        self.dialect != Dialect::Ohm
    }

    /// Whether what is read is to run: then what an object of Kubernetes says and nothing honours is refused.
    pub(crate) fn runs(&self) -> bool {
        self.dialect == Dialect::Ohm
    }

    /// Reads what no table of an API has: which fields there are is known as in a document of ours.
    pub(crate) fn of_ohm<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let is_foreign = std::mem::replace(&mut self.foreign, false);
        let value = read(self);
        self.foreign = is_foreign;
        value
    }

    /// Whether what only reports are made from is kept, too.
    pub(crate) fn reads_in_full(&self) -> bool {
        self.dialect == Dialect::KubernetesInFull
    }

    pub(crate) fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    pub(crate) fn report(&mut self, position: Position, trail: Trail<'_>, kind: impl FnOnce() -> ProblemKind) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { position, field: trail.to_path(), kind: kind() });
        } else {
            self.omitted += 1;
        }
    }

    /// Reports what a spec breaks, at the places where the fields were written.
    pub(crate) fn report_violations(&mut self, root: &Node<'_>, violations: Vec<Violation>) {
        for violation in violations {
            if self.problems.len() == PROBLEMS_MAX {
                self.omitted += 1;
                continue;
            }
            let (position, field) = root.locate(&violation.field);
            self.problems.push(Problem { position, field, kind: ProblemKind::Rule(violation.problem) });
        }
    }
}

/// A place in a document.
#[derive(Clone, Copy)]
pub(crate) struct At<'s> {
    pub(crate) node: &'s Node<'s>,
    pub(crate) trail: Trail<'s>,
}

impl<'s> At<'s> {
    pub(crate) fn root(node: &'s Node<'s>) -> Self {
        At { node, trail: Trail::Root }
    }

    pub(crate) fn rule(&self, cx: &mut Context, problem: impl Into<String>) {
        cx.report(self.node.position, self.trail, || ProblemKind::Rule(problem.into()));
    }

    pub(crate) fn wrong_type(&self, cx: &mut Context, wanted: impl Into<String>) {
        let found = || ProblemKind::WrongType { wanted: wanted.into(), found: self.node.description() };
        cx.report(self.node.position, self.trail, found);
    }

    /// A text. A number will do, as it was written; `true` and `null` will not, because nobody sees that they are
    /// texts.
    pub(crate) fn text(&self, cx: &mut Context) -> Option<String> {
        match &self.node.value {
            Value::Text(text) | Value::Number(text) => Some(text.to_string()),
            Value::Bool(_) => {
                self.wrong_type(cx, "a text (in quotes)");
                None
            }
            _ => {
                self.wrong_type(cx, "a text");
                None
            }
        }
    }

    /// Whether this is a list without items.
    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(&self.node.value, Value::List(items) if items.is_empty())
    }

    pub(crate) fn boolean(&self, cx: &mut Context) -> Option<bool> {
        match self.node.value {
            Value::Bool(value) => Some(value),
            _ => {
                self.wrong_type(cx, "true or false");
                None
            }
        }
    }

    /// The value of a bare `true` or `false`, as a person writes it where Kubernetes wants the text.
    pub(crate) fn boolean_word(&self) -> Option<bool> {
        match self.node.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// A whole number in `range`.
    pub(crate) fn whole<T: TryFrom<i64>>(&self, cx: &mut Context, range: RangeInclusive<i64>) -> Option<T> {
        let number = match &self.node.value {
            Value::Number(number) => number.parse::<i64>().ok().filter(|number| range.contains(number)),
            _ => None,
        };
        let value = number.and_then(|number| T::try_from(number).ok());
        if value.is_none() {
            self.wrong_type(cx, format!("a whole number of {} to {}", range.start(), range.end()));
        }
        value
    }

    /// A decimal number of 0 or more, in thousandths.
    pub(crate) fn thousandths(&self, cx: &mut Context) -> Option<i64> {
        let text = match &self.node.value {
            Value::Number(text) | Value::Text(text) => text,
            _ => "",
        };
        let decimal = Decimal::parse(text).filter(|decimal| decimal.rest.is_empty());
        let value = decimal.and_then(|decimal| decimal.scaled(3, 0, Rounding::Up));
        if value.is_none() {
            self.wrong_type(cx, "a number of 0 or more");
        }
        value
    }

    /// A point in time, in microseconds since 1970.
    pub(crate) fn time_us(&self, cx: &mut Context) -> Option<i64> {
        let value = self.node.as_text().and_then(time::parse);
        if value.is_none() {
            self.wrong_type(cx, "a time, such as `2026-01-31T12:00:00Z`");
        }
        value
    }

    /// A length of time such as `1500ms`, `1.5s`, `2m` or `1h`, in milliseconds.
    pub(crate) fn duration_ms(&self, cx: &mut Context) -> Option<u64> {
        const UNITS: [(&str, i64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
        let decimal = self.node.as_text().and_then(Decimal::parse);
        let value = decimal.and_then(|decimal| {
            let (_, unit_ms) = UNITS.iter().find(|(unit, _)| *unit == decimal.rest)?;
            decimal.scaled(3, 0, Rounding::Up)?.checked_mul(*unit_ms)?.checked_add(999)?.checked_div(1000)
        });
        let value = value.and_then(|value| u64::try_from(value).ok());
        if value.is_none() {
            self.wrong_type(cx, "a time with its unit, such as `500ms`, `30s`, `5m` or `2h`");
        }
        value
    }

    pub(crate) fn choice<T: Copy>(&self, cx: &mut Context, choices: &[(&str, T)]) -> Option<T> {
        let found = self.node.as_text().and_then(|text| choices.iter().find(|(word, _)| *word == text));
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.wrong_type(cx, alternatives(&words));
        }
        found.map(|(_, value)| *value)
    }

    /// Reads every item of a list with `read`; items that cannot be read are left out.
    pub(crate) fn list<T>(&self, cx: &mut Context, mut read: impl FnMut(&mut Context, At<'_>) -> Option<T>) -> Vec<T> {
        let Value::List(items) = &self.node.value else {
            self.wrong_type(cx, "a list");
            return Vec::new();
        };
        let places = items.iter().enumerate();
        places.filter_map(|(index, node)| read(cx, At { node, trail: Trail::Item(&self.trail, index) })).collect()
    }

    /// Reads every entry of a map with `read`; entries that cannot be read are left out.
    pub(crate) fn map<T>(
        &self,
        cx: &mut Context,
        wanted: &str,
        mut read: impl FnMut(&mut Context, &str, At<'_>) -> Option<T>,
    ) -> Vec<(String, T)> {
        let Value::Map(entries) = &self.node.value else {
            self.wrong_type(cx, wanted);
            return Vec::new();
        };
        let mut values = Vec::with_capacity(entries.len());
        for entry in entries {
            let at = At { node: &entry.value, trail: Trail::Field(&self.trail, &entry.key) };
            values.extend(read(cx, &entry.key, at).map(|value| (entry.key.to_string(), value)));
        }
        values
    }

    pub(crate) fn labels(&self, cx: &mut Context) -> Labels {
        self.map(cx, "a map of labels", |cx, _, at| at.text(cx)).into_iter().collect()
    }

    /// Amounts by resource. What is asked for is rounded up, what is there down.
    pub(crate) fn amounts(&self, cx: &mut Context, rounding: Rounding) -> Amounts {
        self.quantities(cx, |cx, name, at| at.quantity(cx, |text| quantity::parse(text, UnitKind::of(name), rounding)))
    }

    /// Quota by resource.
    pub(crate) fn quotas(&self, cx: &mut Context) -> Amounts {
        self.quantities(cx, |cx, name, at| at.quota(cx, name))
    }

    /// Quota of the resource called `name`. What is there is rounded down, and more than can be counted is no bound.
    pub(crate) fn quota(&self, cx: &mut Context, name: &str) -> Option<i64> {
        self.quantity(cx, |text| quantity::parse_bound(text, UnitKind::of(name)))
    }

    fn quantities(&self, cx: &mut Context, read: impl FnMut(&mut Context, &str, At<'_>) -> Option<i64>) -> Amounts {
        self.map(cx, "a map of resources, such as `{cpu: 500m, memory: 1Gi}`", read).into_iter().collect()
    }

    fn quantity(&self, cx: &mut Context, parse: impl FnOnce(&str) -> Result<i64, QuantityError>) -> Option<i64> {
        let text = match &self.node.value {
            Value::Number(text) | Value::Text(text) => text,
            _ => {
                self.wrong_type(cx, "a quantity, such as `2`, `500m` or `64Gi`");
                return None;
            }
        };
        parse(text).map_err(|error| cx.report(self.node.position, self.trail, || ProblemKind::Quantity(error))).ok()
    }
}

/// A map whose keys are fields with known names.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'s> {
    at: At<'s>,
    /// A second map whose fields count as if they stood in the first.
    template: Option<At<'s>>,
}

impl<'s> Fields<'s> {
    /// Opens the map at `at`, and reports every field that is in none of `known`.
    pub(crate) fn open(cx: &mut Context, at: At<'s>, known: &[&[&'static str]]) -> Option<Self> {
        if !matches!(at.node.value, Value::Map(_)) {
            at.wrong_type(cx, "a map");
            return None;
        }
        report_unknown(cx, at, known);
        Some(Fields { at, template: None })
    }

    /// Lets the fields of `template` count as fields of this map.
    pub(crate) fn with_template(self, cx: &mut Context, template: At<'s>, known: &[&[&'static str]]) -> Self {
        report_unknown(cx, template, known);
        if let (Value::Map(entries), at) = (&template.node.value, self.at) {
            for entry in entries.iter().filter(|entry| at.node.get(&entry.key).is_some()) {
                let trail = Trail::Field(&template.trail, &entry.key);
                let problem = || ProblemKind::Rule("is given beside `template`, too; keep one".to_string());
                cx.report(entry.position, trail, problem);
            }
        } else {
            template.wrong_type(cx, "a map");
        }
        Fields { template: Some(template), ..self }
    }

    /// The field `name`, unless it is absent or null.
    pub(crate) fn get(&'s self, name: &'static str) -> Option<At<'s>> {
        let within = |at: &'s At<'s>| {
            let node = at.node.get(name)?;
            Some(At { node, trail: Trail::Field(&at.trail, name) })
        };
        within(&self.at).or_else(|| within(self.template.as_ref()?))
    }

    pub(crate) fn require(&'s self, cx: &mut Context, name: &'static str, wanted: &'static str) -> Option<At<'s>> {
        let found = self.get(name);
        if found.is_none() {
            let missing = || ProblemKind::Missing { field: name, wanted };
            cx.report(self.at.node.position, self.at.trail, missing);
        }
        found
    }

    pub(crate) fn text(&self, cx: &mut Context, name: &'static str) -> Option<String> {
        self.get(name)?.text(cx)
    }

    pub(crate) fn boolean(&self, cx: &mut Context, name: &'static str) -> Option<bool> {
        self.get(name)?.boolean(cx)
    }

    pub(crate) fn whole<T: TryFrom<i64>>(
        &self,
        cx: &mut Context,
        name: &'static str,
        range: RangeInclusive<i64>,
    ) -> Option<T> {
        self.get(name)?.whole(cx, range)
    }

    pub(crate) fn labels(&self, cx: &mut Context, name: &'static str) -> Labels {
        self.get(name).map_or_else(Labels::new, |at| at.labels(cx))
    }

    pub(crate) fn list<T>(
        &self,
        cx: &mut Context,
        name: &'static str,
        read: impl FnMut(&mut Context, At<'_>) -> Option<T>,
    ) -> Vec<T> {
        self.get(name).map_or_else(Vec::new, |at| at.list(cx, read))
    }
}

fn report_unknown(cx: &mut Context, at: At<'_>, known: &[&[&'static str]]) {
    let Value::Map(entries) = &at.node.value else { return };
    if cx.foreign {
        return;
    }
    for entry in entries {
        if known.iter().all(|fields| !fields.contains(&&*entry.key)) {
            let unknown = || {
                let hint = unknown_field_hint(&entry.key, known);
                ProblemKind::UnknownField { field: shorten(&entry.key), hint }
            };
            cx.report(entry.position, at.trail, unknown);
        }
    }
}
