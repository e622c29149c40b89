//! Host ports: a port of the node that one task has for itself, of a protocol, on one address of the node or on all.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What speaks on a port. Ports of different protocols never meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// The protocols, as files write them.
pub const PROTOCOLS: [(&str, Protocol); 3] = [("TCP", Protocol::Tcp), ("UDP", Protocol::Udp), ("SCTP", Protocol::Sctp)];

impl Protocol {
    /// As files write it.
    pub fn name(self) -> &'static str {
        PROTOCOLS.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }
}

/// A port of the node. Sorted by port first, so that those that may meet lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    /// 1 to 65535.
    pub port: u16,
    /// What speaks there.
    pub protocol: Protocol,
    /// The address of the node that it is taken on; none is all of them.
    pub address: Option<IpAddr>,
}

impl HostPort {
    /// A TCP port on all addresses.
    pub fn tcp(port: u16) -> Self {
        HostPort { port, protocol: Protocol::Tcp, address: None }
    }

    /// The port on `address`; `0.0.0.0` and `::` are all addresses.
    pub fn on(port: u16, protocol: Protocol, address: Option<IpAddr>) -> Self {
        let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        HostPort { port, protocol, address: address.filter(|address| !all.contains(address)) }
    }

    /// Whether two tasks of one node may not have both: what is taken on all addresses meets each of them
    /// (kube-scheduler: `NodePorts`).
    pub fn meets(self, other: HostPort) -> bool {
        let alike = (self.port, self.protocol) == (other.port, other.protocol);
        alike && (self.address.is_none() || other.address.is_none() || self.address == other.address)
    }

    /// Those of `sorted` that it meets.
    pub fn met_in(self, sorted: &[HostPort]) -> impl Iterator<Item = HostPort> + '_ {
        let from = sorted.partition_point(|other| other.port < self.port);
        let alike = sorted[from..].iter().take_while(move |other| other.port == self.port);
        alike.copied().filter(move |other| self.meets(*other))
    }
}

impl fmt::Debug for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for HostPort {
    /// `8080`, `53/UDP`, `10.0.0.1:53/UDP`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port)?,
            Some(address) => write!(f, "{address}:{}", self.port)?,
            None => write!(f, "{}", self.port)?,
        }
        if self.protocol == Protocol::Tcp { Ok(()) } else { write!(f, "/{}", self.protocol.name()) }
    }
}

/// No host port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no host port; write one like 8080, 53/UDP or 10.0.0.1:80")]
pub struct HostPortError(pub String);

impl FromStr for HostPort {
    type Err = HostPortError;

    /// What [`HostPort`]'s `Display` writes.
    fn from_str(text: &str) -> Result<Self, HostPortError> {
        let wrong = || HostPortError(text.to_string());
        let (place, protocol) = match text.split_once('/') {
            Some((place, name)) => (place, PROTOCOLS.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?.1),
            None => (text, Protocol::Tcp),
        };
        let (address, port) = match place.rsplit_once(':') {
            Some((address, port)) => {
                let bare = address.strip_prefix('[').and_then(|address| address.strip_suffix(']')).unwrap_or(address);
                (Some(bare.parse().map_err(|_| wrong())?), port)
            }
            None => (None, place),
        };
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        Ok(HostPort::on(port, protocol, address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(text: &str) -> HostPort {
        text.parse().unwrap()
    }

    #[test]
    fn ports_meet_by_number_protocol_and_address() {
        let meet = |one, other| {
            let (one, other) = (port(one), port(other));
            assert_eq!(one.meets(other), other.meets(one));
            let found = one.met_in(&[port("79"), other, port("81")]).count();
            assert_eq!(found == 1, one.meets(other));
            one.meets(other)
        };
        assert!(meet("80", "80"));
        assert!(!meet("80", "81"));
        assert!(!meet("80", "80/UDP"));
        assert!(!meet("10.0.0.1:80", "10.0.0.2:80"));
        assert!(meet("10.0.0.1:80", "10.0.0.1:80"));
        assert!(meet("10.0.0.1:80", "0.0.0.0:80"));
        assert!(meet("[::1]:80", "[::]:80"));
        assert!(!meet("10.0.0.1:80/SCTP", "80"));
    }

    #[test]
    fn ports_are_read_as_they_are_written() {
        for text in ["80", "53/UDP", "10.0.0.1:53/UDP", "[::1]:80"] {
            assert_eq!(port(text).to_string(), text);
        }
        assert_eq!(port("0.0.0.0:80"), HostPort::tcp(80));
        for text in ["", "0", "65536", "80/udp", "80/", "a:80", ":80", "80:tcp"] {
            assert_eq!(text.parse::<HostPort>(), Err(HostPortError(text.into())));
        }
    }
}
