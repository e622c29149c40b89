//! Where the documents of a file go, and what of it is read elsewhere meanwhile.

use super::scan::Place;
use crate::error::Problem;
use crate::tree::Node;
use std::cell::Cell;

/// Takes the documents one by one, so that the trees of a file of 100 MB never exist at once.
pub(crate) type Sink<'s, 'a> = &'s mut dyn FnMut(Result<Node<'a>, Problem>);

/// How a file is read.
pub(crate) struct Reading<'s, 'r, 'a> {
    pub(crate) sink: Sink<'s, 'a>,
    pub(crate) resume: Option<Resume<'r>>,
    /// No more documents are wanted; looked at before each one.
    pub(crate) is_over: &'r Cell<bool>,
}

/// What is read elsewhere meanwhile: the documents from byte `at` to the end of their list.
pub(crate) struct Resume<'r> {
    pub(crate) at: usize,
    /// Where that list ends; nothing where it has to be read here after all.
    pub(crate) end: &'r mut dyn FnMut() -> Option<Place>,
}
