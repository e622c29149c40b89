//! Who is asked.

use crate::client::Client;
use crate::output::Output;

/// Who is asked, and how the answer is printed.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) output: Output,
}
