//! The client against a server of one answer.

use super::*;
use crate::failure::{EXIT_FAILED, EXIT_UNREACHABLE, EXIT_USAGE};
use clap::Parser;
use ohm_wire::api::{JobList, JobSummary};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    globals: Globals,
}

fn client(server: &str) -> Client {
    let folder = std::env::temp_dir().join(format!("ohm-client-{:x}", ohm_runtime::dice::random_u64()));
    std::fs::create_dir_all(&folder).unwrap();
    let token = folder.join("token");
    std::fs::write(&token, "a-token-of-the-test\n").unwrap();
    let line = ["ohm", "--server", server, "--token-file", token.to_str().unwrap()];
    let client = Client::new(&Line::try_parse_from(line).ok().unwrap().globals);
    std::fs::remove_dir_all(folder).unwrap();
    client.unwrap()
}

/// A server that answers every request with `answer` and tells the head of each.
fn serve(answer: &str) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (heads, told) = mpsc::channel();
    let answer = answer.to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) <= 2 {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let _ = heads.send(head + &String::from_utf8(body).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, told)
}

fn answer(status: &str, body: &str) -> String {
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close", body.len());
    format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n{body}")
}

#[test]
fn a_question_carries_token_owner_and_content_type() {
    let (server, told) = serve(&answer("200 OK", r#"{"jobs":[{"name":"a","new":1}],"total":1,"later":{}}"#));
    let list: JobList = client(&server).get("/v1/jobs", &[("after", "x y".to_string())]).unwrap();
    assert_eq!((list.jobs[0].name.as_str(), list.total), ("a", 1));
    let head = told.recv().unwrap().to_ascii_lowercase();
    assert!(head.starts_with("get /v1/jobs?after=x%20y http/1.1"), "{head}");
    for line in ["authorization: bearer a-token-of-the-test", "ohm-owner: ", "content-type: application/json"] {
        assert!(head.contains(line), "{head}");
    }
    let (server, told) = serve(&answer("200 OK", r#"{"name":"a","state":"cancelled"}"#));
    let job: JobSummary = client(&server).post("/v1/jobs/a/cancel").unwrap();
    assert!(job.is_finished());
    assert!(told.recv().unwrap().starts_with("POST /v1/jobs/a/cancel"));
}

/// A server that says that it is well, and is gone before it is asked anything else. Gives what it was asked first.
fn leave() -> (String, thread::JoinHandle<String>) {
    let leaves = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", leaves.local_addr().unwrap());
    let gone = thread::spawn(move || {
        let (mut stream, _) = leaves.accept().unwrap();
        drop(leaves);
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        stream.write_all(answer("200 OK", "").as_bytes()).unwrap();
        line
    });
    (address, gone)
}

#[test]
fn a_question_goes_on_to_the_next_server_when_one_goes_away() {
    let (second, _told) = serve(&answer("200 OK", r#"{"jobs":[],"total":7}"#));
    let (first, gone) = leave();
    let list: JobList = client(&format!("{first},{second}")).get("/v1/jobs", &[]).unwrap();
    assert_eq!(list.total, 7);
    assert!(gone.join().unwrap().starts_with("GET /healthz "), "the first one was asked first");
    let (first, gone) = leave();
    let mut text = String::new();
    client(&format!("{first},{second}")).stream("/v1/jobs", &[]).unwrap().read_to_string(&mut text).unwrap();
    assert!(text.ends_with(r#""total":7}"#), "{text}");
    assert!(gone.join().unwrap().starts_with("GET /healthz "), "the first one was asked first");
}

#[test]
fn refusals_come_with_their_hint() {
    let body = r#"{"error":{"code":"not_found","message":"no job is called \"a\"","hint":"`ohm jobs` lists them"}}"#;
    let (server, _told) = serve(&answer("404 Not Found", body));
    let failure = client(&server).get::<JobList>("/v1/jobs/a", &[]).unwrap_err();
    assert_eq!(failure.to_string(), "no job is called \"a\"");
    assert_eq!((failure.hint().as_str(), failure.exit_code()), ("`ohm jobs` lists them", EXIT_FAILED));
    let (server, _told) = serve(&answer("502 Bad Gateway", "<html>"));
    let failure = client(&server).get::<JobList>("/v1/jobs/a", &[]).unwrap_err();
    assert!(matches!(failure, Failure::Unreadable { .. }), "{failure}");
    let (server, _told) = serve(&answer("302 Found\r\nlocation: http://evil.example/", ""));
    assert!(client(&server).get::<JobList>("/v1/jobs", &[]).is_err());
}

#[test]
fn verdicts_come_back_whatever_the_status() {
    let body = r#"{"accepted":1,"refused":1,"verdicts":[{"document":2,"line":9,"verdict":"refused"}]}"#;
    let (server, told) = serve(&answer("422 Unprocessable Entity", body));
    let answered =
        client(&server).submit("kind: Job\n", "application/yaml", &[("verdicts", "refused".into())]).unwrap();
    assert_eq!((answered.accepted, answered.verdicts[0].line), (1, 9));
    let head = told.recv().unwrap();
    assert!(head.starts_with("POST /v1/submit?verdicts=refused") && head.ends_with("kind: Job\n"), "{head}");
    let too_large = r#"{"error":{"code":"too_large","message":"the body is longer than 9 bytes","hint":""}}"#;
    let (server, _told) = serve(&answer("413 Payload Too Large", too_large));
    let failure =
        client(&server).submit("kind: Job\n", "application/yaml", &[("verdicts", "refused".into())]).unwrap_err();
    assert!(matches!(&failure, Failure::Refused(error) if error.code == "too_large"), "{failure}");
}

#[test]
fn a_server_that_is_not_there_is_said_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failure = client(&format!("http://{free}")).get::<JobList>("/v1/jobs", &[]).unwrap_err();
    assert_eq!(failure.exit_code(), EXIT_UNREACHABLE, "{failure}");
    assert!(failure.to_string().starts_with(&format!("no server answers at http://{free}: ")), "{failure}");
    let line = Line::try_parse_from(["ohm", "--server", "localhost:6460"]).ok().unwrap();
    assert_eq!(Client::new(&line.globals).err().unwrap().exit_code(), EXIT_USAGE);
    let line = Line::try_parse_from(["ohm", "--token-file", "/does/not/exist"]).ok().unwrap();
    assert_eq!(Client::new(&line.globals).err().unwrap().exit_code(), EXIT_USAGE);
}

#[test]
fn names_cannot_leave_their_place_in_an_address() {
    assert_eq!(path_of("jobs", "train-1.a"), "/v1/jobs/train-1.a");
    assert_eq!(path_of("jobs", "../nodes?x=1&é"), "/v1/jobs/..%2Fnodes%3Fx%3D1%26%C3%A9");
    assert_eq!(target("/v1/jobs", &[("after", "a b".into()), ("limit", "2".into())]), "/v1/jobs?after=a%20b&limit=2");
}
