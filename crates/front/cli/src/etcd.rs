//! The arguments that name what keeps the log, and a local etcd where none is named.

use crate::failure::Failure;
use ohm_log::Bytes;
use ohm_log_etcd::{EtcdOptions, Member, cluster};
use ohm_model::Index;
use ohm_runtime::ports::free_addresses;
use ohm_runtime::tls::TlsFiles;
use std::path::{Path, PathBuf};

/// What keeps the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// The servers themselves.
    #[default]
    Raft,
    /// An etcd.
    Etcd,
}

/// What keeps the log of a cell, and how it is reached.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Log options")]
pub struct EngineArguments {
    /// What keeps the log: the servers themselves, or an etcd
    #[arg(long, value_enum, default_value = "raft")]
    pub engine: Engine,
    /// Members of the etcd
    #[arg(long, value_name = "URL,URL", value_delimiter = ',')]
    pub etcd: Vec<String>,
    /// All keys of the cell in etcd begin with this
    #[arg(long, value_name = "KEY", default_value = "/ohm")]
    pub etcd_prefix: String,
    /// File with the authority to believe, for https
    #[arg(long, value_name = "FILE")]
    pub etcd_ca: Option<PathBuf>,
    /// File with the certificate to show, for https
    #[arg(long, value_name = "FILE")]
    pub etcd_cert: Option<PathBuf>,
    /// File with the key of that certificate
    #[arg(long, value_name = "FILE")]
    pub etcd_key: Option<PathBuf>,
    /// User to be, where etcd asks for one
    #[arg(long, value_name = "NAME")]
    pub etcd_user: Option<String>,
    /// File with the password of that user
    #[arg(long, value_name = "FILE")]
    pub etcd_password_file: Option<PathBuf>,
    /// Leave the history of the etcd alone: others use it, and compact it
    #[arg(long)]
    pub etcd_keep_history: bool,
}

impl EngineArguments {
    /// The etcd that is named; none for the engine of the servers themselves.
    pub fn options(&self) -> Result<Option<EtcdOptions>, String> {
        if self.engine == Engine::Raft {
            return match self.etcd.is_empty() {
                true => Ok(None),
                false => Err("--etcd goes with --engine etcd".into()),
            };
        }
        let options = EtcdOptions {
            endpoints: self.etcd.iter().map(|url| url.trim().trim_end_matches('/').to_string()).collect(),
            prefix: self.etcd_prefix.clone(),
            tls: TlsFiles { ca: self.etcd_ca.clone(), certificate: self.etcd_cert.clone(), key: self.etcd_key.clone() },
            user: self.etcd_user.clone(),
            password_file: self.etcd_password_file.clone(),
            keep_history: self.etcd_keep_history,
        };
        options.check().map_err(|error| error.to_string())?;
        Ok(Some(options))
    }

    /// The same as words of a command line, for a server of this cell.
    pub(crate) fn words(&self) -> Vec<String> {
        if self.engine == Engine::Raft {
            return Vec::new();
        }
        let mut words = vec!["--engine".to_string(), "etcd".into(), "--etcd".into(), self.etcd.join(",")];
        words.extend(["--etcd-prefix".into(), self.etcd_prefix.clone()]);
        for (flag, file) in [
            ("--etcd-ca", &self.etcd_ca),
            ("--etcd-cert", &self.etcd_cert),
            ("--etcd-key", &self.etcd_key),
            ("--etcd-password-file", &self.etcd_password_file),
        ] {
            words.extend(file.iter().flat_map(|file| [flag.to_string(), file.display().to_string()]));
        }
        words.extend(self.etcd_user.iter().flat_map(|user| ["--etcd-user".to_string(), user.clone()]));
        words.extend(self.etcd_keep_history.then(|| "--etcd-keep-history".to_string()));
        words
    }
}

/// A local etcd of one member: the program, its arguments, and where it listens.
#[derive(Clone, Debug)]
pub(crate) struct LocalEtcd {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) url: String,
}

