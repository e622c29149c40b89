//! The targets, one file each.

pub(crate) mod commands;
pub(crate) mod etcd;
pub(crate) mod http;
pub(crate) mod journal;
pub(crate) mod manifest;
pub(crate) mod plan;
pub(crate) mod rpc;
pub(crate) mod snapshot;
pub(crate) mod wal;
pub(crate) mod wire;
pub(crate) mod words;
