//! Errors as the API says them.

use serde::{Deserialize, Serialize};

/// The body of every answer that is no success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// The error.
    pub error: ApiError,
}

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// One word for programs, such as `not_found`; it never changes its meaning.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
    /// What to do next, for people; possibly empty.
    #[serde(default)]
    pub hint: String,
}
