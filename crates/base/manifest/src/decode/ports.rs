//! Host ports of a task: a number, or `hostPort` with `protocol` and `hostIP`, as containers of Kubernetes say it.

use super::{At, Context, Fields};
use crate::tree::Value;
use core::net::IpAddr;
use ohm_model::host_port::PROTOCOLS;
use ohm_model::{HostPort, Protocol};

const PORTS: std::ops::RangeInclusive<i64> = 1..=u16::MAX as i64;

/// A host port of a group.
pub(super) fn host_port(cx: &mut Context, at: At<'_>) -> Option<HostPort> {
    if !matches!(at.node.value, Value::Map(_)) {
        return at.whole(cx, PORTS).map(HostPort::tcp);
    }
    let fields = Fields::open(cx, at, &[&["hostPort", "protocol", "hostIP"]])?;
    let port = fields.require(cx, "hostPort", "1 to 65535")?.whole(cx, PORTS)?;
    on_node(cx, &fields, port)
}

/// The port with what `fields` say of protocol and address: TCP on all addresses unless said.
pub(crate) fn on_node(cx: &mut Context, fields: &Fields<'_>, port: u16) -> Option<HostPort> {
    let protocol = match fields.get("protocol") {
        Some(at) => at.choice(cx, &PROTOCOLS)?,
        None => Protocol::Tcp,
    };
    let address = match fields.get("hostIP") {
        Some(at) => address(cx, at)?,
        None => None,
    };
    Some(HostPort::on(port, protocol, address))
}

/// The address at `at`; the empty text is all of them.
fn address(cx: &mut Context, at: At<'_>) -> Option<Option<IpAddr>> {
    let text = at.text(cx)?;
    if text.is_empty() {
        return Some(None);
    }
    match text.parse() {
        Ok(address) => Some(Some(address)),
        Err(_) => {
            at.rule(cx, format!("\"{text}\" is no address; write one like 10.0.0.1 or ::1, or leave it out for all"));
            None
        }
    }
}
