//! What names, labels, resources and addresses may be called: Kubernetes' rules, for everybody who takes a text from
//! elsewhere. Nothing that keeps them holds a character that a terminal acts on. Where names stand in a spec says
//! [`crate::spelling`].

use ohm_stdx::text::{is_hidden, shorten};

const DNS_NAME_BYTES_MAX: usize = 253;
const DNS_LABEL_BYTES_MAX: usize = 63;
const LABEL_NAME_BYTES_MAX: usize = 63;
/// Longest line, in bytes: who somebody is, or an address.
pub const LINE_BYTES_MAX: usize = 253;

/// A text that can't be what it is given as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is too long.
    #[error("is {bytes} characters long; at most {bytes_max} may be")]
    Long {
        /// Its length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// It holds what may not be there.
    #[error("`{shown}` is no {what}; {allowed}")]
    Odd {
        /// The text as it may be shown.
        shown: String,
        /// What it was to be.
        what: &'static str,
        /// What would be right.
        allowed: &'static str,
    },
}

fn odd(text: &str, what: &'static str, allowed: &'static str) -> Result<(), NameError> {
    Err(NameError::Odd { shown: shorten(text), what, allowed })
}

/// A name such as `train-1.a`: lower case, so that it can be a host name, a file name and a part of an URL.
///
/// # Errors
/// When it is none.
pub fn dns_name(name: &str) -> Result<(), NameError> {
    let inner = |byte: u8| is_lower(byte) || byte == b'-' || byte == b'.';
    dns(name, DNS_NAME_BYTES_MAX, inner, "use a to z, 0 to 9, and `-` or `.` in between")
}

/// The name of a namespace. Letters of both cases and dots are allowed, which Kubernetes does not allow: nothing hangs
/// on them here.
///
/// # Errors
/// When it is none.
pub fn namespace(name: &str) -> Result<(), NameError> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let bytes = name.as_bytes();
    if bytes.len() > DNS_LABEL_BYTES_MAX {
        return Err(NameError::Long { bytes: bytes.len(), bytes_max: DNS_LABEL_BYTES_MAX });
    }
    if ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(|byte| inner(*byte)) {
        return Ok(());
    }
    odd(name, "name", "use letters, digits, and `-` or `.` in between")
}

/// The namespace of jobs that name none. It is always there.
pub const NAMESPACE_DEFAULT: &str = "default";

/// The name of a job: `train-1`, or `team-a/train-1` in a namespace other than `default`.
///
/// # Errors
/// When it is none.
pub fn job_name(name: &str) -> Result<(), NameError> {
    match name.split_once('/') {
        Some((NAMESPACE_DEFAULT, _)) => odd(name, "name of a job", "leave `default/` out"),
        Some((of, name)) => namespace(of).and_then(|()| dns_name(name)),
        None => dns_name(name),
    }
}

/// A name without dots, such as `workers`.
///
/// # Errors
/// When it is none.
pub fn dns_label(name: &str) -> Result<(), NameError> {
    let inner = |byte: u8| is_lower(byte) || byte == b'-';
    dns(name, DNS_LABEL_BYTES_MAX, inner, "use a to z, 0 to 9, and `-` in between")
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn dns(name: &str, bytes_max: usize, inner: impl Fn(u8) -> bool, allowed: &'static str) -> Result<(), NameError> {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| is_lower(*byte));
    let bytes = name.as_bytes();
    if bytes.len() > bytes_max {
        return Err(NameError::Long { bytes: bytes.len(), bytes_max });
    }
    if is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().copied().all(inner) {
        return Ok(());
    }
    odd(name, "name", allowed)
}

/// What tolerations compare with (`Gt`, `Lt`): a whole number as it would be written.
///
/// # Errors
/// When it is none.
pub fn compared(value: &str) -> Result<(), NameError> {
    match plain_integer(value) {
        Some(_) => Ok(()),
        None => odd(value, "whole number", "write digits, with a `-` before them or not"),
    }
}

/// The number that a text is, as it would be written: no plus, no zeros before it.
pub(crate) fn plain_integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

/// A label or taint key: `name` or `domain/name`, as in Kubernetes.
///
/// # Errors
/// When it is none.
pub fn label_key(key: &str) -> Result<(), NameError> {
    if is_qualified(key) {
        return Ok(());
    }
    odd(key, "key", "write `name` or `domain/name`, at most 63 letters, digits, `-`, `_` and `.` each")
}

/// A label or taint value: possibly empty, else as a key's name.
///
/// # Errors
/// When it is none.
pub fn label_value(value: &str) -> Result<(), NameError> {
    if is_label_name(value) {
        return Ok(());
    }
    odd(value, "label value", "use at most 63 letters, digits, and `-`, `_` or `.` in between")
}

/// A resource: a plain name, or one with a domain.
///
/// # Errors
/// When it is none.
pub fn resource(name: &str) -> Result<(), NameError> {
    if is_qualified(name) {
        return Ok(());
    }
    odd(name, "resource", "write `domain/name`, at most 63 letters, digits, `-`, `_` and `.` each")
}

fn is_qualified(key: &str) -> bool {
    let (domain, name) = key.split_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    domain.is_none_or(|domain| dns_name(domain).is_ok()) && !name.is_empty() && is_label_name(name)
}

fn is_label_name(name: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= LABEL_NAME_BYTES_MAX
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// The name of an environment variable.
///
/// # Errors
/// When it is none.
pub fn environment(name: &str) -> Result<(), NameError> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if first && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')) {
        return Ok(());
    }
    odd(name, "variable name", "begin with a letter or `_`, then letters, digits, `_`, `-`, `.`")
}

