//! A job with another number of tasks.

use crate::job::{GroupSpec, JobSpec};

/// Why a job can't be scaled as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// Which group is not said.
    #[error("job \"{job}\" has several groups")]
    Several {
        /// The job.
        job: String,
        /// Its groups.
        groups: Vec<String>,
    },
    /// There is no such group.
    #[error("job \"{job}\" has no group \"{group}\"")]
    NoGroup {
        /// The job.
        job: String,
        /// What was asked for.
        group: String,
        /// Its groups.
        groups: Vec<String>,
    },
    /// The group may not stand with so few.
    #[error("{count} tasks are below the minimum of group \"{group}\": {min_count}")]
    BelowMinimum {
        /// The group.
        group: String,
        /// What was asked for.
        count: u32,
        /// The least it may have.
        min_count: u32,
    },
}

impl ScaleError {
    /// What to do instead.
    pub fn hint(&self) -> String {
        match self {
            ScaleError::Several { groups, .. } => format!("say which one to scale: {}", groups.join(", ")),
            ScaleError::NoGroup { groups, .. } => format!("it has: {}", groups.join(", ")),
            ScaleError::BelowMinimum { .. } => "change `minCount` with it: `ohm submit --update FILE`".into(),
        }
    }
}

impl JobSpec {
    /// The job with `count` tasks in the group, which may be left out when there is one only. The minimum of a group
    /// that starts whole is its count, and stays so.
    ///
    /// # Errors
    /// No such group, or one that may not have so few tasks.
    pub fn scaled(&self, group: Option<&str>, count: u32) -> Result<JobSpec, ScaleError> {
        let groups = || self.groups.iter().map(|group| group.name.clone()).collect();
        let at = match (group, self.groups.as_slice()) {
            (None, [_]) => 0,
            (None, _) => return Err(ScaleError::Several { job: self.name.clone(), groups: groups() }),
            (Some(name), all) => all
                .iter()
                .position(|group| group.name == name)
                .ok_or_else(|| ScaleError::NoGroup { job: self.name.clone(), group: name.into(), groups: groups() })?,
        };
        let GroupSpec { name, count: before, min_count, elastic, .. } = &self.groups[at];
        let is_whole = !elastic && min_count == before;
        if !is_whole && count > 0 && count < *min_count {
            return Err(ScaleError::BelowMinimum { group: name.clone(), count, min_count: *min_count });
        }
        let mut spec = self.clone();
        spec.groups[at].count = count;
        if is_whole {
            spec.groups[at].min_count = count;
        }
        Ok(spec)
    }
}
