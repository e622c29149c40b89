//! Objects of Kubernetes that run: what is accepted reads back the same once written, and is what `ohm plan` plans.

use ohm_manifest::{Content, Dialect, Verdicts, parse, parse_files, to_yaml};
use ohm_model::{GroupSpec, JobSpec, TaskSpec};

/// The inputs of the text cases, with their file names.
fn inputs() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("cases/kubernetes.txt").split("=== ").skip(1).map(|case| {
        let (title, rest) = case.split_once('\n').unwrap();
        (title.split(':').next().unwrap(), rest.split_once("----\n").unwrap().0)
    })
}

fn planned(file_name: &str, text: &str) -> Verdicts {
    parse_files(Dialect::Kubernetes, &[(file_name, text.as_bytes())]).remove(0)
}

/// What bears on where the tasks of a job go, but for what a Job of one's own starts with and the ports that no host
/// has.
fn placing(job: &JobSpec) -> Vec<GroupSpec> {
    let groups = job.groups.iter().cloned();
    let bare = |group: GroupSpec| GroupSpec {
        min_count: group.count,
        elastic: false,
        ports: Vec::new(),
        task: TaskSpec::default(),
        ..group
    };
    groups.map(bare).collect()
}

#[test]
fn what_runs_reads_back_and_is_what_is_planned() {
    let mut jobs = 0;
    for (file_name, text) in inputs() {
        for (running, planned) in parse(file_name, text.as_bytes()).into_iter().zip(planned(file_name, text)) {
            let Ok(Content::Job(job)) = running.map(|document| document.content) else { continue };
            let written = to_yaml(&job).unwrap();
            let read = parse("job.yaml", written.as_bytes()).remove(0).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(read.content, Content::Job(job.clone()), "{written}");
            let Ok(Content::Job(planned)) = planned.map(|document| document.content) else { panic!("{text}") };
            assert_eq!((placing(&job), job.class, &job.labels), (placing(&planned), planned.class, &planned.labels));
            jobs += 1;
        }
    }
    assert!(jobs >= 7, "{jobs} jobs");
}

#[test]
fn what_only_a_container_has_is_planned_all_the_same() {
    let titles = ["tasks are programs of their node", "several containers", "a job set that is not one job"];
    let cases = include_str!("cases/kubernetes.txt");
    for title in titles {
        let (_, rest) = cases.split_once(&format!("=== f.yaml: {title}")).unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        let text = rest.split_once("----\n").unwrap().0;
        let first = text.split("---\n").next().unwrap();
        assert!(parse("f.yaml", first.as_bytes())[0].is_err(), "{title}");
        assert!(planned("f.yaml", first)[0].is_ok(), "{title}: {:?}", planned("f.yaml", first));
    }
}
