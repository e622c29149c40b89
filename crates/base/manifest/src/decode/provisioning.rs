//! Provisioning classes.

use super::{At, Context, Fields};
use ohm_model::{Provisioner, ProvisioningClass};

#[derive(Clone, Copy)]
enum Kind {
    Command,
    Webhook,
    Sim,
}

const KINDS: [(&str, Kind); 3] = [("command", Kind::Command), ("webhook", Kind::Webhook), ("sim", Kind::Sim)];
const SECONDS_MAX: i64 = 100 * 365 * 86_400;

/// Reads the `spec` of a provisioning class.
pub(crate) fn provisioning_class(cx: &mut Context, name: String, spec: At<'_>) -> Option<ProvisioningClass> {
    let times: &[&str] =
        &["bookingSeconds", "timeoutSeconds", "callTimeoutSeconds", "pollSeconds", "watchSeconds", "idleSeconds"];
    let own = &["provisioner", "command", "url", "parameters", "retry", "exclusive"];
    let fields = Fields::open(cx, spec, &[own, times])?;
    let kind = fields.require(cx, "provisioner", "command, webhook or sim").and_then(|at| at.choice(cx, &KINDS));
    for (field, owner, is_owner) in [
        ("command", "command", matches!(kind, Some(Kind::Command) | None)),
        ("url", "webhook", matches!(kind, Some(Kind::Webhook) | None)),
    ] {
        if let Some(at) = fields.get(field).filter(|_| !is_owner) {
            at.rule(cx, format!("means something with `provisioner: {owner}` only"));
        }
    }
    let provisioner = match kind? {
        Kind::Sim => Provisioner::Sim,
        Kind::Command => {
            let at = fields.require(cx, "command", "the program and its arguments, a list of words")?;
            Provisioner::Command { command: at.list(cx, |cx, at| at.text(cx)) }
        }
        Kind::Webhook => Provisioner::Webhook { url: fields.require(cx, "url", "where to post requests")?.text(cx)? },
    };
    let mut class = ProvisioningClass::of(name, provisioner);
    class.parameters = fields.labels(cx, "parameters");
    let seconds = |cx: &mut Context, name, otherwise: u64| fields.whole(cx, name, 0..=SECONDS_MAX).unwrap_or(otherwise);
    class.booking_seconds = seconds(cx, "bookingSeconds", class.booking_seconds);
    class.timeout_seconds = seconds(cx, "timeoutSeconds", class.timeout_seconds);
    class.call_timeout_seconds = seconds(cx, "callTimeoutSeconds", class.call_timeout_seconds);
    class.poll_seconds = seconds(cx, "pollSeconds", class.poll_seconds);
    class.watch_seconds = seconds(cx, "watchSeconds", class.watch_seconds);
    class.idle_seconds = seconds(cx, "idleSeconds", class.idle_seconds);
    class.exclusive = fields.get("exclusive").and_then(|at| at.boolean(cx)).unwrap_or(class.exclusive);
    if let Some(at) = fields.get("retry") {
        let retry = Fields::open(cx, at, &[&["baseSeconds", "factor", "maxSeconds", "limit"]])?;
        let policy = &mut class.retry;
        policy.base_seconds = retry.whole(cx, "baseSeconds", 0..=SECONDS_MAX).unwrap_or(policy.base_seconds);
        policy.factor = retry.whole(cx, "factor", 1..=1000).unwrap_or(policy.factor);
        policy.max_seconds = retry.whole(cx, "maxSeconds", 0..=SECONDS_MAX).unwrap_or(policy.max_seconds);
        policy.limit = retry.whole(cx, "limit", 0..=1_000_000).unwrap_or(policy.limit);
    }
    Some(class)
}
