//! The TCP fault proxy: stands between one process and the server, and passes, holds back, delays or closes.
//!
//! While a way is cut nothing is read from its sender: what was sent waits in the sockets, nobody is told, and it
//! arrives late once the way is healed, as on a network that loses packets for a while.

use crate::scenario::Way;
use crate::timeline::LinkState;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Between two looks at the state of the link.
const LOOK: Duration = Duration::from_millis(20);
const CONNECTING: Duration = Duration::from_secs(2);
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Link {
    state: Mutex<LinkState>,
    is_closed: AtomicBool,
}

impl Link {
    fn state(&self) -> LinkState {
        match self.is_closed.load(Ordering::Relaxed) {
            true => LinkState::Refusing,
            false => *self.state.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// A proxy in front of a server; closed when it goes.
pub(crate) struct Proxy {
    link: Arc<Link>,
    address: SocketAddr,
}

impl Proxy {
    /// Listens on a free port and passes everything on to `server`.
    pub(crate) fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let (link, address) = (Arc::new(Link::default()), listener.local_addr()?);
        let own = Arc::clone(&link);
        thread::Builder::new().name("proxy".into()).spawn(move || accept(&listener, server, &own))?;
        Ok(Proxy { link, address })
    }

    /// Where the process finds the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, for connections that are there too.
    pub(crate) fn set(&self, state: LinkState) {
        *self.link.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.link.is_closed.store(true, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, server: SocketAddr, link: &Arc<Link>) {
    while !link.is_closed.load(Ordering::Relaxed) {
        match listener.accept() {
            // Dropped: the other side sees its connection closed at once.
            Ok((client, _)) if link.state() != LinkState::Refusing => {
                // A server that is not there closes the connection too.
                let _ = TcpStream::connect_timeout(&server, CONNECTING).and_then(|server| join(client, server, link));
            }
            Ok(_) => {}
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// Two threads, one for each way.
fn join(client: TcpStream, server: TcpStream, link: &Arc<Link>) -> io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
    }
    let pairs = [(client.try_clone()?, server.try_clone()?, Way::Towards), (server, client, Way::From)];
    for (from, to, way) in pairs {
        let link = Arc::clone(link);
        thread::Builder::new().name("proxy".into()).spawn(move || {
            // What was broken on one side is closed on the other.
            if pump(&from, &to, way, &link).is_err() {
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            }
        })?;
    }
    Ok(())
}

fn pump(mut from: &TcpStream, mut to: &TcpStream, way: Way, link: &Link) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let delay = match link.state() {
            LinkState::Refusing => return Err(ErrorKind::ConnectionReset.into()),
            LinkState::Cut(cut) if cut == way || cut == Way::Both => {
                thread::sleep(LOOK);
                continue;
            }
            LinkState::Delayed(by_ms) => Duration::from_millis(by_ms),
            LinkState::Open | LinkState::Cut(_) => Duration::ZERO,
        };
        match from.read(&mut chunk) {
            Ok(0) => return to.shutdown(Shutdown::Write),
            Ok(length) => {
                thread::sleep(delay);
                to.write_all(&chunk[..length])?;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says everything again, and a connection to it over a proxy.
    fn echo() -> (Proxy, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                thread::spawn(move || io::copy(&mut (&stream), &mut (&stream)));
            }
        });
        let stream = TcpStream::connect(proxy.address()).unwrap();
        (proxy, stream)
    }

    fn hears(mut stream: &TcpStream, patience: Duration) -> io::Result<u8> {
        let mut heard = [0];
        stream.set_read_timeout(Some(patience)).unwrap();
        stream.read_exact(&mut heard).map(|()| heard[0])
    }

    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn what_is_held_back_arrives_after_the_heal_and_nothing_was_closed() {
        for way in [Way::Towards, Way::From, Way::Both] {
            let (proxy, mut stream) = echo();
            stream.write_all(b"a").unwrap();
            assert_eq!(hears(&stream, LONG).unwrap(), b'a');
            proxy.set(LinkState::Cut(way));
            // The pump may be within a read that it still passes on.
            thread::sleep(10 * LOOK);
            stream.write_all(b"b").unwrap();
            assert!(hears(&stream, SHORT).is_err(), "{way:?}");
            proxy.set(LinkState::Open);
            assert_eq!(hears(&stream, LONG).unwrap(), b'b');
        }
    }

    #[test]
    fn reset_connections_are_closed_and_new_ones_too_until_the_heal() {
        let (proxy, stream) = echo();
        proxy.set(LinkState::Refusing);
        let closed = |stream: &TcpStream| {
            let kind = hears(stream, LONG).unwrap_err().kind();
            !matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
        };
        assert!(closed(&stream));
        assert!(closed(&TcpStream::connect(proxy.address()).unwrap()));
        proxy.set(LinkState::Delayed(1));
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        stream.write_all(b"c").unwrap();
        assert_eq!(hears(&stream, LONG).unwrap(), b'c');
    }
}
