//! The way to a field while a document is read.

pub use ohm_model::path::{FieldPath, Step};

/// A path that is being walked: a list on the stack, written out only when there is something to report.
#[derive(Clone, Copy)]
pub(crate) enum Trail<'s> {
    Root,
    Field(&'s Trail<'s>, &'s str),
    Item(&'s Trail<'s>, usize),
}

impl Trail<'_> {
    pub(crate) fn to_path(self) -> FieldPath {
        let mut steps = Vec::new();
        let mut trail = self;
        loop {
            trail = match trail {
                Trail::Root => break,
                Trail::Field(above, name) => {
                    steps.push(Step::Field(name.to_string()));
                    *above
                }
                Trail::Item(above, index) => {
                    steps.push(Step::Item(index));
                    *above
                }
            };
        }
        steps.reverse();
        FieldPath(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_words_stand_in_brackets() {
        let (root, spec, groups, first);
        root = Trail::Root;
        spec = Trail::Field(&root, "spec");
        groups = Trail::Field(&spec, "groups");
        first = Trail::Item(&groups, 0);
        let requests = Trail::Field(&first, "requests");
        let path = Trail::Field(&requests, "nvidia.com/gpu").to_path();
        assert_eq!(path.to_string(), "spec.groups[0].requests[nvidia.com/gpu]");
        assert_eq!(
            path,
            FieldPath::root().field("spec").field("groups").item(0).field("requests").field("nvidia.com/gpu")
        );
    }
}
