//! Nodes that were brought for a request: the labels they register with, and the taints that the cell puts on them.

use crate::names;
use crate::selector::{Toleration, TolerationOperator};
use crate::taint::{Taint, TaintEffect};
use ohm_stdx::hash;

/// The prefix of these labels and taints; the cell alone sets taints with it.
pub const BROUGHT_PREFIX: &str = "provisioning.ohm/";
/// The label that says for which request a node was brought; its value is that of [`request_label`].
pub const REQUEST_LABEL: &str = "provisioning.ohm/request";
/// The label that says which provisioning class has brought a node, and so who takes it back.
pub const CLASS_LABEL: &str = "provisioning.ohm/class";
/// The key of the taint of a node that goes back to who brought it.
const RELEASING_TAINT: &str = "provisioning.ohm/releasing";
/// So much of a name is kept in a label that can't hold all of it.
const NAME_CHARS_MAX: usize = 40;

/// The value of [`REQUEST_LABEL`] for the request called `id`: its name, where a label can hold it.
pub fn request_label(id: &str) -> String {
    if names::label_value(id).is_ok() {
        return id.to_string();
    }
    let start = id.chars().filter(char::is_ascii_alphanumeric).take(NAME_CHARS_MAX);
    format!("r{}-{:016x}", start.collect::<String>(), hash::bytes(id.as_bytes()))
}

/// What keeps others away from nodes whose [`REQUEST_LABEL`] is `label`.
pub fn request_taint(label: &str) -> Taint {
    Taint { key: REQUEST_LABEL.into(), value: label.into(), effect: TaintEffect::NoSchedule }
}

/// What lets the job that asked be placed there.
pub fn request_toleration(label: &str) -> Toleration {
    Toleration {
        key: REQUEST_LABEL.into(),
        operator: TolerationOperator::Equal,
        value: label.into(),
        effect: Some(TaintEffect::NoSchedule),
        toleration_seconds: None,
    }
}

/// What keeps new work away from a node that goes back to who brought it.
pub fn releasing_taint() -> Taint {
    Taint { key: RELEASING_TAINT.into(), value: String::new(), effect: TaintEffect::NoSchedule }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_label_of_its_own_whatever_it_is_called() {
        assert_eq!(request_label("train.18c.1.sim"), "train.18c.1.sim");
        let long = |end: &str| request_label(&format!("{}.18c.1.{end}", "t".repeat(60)));
        assert_ne!(long("spot"), long("slow"));
        assert_ne!(request_label("a/b.1.1.c"), request_label("a+b.1.1.c"));
        for label in [long("spot"), request_label("-a/.1.1.c."), request_label("/")] {
            assert_eq!(names::label_value(&label).map_err(|error| error.to_string()), Ok(()), "{label}");
        }
    }
}