/// Where a node's tasks listen: an IP address or a host name, perhaps with a port; empty for nowhere.
///
/// # Errors
/// When it is none.
pub fn address(address: &str) -> Result<(), NameError> {
    bounded(address)?;
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte);
    if address.bytes().all(may_be) {
        return Ok(());
    }
    odd(address, "address", "give an IP address or a host name")
}

/// Where a server listens: `http://host:port` or `https://host:port`.
///
/// # Errors
/// When it is none.
pub fn server_address(url: &str) -> Result<(), NameError> {
    bounded(url)?;
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if host.is_some_and(|host| !host.is_empty() && address(host.strip_suffix('/').unwrap_or(host)).is_ok()) {
        return Ok(());
    }
    odd(url, "server address", "one looks like http://127.0.0.1:6460")
}

/// Free words on one line, such as who somebody is.
///
/// # Errors
/// When it is too long, or holds a character that shows nothing by itself.
pub fn line(text: &str) -> Result<(), NameError> {
    bounded(text)?;
    plain(text)
}

/// Words of any length on one line.
///
/// # Errors
/// When they hold a character that shows nothing by itself.
pub fn plain(text: &str) -> Result<(), NameError> {
    if text.contains(is_hidden) {
        return odd(text, "line of text", "leave line breaks, tabs and other control characters out");
    }
    Ok(())
}

fn bounded(text: &str) -> Result<(), NameError> {
    let bytes = text.len();
    if bytes > LINE_BYTES_MAX { Err(NameError::Long { bytes, bytes_max: LINE_BYTES_MAX }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&str) -> Result<(), NameError>;

    const ALL: [(&str, Rule); 9] = [
        ("name", dns_name),
        ("label", dns_label),
        ("key", label_key),
        ("value", label_value),
        ("resource", resource),
        ("variable", environment),
        ("address", address),
        ("server", server_address),
        ("line", line),
    ];

    #[test]
    fn what_is_right_by_which_rule() {
        for (text, right_for) in [
            ("a", "name label key value resource variable address line"),
            ("train-1.a", "name key value resource variable address line"),
            ("Zone_A", "key value resource variable address line"),
            ("-a", "address line"),
            ("", "value address line"),
            ("a b", "line"),
            ("naïve", "line"),
            ("example.com/gpu", "key resource line"),
            ("Example.com/gpu", "line"),
            ("a/b/c", "line"),
            ("/b", "line"),
            ("10.0.0.1:80", "address line"),
            ("[fe80::1%eth0]:80", "address line"),
            ("http://h:1", "server line"),
            ("https://[::1]:1/", "server line"),
            ("http://", "line"),
            ("ftp://h:1", "line"),
        ] {
            let found: Vec<&str> = ALL.iter().filter(|(_, rule)| rule(text).is_ok()).map(|(name, _)| *name).collect();
            assert_eq!(found.join(" "), right_for, "{text:?}");
        }
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_is_a_name_and_no_message_holds_it() {
        for hidden in ["\n", "\r", "\t", "\0", "\x07", "\x1b[2J", "\x7f", "\u{9b}31m", "\u{202e}", "\u{200b}"] {
            for (name, rule) in ALL {
                for text in [format!("a{hidden}b"), format!("http://a{hidden}"), hidden.to_string()] {
                    let error = rule(&text).expect_err(name).to_string();
                    assert!(!error.contains(is_hidden), "{name}: {error:?}");
                }
            }
        }
    }

    #[test]
    fn every_rule_has_a_bound() {
        for (name, rule) in ALL.iter().filter(|(name, _)| *name != "variable") {
            assert!(rule(&"a".repeat(254)).is_err(), "{name}");
        }
        let label = "a".repeat(63);
        assert!(label_key(&format!("{}/{label}", "d".repeat(253))).is_ok() && label_value(&label).is_ok());
        assert!(label_value(&format!("{label}a")).is_err() && dns_label(&format!("{label}a")).is_err());
    }
}
