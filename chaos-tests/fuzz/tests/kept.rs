//! Every input that is kept runs as a plain test: the seeds, the corpora, and what once was a finding.

use std::fs;
use std::path::Path;

/// The files in a folder, by name; none where there is no folder.
fn inputs(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let files = entries.map(|entry| entry.expect("the folder can be listed").path());
    let mut inputs: Vec<_> =
        files.map(|file| (file.display().to_string(), fs::read(&file).expect("an input can be read"))).collect();
    inputs.sort();
    inputs
}

fn check(target: &str) {
    let target = ohm_fuzz::find(target).expect("a target");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = (target.seeds)().into_iter().enumerate().map(|(number, seed)| (format!("seed {number}"), seed));
    let kept = ["corpus", "found"].into_iter().flat_map(|kind| inputs(&root.join(kind).join(target.name)));
    let mut count = 0;
    for (name, input) in seeds.chain(kept) {
        let ran = std::panic::catch_unwind(|| (target.run)(&input));
        assert!(ran.is_ok(), "{}: {name}", target.name);
        count += 1;
    }
    assert!(count > 0, "{} has neither seeds nor a corpus", target.name);
}

macro_rules! kept {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            check(stringify!($target));
        })*

        #[test]
        fn every_target_is_here_and_every_folder_is_of_one() {
            let names: Vec<&str> = ohm_fuzz::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($target)),*]);
            for kind in ["corpus", "found"] {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind);
                for entry in fs::read_dir(folder).into_iter().flatten() {
                    let name = entry.expect("the folder can be listed").file_name().into_string().unwrap_or_default();
                    assert!(ohm_fuzz::find(&name).is_some(), "{kind}/{name}");
                }
            }
        }
    };
}

kept! { manifest plan http rpc wire commands snapshot wal words etcd journal }
