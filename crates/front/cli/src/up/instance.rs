//! Who listens on the port of the cell: our own server, known by the instance it was given, or somebody else.

use crate::failure::Failure;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long an answer may take; whoever needs longer is asked again.
const PATIENCE: Duration = Duration::from_millis(500);
/// No head of an answer that interests us is longer.
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// Shown when the port is taken.
const OTHER_PORT: &str = "choose another port with --listen 127.0.0.1:PORT, and name it to the other commands with \
                          --server http://127.0.0.1:PORT or OHM_SERVER";

/// Refuses an address that is open to others or that somebody listens on already, before anything is started.
pub(super) fn refuse_taken(address: SocketAddr) -> Result<(), Failure> {
    if !address.ip().is_loopback() {
        let message = format!("--listen {address}: other machines can reach it, and nothing is encrypted");
        let hint = "`ohm up` listens on addresses such as 127.0.0.1 only; `ohm server --insecure` on others".into();
        return Err(Failure::Hinted { message, hint });
    }
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(taken(address)),
        Err(error) => Err(Failure::Failed(format!("can't listen on {address}: {error}"))),
    }
}

/// What to say when somebody else has the address.
pub(super) fn taken(address: SocketAddr) -> Failure {
    let who = match ask(address) {
        Some(_) => "an Ohm server answers there: another cell, perhaps another `ohm up`",
        None => "another program listens there",
    };
    Failure::Hinted { message: format!("{address} is in use: {who}"), hint: OTHER_PORT.to_string() }
}

/// The instance that the server at `address` says it is; empty for a server of Ohm that was given none, nothing when no
/// such server answers.
pub(super) fn ask(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut lines = BufReader::new(stream.take(HEAD_BYTES_MAX)).lines();
    let is_http = lines.next()?.ok()?.starts_with("HTTP/1.1 ");
    let mut heads = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
    let instance = |line: String| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(ohm_wire::api::INSTANCE_HEADER).then(|| value.trim().to_string())
    };
    heads.find_map(instance).filter(|_| is_http)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one connection with `answer`.
    fn answering(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut line = String::new();
                BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    #[test]
    fn a_server_is_known_by_its_instance_and_nobody_else_is_taken_for_one() {
        let ours = answering("HTTP/1.1 200 OK\r\nOhm-Instance: 00ab\r\n\r\nok\n");
        assert_eq!(ask(ours).as_deref(), Some("00ab"));
        assert_eq!(ask(answering("HTTP/1.1 200 OK\r\nServer: other\r\n\r\nohm-instance: 00ab\n")), None);
        assert_eq!(ask(answering("220 mail.example.org\r\n")), None);
        let error = refuse_taken(ours).unwrap_err();
        assert!(error.to_string().contains("another cell") && error.hint().contains("--listen"), "{error}");
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(refuse_taken(free).is_ok() && ask(free).is_none());
    }
}
