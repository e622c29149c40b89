//! What names, labels and resources may be called.

use crate::text::{nearest, shorten};
use ohm_model::resources::is_extended;

const DNS_NAME_BYTES_MAX: usize = 253;
const DNS_LABEL_BYTES_MAX: usize = 63;
const LABEL_NAME_BYTES_MAX: usize = 63;

/// Resources without a domain that mean the same on every node.
const PLAIN_RESOURCES: [&str; 5] = ["cpu", "memory", "ephemeral-storage", "storage", "pods"];

/// Words for resources that people write, and what they are called.
const RESOURCE_WORDS: [(&str, &str); 6] = [
    ("cores", "cpu"),
    ("cpus", "cpu"),
    ("disk", "ephemeral-storage"),
    ("gpu", "nvidia.com/gpu"),
    ("mem", "memory"),
    ("ram", "memory"),
];

/// A name such as `train-1.a`: lower case, so that it can be a host name, a file name and a part of an URL.
pub(super) fn dns_name(name: &str) -> Result<(), String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    dns(name, DNS_NAME_BYTES_MAX, inner, "`-` or `.`")
}

/// A name without dots, such as `workers`.
pub(super) fn dns_label(name: &str) -> Result<(), String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    dns(name, DNS_LABEL_BYTES_MAX, inner, "`-`")
}

fn dns(name: &str, bytes_max: usize, inner: impl Fn(u8) -> bool, marks: &str) -> Result<(), String> {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = name.as_bytes();
    if bytes.len() > bytes_max {
        return Err(format!("is {} characters long; at most {bytes_max} may be", bytes.len()));
    }
    if is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().copied().all(inner) {
        return Ok(());
    }
    let message = format!("`{}` is no name; use a to z, 0 to 9, and {marks} in between", shorten(name));
    Err(message)
}

/// A label or taint key: `name` or `domain/name`, as in Kubernetes.
pub(super) fn label_key(key: &str) -> Result<(), String> {
    let (domain, name) = key.split_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    if domain.is_none_or(|domain| dns_name(domain).is_ok()) && !name.is_empty() && is_label_name(name) {
        return Ok(());
    }
    let shown = shorten(key);
    Err(format!(
        "`{shown}` is no key; write `name` or `domain/name`, at most 63 letters, digits, `-`, `_` and `.` each"
    ))
}

/// A label or taint value: possibly empty, else as a key's name.
pub(super) fn label_value(value: &str) -> Result<(), String> {
    if is_label_name(value) {
        return Ok(());
    }
    let shown = shorten(value);
    Err(format!("`{shown}` is no label value; use at most 63 letters, digits, and `-`, `_` or `.` in between"))
}

fn is_label_name(name: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= LABEL_NAME_BYTES_MAX
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// A resource: one of the plain ones, or one with a domain. A slip here would wait for ever for a node that has it.
pub(super) fn resource(name: &str) -> Result<(), String> {
    if is_extended(name) {
        return label_key(name).map_err(|_| format!("`{}` is no resource; write `domain/name`", shorten(name)));
    }
    let sized = ["hugepages-", "attachable-volumes-"].iter().any(|prefix| name.starts_with(prefix));
    if PLAIN_RESOURCES.contains(&name) || (sized && is_label_name(name)) {
        return Ok(());
    }
    let known = RESOURCE_WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(name)).map(|(_, right)| *right);
    let hint = match known.or_else(|| nearest(name, PLAIN_RESOURCES)) {
        Some(right) => format!("; did you mean `{right}`?"),
        None => format!("; known: {}, and your own with a domain: `example.com/{name}`", PLAIN_RESOURCES.join(", ")),
    };
    Err(format!("no resource is called `{}`{hint}", shorten(name)))
}

/// The name of an environment variable.
pub(super) fn environment(name: &str) -> Result<(), String> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !first || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')) {
        let shown = shorten(name);
        return Err(format!(
            "`{shown}` is no variable name; begin with a letter or `_`, then letters, digits, `_`, `-`, `.`"
        ));
    }
    if name.starts_with("OHM_") {
        return Err(format!("`{}` is Ohm's to set, as all that begins with `OHM_`; use another name", shorten(name)));
    }
    Ok(())
}

/// A text that is handed to the operating system.
pub(super) fn system_text(text: &str) -> Result<(), String> {
    if text.contains('\0') { Err("holds a NUL character, which no program can be given".to_string()) } else { Ok(()) }
}
