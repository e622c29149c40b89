//! Every example at the root of the repository is well-formed and means what its comments say.

use ohm_manifest::{Content, parse};
use ohm_model::{Class, HostPort, JobSpec, TopologyMode};
use std::path::PathBuf;

fn jobs() -> Vec<JobSpec> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut jobs = Vec::new();
    for file in files {
        for verdict in parse(&file.to_string_lossy(), &std::fs::read(&file).unwrap()) {
            match verdict.unwrap_or_else(|error| panic!("{error}")).content {
                Content::Job(job) => jobs.push(*job),
                Content::Queue(_) | Content::Subqueue(_) | Content::ResourceFlavor(_) => {}
                Content::ProvisioningClass(_) | Content::SchedulingProfile(_) | Content::Budget(_) => {}
                other => panic!("{}: neither a job nor what one waits for: {other:?}", file.display()),
            }
        }
    }
    jobs
}

#[test]
fn the_examples_are_what_they_say() {
    let jobs = jobs();
    let job = |name: &str| jobs.iter().find(|job| job.name == name).unwrap();
    let shape = |name: &str| {
        let job = job(name);
        let group = &job.groups[0];
        (job.class, group.count, group.min_count, group.elastic)
    };
    assert_eq!(shape("array"), (Class::BATCH, 20, 1, true));
    assert_eq!(shape("gang"), (Class::BATCH, 4, 4, false));
    assert_eq!(shape("web"), (Class::SERVICE, 2, 1, true));
    assert_eq!(shape("training"), (Class::TAS, 4, 4, false));
    assert_eq!(job("training").groups[0].topology.mode, TopologyMode::Required);
    assert_eq!(job("training").groups[0].max_per_node, 2);
    assert_eq!(
        (job("web").groups[0].ports.as_slice(), job("web").groups[0].max_per_node),
        (&[HostPort::tcp(8080)][..], 1)
    );
    let fits_a_virtual_node = |job: &&JobSpec| job.groups.iter().all(|group| group.requests["cpu"] <= 20);
    let mut too_large: Vec<&str> =
        jobs.iter().filter(|job| !fits_a_virtual_node(job)).map(|job| job.name.as_str()).collect();
    too_large.sort_unstable();
    assert_eq!(too_large, ["crunch", "too-big", "train"], "crunch and train wait for nodes of their own");
    assert!(jobs.iter().all(|job| job.groups.iter().all(|group| !group.task.command.is_empty())));
}
