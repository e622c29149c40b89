//! What every command takes: which server, with which token, and how to print.

use crate::failure::Failure;
use ohm_runtime::data_dir;
use ohm_runtime::tls::TlsFiles;
use ohm_wire::api::SERVER_DEFAULT;
use std::io::IsTerminal;
use std::path::PathBuf;

/// The environment variable that may hold the token itself.
const TOKEN_VARIABLE: &str = "OHM_TOKEN";
/// The data folder unless it is named.
const DATA_DIR_DEFAULT: &str = "ohm-data";

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For people; may change between versions.
    #[default]
    Table,
    /// What the server answered, as JSON: stable.
    Json,
    /// The same as YAML.
    Yaml,
}

/// When colour is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Arguments of every command.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Where the servers listen; any of them will do, and the next one when one is gone
    #[arg(long, global = true, value_name = "URL,URL", default_value = SERVER_DEFAULT)]
    #[arg(env = "OHM_SERVER", hide_env_values = true)]
    pub server: String,
    /// File that holds the token (else OHM_TOKEN, else the file `token` in the data folder)
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate of whoever vouches for the servers, where their address is https://
    #[arg(long, global = true, env = "OHM_TLS_CA", hide_env_values = true, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Certificate that this process shows; a server that has one encrypts all it says
    #[arg(long, global = true, env = "OHM_TLS_CERT", hide_env_values = true, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, global = true, env = "OHM_TLS_KEY", hide_env_values = true, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Data folder of the cell on this machine [default: ./ohm-data]
    #[arg(long, global = true, env = "OHM_DATA_DIR", hide_env_values = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Namespace of the jobs that are named, listed or submitted [default: default]
    #[arg(short, long, global = true, env = "OHM_NAMESPACE", hide_env_values = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// How results are printed
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    pub output: OutputFormat,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: ColorChoice,
}

impl Globals {
    /// The data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| DATA_DIR_DEFAULT.into())
    }

    /// The certificates.
    pub fn tls(&self) -> TlsFiles {
        TlsFiles { ca: self.tls_ca.clone(), certificate: self.tls_cert.clone(), key: self.tls_key.clone() }
    }

    /// The arguments that tell another process of the same certificates.
    pub fn tls_words(&self) -> Vec<String> {
        let files = [("--tls-ca", &self.tls_ca), ("--tls-cert", &self.tls_cert), ("--tls-key", &self.tls_key)];
        let named = files.into_iter().filter_map(|(flag, file)| Some((flag, file.as_ref()?)));
        let words = named.flat_map(|(flag, file)| {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            [flag.to_string(), file.display().to_string()]
        });
        words.collect()
    }

    /// The token, where one is found. A named file must be there; the data folder need not be.
    pub(crate) fn token(&self) -> Result<Option<String>, Failure> {
        if let Some(path) = &self.token_file {
            let token = std::fs::read_to_string(path);
            let token = token.map_err(|error| Failure::Usage(format!("--token-file {}: {error}", path.display())))?;
            return Ok(Some(token.trim().to_string()));
        }
        if let Ok(token) = std::env::var(TOKEN_VARIABLE) {
            return Ok(Some(token.trim().to_string()));
        }
        Ok(data_dir::read_token(&self.data_dir().join("token")).ok())
    }

    pub(crate) fn colors_on_stdout(&self) -> bool {
        self.colors(std::io::stdout().is_terminal())
    }

    pub(crate) fn colors_on_stderr(&self) -> bool {
        self.colors(std::io::stderr().is_terminal())
    }

    fn colors(&self, is_terminal: bool) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }
}