impl LocalEtcd {
    /// With its data in `folder`, on free ports.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, Failure> {
        let program = on_path("etcd").ok_or_else(|| Failure::Hinted {
            message: "--engine etcd: no etcd is installed on this machine".into(),
            hint: "install it (Debian: `apt-get install etcd-server`), or name yours: --etcd http://HOST:2379".into(),
        })?;
        let free = free_addresses(2).map_err(|error| Failure::io("a free port", error))?;
        let (url, peer) = (format!("http://{}", free[0]), format!("http://{}", free[1]));
        let member = Member { name: "ohm", data_dir: folder, client_url: &url, peer_url: &peer };
        let mut arguments = member.arguments(&cluster([("ohm", peer.as_str())].into_iter()));
        arguments.extend([
            "--quota-backend-bytes".into(),
            (8_u64 << 30).to_string(),
            "--log-level".into(),
            "warn".into(),
        ]);
        // It ends with us, however we end; without setpriv an `ohm up` that was killed leaves it running.
        let program = match on_path("setpriv") {
            Some(setpriv) => {
                let etcd = program.display().to_string();
                arguments.splice(0..0, ["--pdeathsig".to_string(), "TERM".into(), etcd]);
                setpriv
            }
            None => program,
        };
        Ok(LocalEtcd { program, arguments, url })
    }
}

/// A snapshot and the entries after it.
pub(crate) type Archived = (Option<(Index, Vec<Bytes>)>, Vec<(Index, Bytes)>);

/// The log as it stands in an etcd.
#[cfg(feature = "etcd")]
pub(crate) fn archive(options: EtcdOptions) -> Result<Archived, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("the runtime", error))?;
    runtime.block_on(async {
        let connection = ohm_log_etcd::Connection::open(options).await;
        let connection = connection.map_err(|error| Failure::Failed(error.to_string()))?;
        let archive = connection.archive().await.map_err(|error| Failure::Failed(error.to_string()))?;
        Ok((archive.snapshot, archive.entries))
    })
}

/// The log as it stands in an etcd, which this program can't read.
#[cfg(not(feature = "etcd"))]
pub(crate) fn archive(_options: EtcdOptions) -> Result<Archived, Failure> {
    Err(Failure::Usage("this ohm was built without etcd: build it with `cargo build --features etcd`".into()))
}

/// The folder of a server over etcd holds no log and no state of its own.
pub(crate) fn refuse_folder(folder: &Path) -> Result<(), Failure> {
    if !folder.join("etcd.note").exists() {
        return Ok(());
    }
    let message = format!("{} belongs to a server over etcd, and the log of its cell is there", folder.display());
    let hint =
        "`etcdctl snapshot save` keeps it whole; `ohm server backup --to FILE` asks the servers for the state".into();
    Err(Failure::Hinted { message, hint })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        engine: EngineArguments,
    }

    #[test]
    fn words_say_the_same_again() {
        let words = "ohm --engine etcd --etcd https://a:1,https://b:2 --etcd-prefix /one --etcd-ca ca.pem --etcd-cert c.pem \
                     --etcd-key k.pem --etcd-user u --etcd-password-file p --etcd-keep-history";
        let read = |words: &mut dyn Iterator<Item = String>| Line::try_parse_from(words).ok().unwrap().engine;
        let first = read(&mut words.split_whitespace().map(String::from));
        let second = read(&mut std::iter::once("ohm".to_string()).chain(first.words()));
        assert_eq!(first.options(), second.options());
        assert_eq!(first.options().unwrap().unwrap().endpoints, ["https://a:1", "https://b:2"]);
        let none = read(&mut ["ohm"].map(String::from).into_iter());
        assert!(none.options() == Ok(None) && none.words().is_empty());
        let alone = read(&mut ["ohm", "--etcd", "http://a:1"].map(String::from).into_iter());
        assert!(alone.options().unwrap_err().contains("--engine etcd"));
    }
}
