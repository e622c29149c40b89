//! The connection to a real etcd: words of the core in, words of etcd out. No decisions here.

mod archive;
mod bell;
mod connection;
mod convert;
mod line;
mod note;
mod watch;

pub use archive::Archive;
pub use bell::Wake;
pub use connection::Connection;
pub use line::EtcdLine;
pub use note::{read_note, write_note};
