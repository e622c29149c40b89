//! Who is asked.

use crate::client::Client;
use crate::globals::Globals;
use crate::output::Output;
use ohm_model::{NAMESPACE_DEFAULT, job_name, split_job_name};

/// Who is asked, about jobs of which namespace, and how the answer is printed.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) output: Output,
    pub(crate) namespace: String,
}

impl Session {
    /// Asks `client` as `globals` say.
    pub(crate) fn new(client: Client, globals: &Globals) -> Self {
        let namespace = globals.namespace.clone().unwrap_or_else(|| NAMESPACE_DEFAULT.to_string());
        Session { client, output: Output::new(globals), namespace }
    }

    /// The name by which the job is known that a person calls `name`: of the namespace that was named, unless the name
    /// says another one.
    pub(crate) fn job(&self, name: &str) -> String {
        let (namespace, short) = split_job_name(name);
        let namespace = if name.contains('/') { namespace } else { &self.namespace };
        job_name(namespace, short)
    }

    /// The same for several jobs.
    pub(crate) fn jobs(&self, names: &[String]) -> Vec<String> {
        names.iter().map(|name| self.job(name)).collect()
    }
}
