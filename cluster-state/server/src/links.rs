//! The ways to the other servers: one task and one stream for each, started again whenever it breaks.

use crate::inbox::Message;
use bytes::Bytes;
use ohm_replica::ServerInput;
use ohm_runtime::connect::connect_server;
use ohm_runtime::data_dir;
use ohm_runtime::tls::TlsFiles;
use ohm_wire::{ServerHello, ServerWord, server_word};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

/// Messages that may wait for one server; more are lost, as on any network.
const WORDS_MAX: usize = 1024;
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// How this server introduces itself to the others.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    pub(crate) cell: u64,
    pub(crate) server: u64,
    pub(crate) address: String,
    pub(crate) token: String,
    pub(crate) tls: TlsFiles,
}

/// Where servers are, as a file in the data folder: `NUMBER ADDRESS` in each line.
#[derive(Debug)]
pub(crate) struct AddressBook {
    path: PathBuf,
    addresses: BTreeMap<u64, String>,
}

impl AddressBook {
    pub(crate) fn open(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let entry = |line: &str| {
            let (server, address) = line.split_once(' ')?;
            Some((server.parse().ok()?, address.trim().to_string()))
        };
        AddressBook { path, addresses: text.lines().filter_map(entry).collect() }
    }

    pub(crate) fn all(&self) -> &BTreeMap<u64, String> {
        &self.addresses
    }

    /// Notes where a server is; true if that is news.
    pub(crate) fn note(&mut self, server: u64, address: &str) -> bool {
        if address.is_empty() || self.addresses.get(&server).is_some_and(|known| known == address) {
            return false;
        }
        self.addresses.insert(server, address.to_string());
        let text: String = self.addresses.iter().map(|(server, address)| format!("{server} {address}\n")).collect();
        // A crash leaves the old file or the new one. Whoever connects says where it is, so no more than time is lost.
        let written = data_dir::replace(&self.path, 0o666, text.as_bytes());
        if let Err(error) = written {
            tracing::warn!(%error, "the addresses of the servers could not be written");
        }
        true
    }
}

/// All ways to other servers.
pub(crate) struct Links {
    introduction: Introduction,
    book: AddressBook,
    runtime: Handle,
    inbox: mpsc::WeakSender<Message>,
    links: BTreeMap<u64, (mpsc::Sender<Bytes>, watch::Sender<String>)>,
}

impl Links {
    pub(crate) fn new(
        introduction: Introduction,
        book: AddressBook,
        runtime: Handle,
        inbox: mpsc::WeakSender<Message>,
    ) -> Self {
        Links { introduction, book, runtime, inbox, links: BTreeMap::new() }
    }

    pub(crate) fn addresses(&self) -> &BTreeMap<u64, String> {
        self.book.all()
    }

    /// A server says where it is.
    pub(crate) fn note(&mut self, server: u64, address: &str) {
        if self.book.note(server, address)
            && let Some((_, told)) = self.links.get(&server)
        {
            told.send_replace(address.to_string());
        }
    }

    /// Exactly these servers are to be reached.
    pub(crate) fn keep(&mut self, others: impl Iterator<Item = u64>) {
        let others: Vec<u64> = others.filter(|server| *server != self.introduction.server).collect();
        self.links.retain(|server, _| others.contains(server));
        for server in others {
            self.link(server);
        }
    }

    /// Sends, or says that it could not. Servers that are no members (any more) are reached too, as long as it is known
    /// where they are: one that was removed must be told.
    pub(crate) fn send(&mut self, server: u64, bytes: Bytes) -> bool {
        self.link(server).try_send(bytes).is_ok()
    }

    fn link(&mut self, server: u64) -> &mpsc::Sender<Bytes> {
        let (introduction, book, runtime, inbox) = (&self.introduction, &self.book, &self.runtime, &self.inbox);
        let start = || {
            let (words, queue) = mpsc::channel(WORDS_MAX);
            let (told, address) = watch::channel(book.all().get(&server).cloned().unwrap_or_default());
            let task = Task { server, introduction: introduction.clone(), address, queue, inbox: inbox.clone() };
            runtime.spawn(task.run());
            (words, told)
        };
        &self.links.entry(server).or_insert_with(start).0
    }
}

/// One way to one server, for as long as the queue to it is open.
struct Task {
    server: u64,
    introduction: Introduction,
    address: watch::Receiver<String>,
    queue: mpsc::Receiver<Bytes>,
    inbox: mpsc::WeakSender<Message>,
}

impl Task {
    async fn run(mut self) {
        let mut failed_before = false;
        loop {
            let address = self.address.borrow_and_update().clone();
            match self.serve(&address).await {
                Ok(()) => return,
                Err(reason) if !failed_before => tracing::warn!(server = self.server, address, reason, "no way to it"),
                Err(reason) => tracing::debug!(server = self.server, address, reason, "no way to it"),
            }
            failed_before = true;
            if !self.report_lost().await {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What waited is lost, and said so; false when the server is stopping.
    async fn report_lost(&mut self) -> bool {
        let mut lost = 0;
        loop {
            match self.queue.try_recv() {
                Ok(_) => lost += 1,
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return false,
            }
        }
        let Some(inbox) = self.inbox.upgrade() else { return false };
        let input = ServerInput::Unreachable { server: self.server };
        lost == 0 || inbox.send(Message::Input(Box::new(input))).await.is_ok()
    }

    /// Connects and sends until the way breaks, or the queue is closed.
    async fn serve(&mut self, address: &str) -> Result<(), String> {
        if address.is_empty() {
            return Err("it is not known where it listens".into());
        }
        let Introduction { cell, server, address: own, token, tls } = self.introduction.clone();
        let mut client = connect_server(address, &token, &tls).await.map_err(|error| error.to_string())?;
        let (words, stream) = mpsc::channel(64);
        let hello = ServerHello { cell, server, address: own };
        let hello = ServerWord { kind: Some(server_word::Kind::Hello(hello)) };
        words.send(hello).await.map_err(|error| error.to_string())?;
        let call = client.between(ReceiverStream::new(stream));
        tokio::pin!(call);
        loop {
            tokio::select! { biased;
                ended = &mut call => return Err(match ended {
                    Ok(_) => "it ended the stream".into(),
                    Err(status) => status.message().to_string(),
                }),
                parcel = self.queue.recv() => match parcel {
                    Some(parcel) => {
                        let word = ServerWord { kind: Some(server_word::Kind::Parcel(parcel)) };
                        // A stream that stands still must not hide that the call has ended.
                        tokio::select! { biased;
                            sent = words.send(word) => sent.map_err(|error| error.to_string())?,
                            ended = &mut call => return Err(format!("it ended the stream: {ended:?}")),
                        }
                    }
                    None => return Ok(()),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_again() {
        let folder = std::env::temp_dir().join(format!("ohm-links-{}", ohm_runtime::dice::random_u64()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("servers");
        let mut book = AddressBook::open(path.clone());
        assert!(book.note(3, "http://three:6460") && !book.note(3, "http://three:6460") && !book.note(4, ""));
        assert!(book.note(3, "http://elsewhere:6460"));
        assert_eq!(AddressBook::open(path).all()[&3], "http://elsewhere:6460");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
