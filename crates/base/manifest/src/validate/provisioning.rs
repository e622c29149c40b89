//! Rules for provisioning classes, and for the queues that name them.

use super::findings::{Findings, Violation, spec};
use ohm_model::provisioning::{ADMISSION_CHECKS_MAX, PART_BYTES_MAX, PARTS_MAX};
use ohm_model::{Provisioner, ProvisioningClass, QueueSpec};
use std::collections::BTreeSet;

/// Everything that `class` breaks by itself.
pub(crate) fn provisioning_class(class: &ProvisioningClass) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(class);
    let long = |part: &String| part.len() > PART_BYTES_MAX;
    match &class.provisioner {
        Provisioner::Command { command } => {
            let field = || spec().field("command");
            let is_named = command.first().is_some_and(|program| !program.is_empty());
            findings.expect(is_named, field, || "must begin with a program".to_string());
            let fits = command.len() <= PARTS_MAX && !command.iter().any(long);
            findings
                .expect(fits, field, || format!("at most {PARTS_MAX} words of {PART_BYTES_MAX} bytes are possible"));
        }
        Provisioner::Webhook { url } => {
            let field = || spec().field("url");
            let is_http = url.starts_with("http://") || url.starts_with("https://");
            findings.expect(is_http, field, || "must begin with `http://` or `https://`".to_string());
            findings.expect(!long(url), field, || format!("is longer than {PART_BYTES_MAX} bytes"));
        }
        Provisioner::Sim => {}
    }
    let field = || spec().field("parameters");
    let fits =
        class.parameters.len() <= PARTS_MAX && !class.parameters.iter().any(|(key, value)| long(key) || long(value));
    findings.expect(fits, field, || format!("at most {PARTS_MAX} of {PART_BYTES_MAX} bytes are possible"));
    findings.violations
}

/// What a queue must keep about its checks.
pub(super) fn admission_checks(findings: &mut Findings, queue: &QueueSpec) {
    let (field, checks) = (|| spec().field("admissionChecks"), &queue.admission_checks);
    findings.expect(checks.len() <= ADMISSION_CHECKS_MAX, field, || {
        format!("names {} classes; at most {ADMISSION_CHECKS_MAX} are possible", checks.len())
    });
    let mut seen = BTreeSet::new();
    for (index, check) in checks.iter().enumerate() {
        let (field, name) = (|| field().item(index), &check.name);
        findings.expect(seen.insert(name), field, || format!("names `{name}` again; keep one"));
        if let Err((at, problem)) = queue.judge_on_flavors(check) {
            findings.expect(false, || field().field("onFlavors").item(at), || problem);
        }
    }
}
