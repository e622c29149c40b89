//! The members of an etcd that is started here: `ohm up`, scenarios and tests run their own.

use std::path::Path;

/// One member, as the others know it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'m> {
    /// Its name among them.
    pub name: &'m str,
    /// Where its data is.
    pub data_dir: &'m Path,
    /// `http://host:port` for those who use the etcd.
    pub client_url: &'m str,
    /// `http://host:port` for the other members.
    pub peer_url: &'m str,
}

impl Member<'_> {
    /// The arguments of the program `etcd`, after its name; `cluster` is that of [`cluster`].
    pub fn arguments(&self, cluster: &str) -> Vec<String> {
        let data_dir = self.data_dir.display().to_string();
        let pairs = [
            ("--name", self.name),
            ("--data-dir", &data_dir),
            ("--listen-client-urls", self.client_url),
            ("--advertise-client-urls", self.client_url),
            ("--listen-peer-urls", self.peer_url),
            ("--initial-advertise-peer-urls", self.peer_url),
            ("--initial-cluster", cluster),
            ("--logger", "zap"),
        ];
        pairs.into_iter().flat_map(|(flag, value)| [flag.to_string(), value.to_string()]).collect()
    }
}

/// All members by name and peer URL, as each of them is told.
pub fn cluster<'m>(members: impl Iterator<Item = (&'m str, &'m str)>) -> String {
    members.map(|(name, peer_url)| format!("{name}={peer_url}")).collect::<Vec<_>>().join(",")
}
