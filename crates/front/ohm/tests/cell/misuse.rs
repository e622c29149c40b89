//! Clients that misuse a server: idle connections by the thousand, half headers, answers that nobody reads, bodies
//! without end, documents that are none, floods of questions. All of them know the token, but for the half headers and
//! some of the idle connections; whom the server turns out comes back.

use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Of so many idle connections one stays a stranger, the others have shown the token once.
const STRANGER_EVERY: usize = 3;
/// Addresses of this machine that the idle connections come from: one has not enough ports for all that come and go.
const IDLE_ADDRESSES: usize = 20;
/// How many threads hold them.
const OPENERS: usize = 4;
/// Between two looks at them.
const SWEEP: Duration = Duration::from_millis(500);
/// How long a server may keep one waiting before the client looks whether it is to stop.
const PATIENCE: Duration = Duration::from_millis(500);
/// What one client holds at once where it holds anything.
const HELD: usize = 8;
/// Requests that are sent on one connection before anybody would read an answer.
const UNREAD: usize = 50;

/// Whom they misuse, until they are stopped.
pub struct Misuse {
    listen: SocketAddr,
    token: String,
    is_stopped: AtomicBool,
    /// What they got done.
    pub tally: Tally,
}

/// What was done, for people.
#[derive(Debug, Default)]
pub struct Tally {
    /// Idle connections that are open now.
    pub idle: AtomicUsize,
    /// Idle connections that were opened, those in the place of others included.
    pub idle_opened: AtomicUsize,
    /// Other connections that were opened.
    pub opened: AtomicUsize,
    /// Bytes of bodies without end.
    pub body_bytes: AtomicUsize,
    /// Malformed requests that were answered, and those after which the connection was closed.
    pub malformed: AtomicUsize,
    /// Questions that were answered.
    pub questions: AtomicUsize,
}

fn add(count: &AtomicUsize, more: usize) {
    count.fetch_add(more, Ordering::Relaxed);
}

impl Misuse {
    /// Of the server that listens there.
    pub fn of(listen: &str, token: &str) -> Self {
        let listen = listen.parse().unwrap();
        Misuse { listen, token: token.to_string(), is_stopped: AtomicBool::default(), tally: Tally::default() }
    }

