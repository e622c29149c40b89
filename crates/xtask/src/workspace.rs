//! The members of the workspace and what they depend on, from `cargo metadata`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

/// The workspace as cargo sees it.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// Its root folder.
    pub(crate) root: PathBuf,
    /// Its packages, sorted by name.
    pub(crate) members: Vec<Member>,
}

/// One package of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The name of the package.
    pub(crate) name: String,
    /// Its folder from the root of the workspace, with forward slashes.
    pub(crate) folder: String,
    /// What it depends on.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One declared dependency.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    /// The name of the package depended on.
    pub(crate) name: String,
    /// Whether it is a package of this workspace.
    pub(crate) internal: bool,
    /// Whether only tests, benches and examples see it.
    pub(crate) for_tests: bool,
}

impl Workspace {
    /// Asks cargo; `--no-deps` keeps this quick and off the network.
    pub(crate) fn load() -> Result<Self> {
        let metadata = MetadataCommand::new().no_deps().exec().context("cargo metadata failed")?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let mut members = Vec::new();
        for package in metadata.workspace_packages() {
            let folder = package.manifest_path.parent().context("a manifest without a folder")?;
            let folder = folder.strip_prefix(&metadata.workspace_root).context("a member outside the workspace")?;
            let dependencies = package.dependencies.iter().map(|dependency| Dependency {
                name: dependency.name.clone(),
                internal: dependency.path.is_some(),
                for_tests: dependency.kind == DependencyKind::Development,
            });
            members.push(Member {
                name: package.name.to_string(),
                folder: folder.as_str().replace('\\', "/"),
                dependencies: dependencies.collect(),
            });
        }
        members.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(Self { root, members })
    }
}
