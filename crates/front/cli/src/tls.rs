//! `ohm tls`: certificates for a cell that has nobody else to make them.

use crate::failure::Failure;
use crate::globals::Globals;
use crate::output::Output;
use ohm_runtime::clock;
use ohm_runtime::data_dir;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rcgen::{KeyIdMethod, KeyUsagePurpose, PublicKeyData, date_time_ymd};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A certificate holds from a little before it is made: clocks differ.
const BEFORE: Duration = Duration::from_secs(3600);
/// How long a CA holds.
const CA_DAYS: u64 = 3650;
const DAY: Duration = Duration::from_secs(86_400);

/// `ohm tls`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum TlsCommand {
    /// Make a certificate, and before the first one the CA that vouches for all of them
    Create(Create),
}

/// `ohm tls create`.
#[derive(Clone, Debug, clap::Args)]
pub struct Create {
    /// Who shows it: a name for the files, such as server-1, agents or ada
    #[arg(value_name = "NAME", value_parser = file_name)]
    name: String,
    /// Names and addresses at which a server is reached; without any, it can be shown by clients only
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',')]
    host: Vec<String>,
    /// Folder of the CA and of what it vouches for
    #[arg(long, value_name = "DIR", default_value = "ohm-tls")]
    dir: PathBuf,
    /// For how many days it holds
    #[arg(long, value_name = "COUNT", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=3650))]
    days: u64,
    /// Make it anew if there is one; servers see the new one by themselves
    #[arg(long)]
    renew: bool,
}

fn file_name(text: &str) -> Result<String, String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match text {
        "" | "ca" => Err("any name but `ca`".into()),
        _ if text.starts_with('.') || !text.bytes().all(is_good) => {
            Err("letters, digits, `-`, `_` and `.` only".into())
        }
        _ => Ok(text.to_string()),
    }
}

/// What was made, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    ca: PathBuf,
    ca_is_new: bool,
    certificate: PathBuf,
    key: PathBuf,
}

pub(crate) fn tls(command: &TlsCommand, globals: &Globals) -> Result<(), Failure> {
    let TlsCommand::Create(options) = command;
    let made = create(options)?;
    Output::new(globals).print(&made, |_| text(&made, options))
}

fn text(made: &Made, options: &Create) -> String {
    let Made { ca, certificate, key, .. } = made;
    let mut text = String::new();
    if made.ca_is_new {
        text += &format!("made {}, which everybody gets, and its key, which nobody gets\n", ca.display());
    }
    text += &format!("made {} and {}\n\n", certificate.display(), key.display());
    let shown = format!("--tls-ca {} --tls-cert {} --tls-key {}", ca.display(), certificate.display(), key.display());
    text + &match options.host.first() {
        Some(host) => format!("ohm server --listen 0.0.0.0:6460 --advertise https://{host}:6460 {shown}\n"),
        None => format!("ohm --server https://SERVER:6460 {shown} nodes\n"),
    }
}

fn create(options: &Create) -> Result<Made, Failure> {
    data_dir::create(&options.dir).map_err(|error| Failure::Failed(error.to_string()))?;
    let file = |name: &str, end: &str| options.dir.join(format!("{name}{end}"));
    let (ca, ca_key) = (file("ca", ".pem"), file("ca", "-key.pem"));
    let (certificate, key) = (file(&options.name, ".pem"), file(&options.name, "-key.pem"));
    if certificate.exists() && !options.renew {
        let message = format!("{} is there already; --renew makes it anew", certificate.display());
        return Err(Failure::Failed(message));
    }
    let (issuer_key, ca_is_new) = authority(&ca, &ca_key)?;
    let mut params = CertificateParams::new(options.host.clone())
        .map_err(|error| Failure::Usage(format!("--host {}: {error}", options.host.join(","))))?;
    params.distinguished_name.push(DnType::CommonName, options.name.as_str());
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Servers ask one another, too.
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if !options.host.is_empty() {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    let own_key = KeyPair::generate().map_err(broken)?;
    let params = valid(params, options.days);
    let issuer = Issuer::new(ca_params(&issuer_key), issuer_key);
    let signed = params.signed_by(&own_key, &issuer).map_err(broken)?;
    write(&key, own_key.serialize_pem().as_bytes(), 0o600)?;
    write(&certificate, signed.pem().as_bytes(), 0o644)?;
    Ok(Made { ca, ca_is_new, certificate, key })
}

/// The key of the CA in the folder; made with its certificate if there is none.
fn authority(ca: &Path, ca_key: &Path) -> Result<(KeyPair, bool), Failure> {
    match fs::read_to_string(ca_key) {
        Ok(pem) => {
            let bad = |why: &str| Failure::Failed(format!("{}: {why}", ca_key.display()));
            let key = KeyPair::from_pem(&pem).map_err(|error| bad(&error.to_string()))?;
            if !is_of(ca, &key)? {
                return Err(bad(&format!("is not the key of a CA made by `ohm tls create` in {}", ca.display())));
            }
            Ok((key, false))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && ca.exists() => {
            let message = format!("{} is there without its key: nothing can be signed with it here", ca.display());
            Err(Failure::Failed(message))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = KeyPair::generate().map_err(broken)?;
            let certificate = valid(ca_params(&key), CA_DAYS).self_signed(&key).map_err(broken)?;
            write(ca_key, key.serialize_pem().as_bytes(), 0o600)?;
            write(ca, certificate.pem().as_bytes(), 0o644)?;
            Ok((key, true))
        }
        Err(error) => Err(Failure::io(ca_key.display().to_string(), error)),
    }
}

/// Whether the certificate in `ca` is about `key`.
fn is_of(ca: &Path, key: &KeyPair) -> Result<bool, Failure> {
    use rustls_pki_types::pem::PemObject;
    let certificate = rustls_pki_types::CertificateDer::from_pem_file(ca);
    let certificate = certificate.map_err(|error| Failure::Failed(format!("{}: {error}", ca.display())))?;
    let public = key.der_bytes();
    Ok(certificate.windows(public.len()).any(|window| window == public))
}

/// What a CA says of itself follows from its key alone, so that it can be said again.
fn ca_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.key_identifier_method = KeyIdMethod::Sha256;
    let number: String = params.key_identifier(key).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name.push(DnType::CommonName, format!("Ohm CA {number}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn valid(mut params: CertificateParams, days: u64) -> CertificateParams {
    let now = date_time_ymd(1970, 1, 1) + Duration::from_millis(clock::wall_ms());
    params.not_before = now - BEFORE;
    params.not_after = now + DAY * u32::try_from(days).unwrap_or(u32::MAX);
    params
}

/// A server may read the file at any moment.
fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    data_dir::replace(path, mode, bytes).map(drop).map_err(|error| Failure::io(path.display().to_string(), error))
}

fn broken(error: rcgen::Error) -> Failure {
    Failure::Failed(format!("the certificate can't be made: {error}"))
}