    /// Misuses it with so many clients, and so many idle connections beside them, until it is stopped. The clients
    /// begin once all those connections were opened and `begin` returned.
    pub fn run(&self, clients: usize, idle: usize, begin: impl FnOnce()) {
        let opened = Barrier::new(OPENERS + 1);
        scope(|scope| {
            for opener in 0..OPENERS {
                let (numbers, opened) = ((opener..idle).step_by(OPENERS), &opened);
                scope.spawn(move || self.hold_idle(numbers, opened));
            }
            opened.wait();
            begin();
            for client in 0..clients {
                let kinds = [Self::send_half, Self::read_nothing, Self::send_on, Self::send_garbage, Self::ask];
                let kind = kinds[client % kinds.len()];
                scope.spawn(move || {
                    while self.goes_on() {
                        kind(self, client);
                    }
                });
            }
        });
    }

    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        !self.is_stopped.load(Ordering::Relaxed)
    }

    fn connect(&self) -> Option<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.listen, PATIENCE).ok();
        let Some(stream) = stream else {
            sleep(PATIENCE);
            return None;
        };
        add(&self.tally.opened, 1);
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(stream)
    }

    /// The head of a request of this client.
    fn head(&self, client: usize, what: &str, more: &str) -> String {
        let Misuse { listen, token, .. } = self;
        format!(
            "{what} HTTP/1.1\r\nHost: {listen}\r\nAuthorization: Bearer {token}\r\nOhm-Owner: mallory-{client}\r\n{more}\r\n"
        )
    }

    /// Holds connections of these numbers on which nothing happens, and opens another one for each that the server
    /// ends.
    fn hold_idle(&self, numbers: impl Iterator<Item = usize>, opened: &Barrier) {
        let mut held: Vec<(usize, Option<TcpStream>)> = numbers.map(|number| (number, None)).collect();
        let idle = &self.tally.idle;
        let mut is_first = true;
        while self.goes_on() || is_first {
            let swept = Instant::now();
            for (number, place) in &mut held {
                if place.as_mut().is_some_and(is_closed) {
                    *place = None;
                    idle.fetch_sub(1, Ordering::Relaxed);
                }
                if place.is_none() && self.goes_on() {
                    *place = self.idle(*number);
                    add(idle, usize::from(place.is_some()));
                }
            }
            if std::mem::take(&mut is_first) {
                opened.wait();
            }
            sleep(SWEEP.saturating_sub(swept.elapsed()));
        }
    }

    fn idle(&self, number: usize) -> Option<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
        let from = Ipv4Addr::new(127, 0, 1, u8::try_from(number % IDLE_ADDRESSES).unwrap() + 1);
        socket.bind(&SockAddr::from(SocketAddr::from((from, 0)))).ok()?;
        socket.connect_timeout(&self.listen.into(), PATIENCE).ok()?;
        let mut stream = TcpStream::from(socket);
        add(&self.tally.idle_opened, 1);
        if !number.is_multiple_of(STRANGER_EVERY) {
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            stream.write_all(self.head(number, "GET /v1/queues?stale=ok", "").as_bytes()).ok()?;
            let _ = stream.read(&mut [0; 4096]).ok()?;
        }
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    }

    /// Half of a header on each of some connections, and a byte more now and then.
    fn send_half(&self, _: usize) {
        let mut held: Vec<TcpStream> = (0..HELD).filter_map(|_| self.connect()).collect();
        for stream in &mut held {
            let _ = stream.write_all(b"POST /v1/submit HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ");
        }
        while self.goes_on() && !held.is_empty() {
            held.retain_mut(|stream| stream.write_all(b"x").is_ok());
            sleep(PATIENCE);
        }
    }

    /// Streams of events, long polls and long answers, of which nothing is read.
    fn read_nothing(&self, client: usize) {
        let mut held: Vec<TcpStream> = (0..HELD).filter_map(|_| self.connect()).collect();
        for (number, stream) in held.iter_mut().enumerate() {
            let what = ["GET /v1/events?follow=true", "GET /v1/jobs?limit=10000", "GET /v1/events?limit=100000"];
            let request = self.head(client, what[number % what.len()], "");
            for _ in 0..UNREAD {
                if stream.write_all(request.as_bytes()).is_err() {
                    break;
                }
            }
        }
        let opened = Instant::now();
        // A stream that is written to is open as long as nobody reads; whoever is turned out notices here.
        while self.goes_on() && opened.elapsed() < Duration::from_secs(20) {
            sleep(PATIENCE);
        }
    }

    /// A body without end: as fast as it is taken, or a line now and then.
    fn send_on(&self, client: usize) {
        let Some(mut stream) = self.connect() else { return };
        let more = "Content-Type: application/yaml\r\nTransfer-Encoding: chunked\r\n";
        if stream.write_all(self.head(client, "POST /v1/submit", more).as_bytes()).is_err() {
            return;
        }
        let is_slow = (client / 5).is_multiple_of(2);
        let line = "# and so on, without an end, until somebody says that it is enough\n";
        let text = line.repeat(if is_slow { 1 } else { 200 });
        let piece = format!("{:x}\r\n{text}\r\n", text.len());
        while self.goes_on() {
            match stream.write(piece.as_bytes()) {
                // What was cut off makes the framing wrong, and the client starts again.
                Ok(count) if count < piece.len() => return,
                Ok(count) => add(&self.tally.body_bytes, count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
            if is_slow {
                sleep(PATIENCE);
            }
        }
    }

    /// Requests and documents that are none, one after the other.
    fn send_garbage(&self, client: usize) {
        let yaml = |body: &[u8]| {
            let more = format!("Content-Type: application/yaml\r\nContent-Length: {}\r\n", body.len());
            [self.head(client, "POST /v1/submit", &more).as_bytes(), body].concat()
        };
        let aliases: String = (1..40).map(|at| format!("a{at}: &a{at} [*a{0}, *a{0}, *a{0}]\n", at - 1)).collect();
        let requests = [
            yaml("{".repeat(200_000).as_bytes()),
            yaml(format!("a0: &a0 [x]\n{aliases}").as_bytes()),
            yaml("---\nkind: Job\nmetadata: {name: x}\nspec: {cuont: 1}\n".repeat(2_000).as_bytes()),
            yaml(&[0xff; 100_000]),
            yaml(&[0; 100_000]),
            yaml("- ".repeat(100_000).as_bytes()),
            yaml(format!("kind: Job\nmetadata: {{name: \"{}\"}}\n", "y".repeat(900_000)).as_bytes()),
            self.head(client, "GET /v1/jobs/%00%1b%5b2J/explain?x=%ff", "").into_bytes(),
            self.head(client, "POST /v1/jobs/a/cancel", "Content-Type: text/plain\r\nContent-Length: 0\r\n")
                .into_bytes(),
            self.head(client, "GET /v1/status", &format!("X-Long: {}\r\n", "z".repeat(80_000))).into_bytes(),
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 no TLS either".to_vec(),
        ];
        for request in requests {
            if !self.goes_on() {
                return;
            }
            let Some(mut stream) = self.connect() else { return };
            let _ = stream.write_all(&request);
            let _ = stream.read(&mut [0; 4096]);
            add(&self.tally.malformed, 1);
        }
    }

    /// One question after the other, the answers read.
    fn ask(&self, client: usize) {
        let Some(mut stream) = self.connect() else { return };
        let paths = ["jobs?limit=10000", "events?limit=10000", "nodes", "status", "queues", "jobs/none", "usage"];
        let mut answer = vec![0; 1 << 20];
        for path in paths.iter().cycle() {
            let request = self.head(client, &format!("GET /v1/{path}"), "");
            if !self.goes_on() || stream.write_all(request.as_bytes()).is_err() {
                return;
            }
            match whole_answer(&mut stream, &mut answer) {
                Some(()) => add(&self.tally.questions, 1),
                None => return,
            }
        }
    }
}

/// Reads one answer of a known length to its end.
fn whole_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<()> {
    let mut head = Vec::new();
    let mut left = loop {
        let count = stream.read(buffer).ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&buffer[..count]);
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"))?;
            break length.trim().parse::<usize>().ok()?.saturating_sub(head.len() - end - 4);
        }
    };
    while left > 0 {
        left = left.saturating_sub(stream.read(buffer).ok().filter(|count| *count > 0)?);
    }
    Some(())
}

/// Whether the server has ended a connection on which nothing is under way.
fn is_closed(stream: &mut TcpStream) -> bool {
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            // The rest of an answer.
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}
