//! What each built-in class does with its jobs.

mod batch;
mod service;
mod tas;
