//! What the cell wants next: which runs have to leave their nodes, and which spares a group is to have.

pub(crate) mod drains;
pub(crate) mod spares;
