//! The smallest HTTP client there is: one connection, kept, and answers with a known length.

use super::Cell;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// One connection to a cell's server.
pub struct Http {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Http {
    pub fn connect(cell: &Cell) -> Http {
        let stream = TcpStream::connect(cell.listen()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(super::SOON)).unwrap();
        let head = format!("Host: {}\r\nAuthorization: Bearer {}\r\n", cell.listen(), cell.token());
        Http { stream: BufReader::new(stream), head }
    }

    /// A connection to one of several servers (`host:port`), if it answers; nobody waits longer than `patience`.
    pub fn try_connect(cell: &Cell, listen: &str, patience: std::time::Duration) -> Option<Http> {
        let stream = TcpStream::connect_timeout(&listen.parse().unwrap(), patience).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(patience)).ok()?;
        let head = format!("Host: {listen}\r\nAuthorization: Bearer {}\r\n", cell.token());
        Some(Http { stream: BufReader::new(stream), head })
    }

    /// Submits one body, if the server lives long enough to answer; the status.
    pub fn try_submit(&mut self, body: &[u8]) -> Option<u16> {
        let length = body.len();
        let head = &self.head;
        let head = format!(
            "POST /v1/submit HTTP/1.1\r\n{head}Content-Type: application/yaml\r\nContent-Length: {length}\r\n\r\n"
        );
        self.stream.get_mut().write_all(&[head.as_bytes(), body].concat()).ok()?;
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        self.stream.read_line(&mut first).ok()?;
        while line != "\r\n" {
            line.clear();
            if self.stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        self.stream.read_exact(&mut vec![0; length]).ok()?;
        first.split(' ').nth(1)?.parse().ok()
    }

    /// Submits one body; the status and the answer.
    pub fn submit(&mut self, body: &[u8]) -> (u16, Value) {
        let (status, body) = self.send("POST /v1/submit", body);
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// What stands at a path, as text.
    pub fn get(&mut self, path: &str) -> String {
        let (status, body) = self.send(&format!("GET {path}"), b"");
        assert_eq!(status, 200, "{path}");
        String::from_utf8(body).unwrap()
    }

    fn send(&mut self, what: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let length = body.len();
        let head = &self.head;
        let mut request =
            format!("{what} HTTP/1.1\r\n{head}Content-Type: application/yaml\r\nContent-Length: {length}\r\n\r\n")
                .into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request).unwrap();
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = 0;
        loop {
            let line = self.line().to_ascii_lowercase();
            match line.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).unwrap();
        (status, answer)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the server closed the connection after {line:?}");
        line.trim_end().to_string()
    }
}
