//! Tells the tests whether there is an etcd to run against.
//!
//! PATH itself is watched only while there is none: cargo under cargo puts a folder before it, and each change builds
//! everything above this crate again. So does a watched file that does not exist.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(etcd_installed)");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<std::path::PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_dir()).collect();
    if let Some(program) = folders.iter().map(|folder| folder.join("etcd")).find(|program| program.is_file()) {
        println!("cargo::rerun-if-changed={}", program.display());
        println!("cargo::rustc-cfg=etcd_installed");
        return;
    }
    println!("cargo::rerun-if-env-changed=PATH");
    for folder in folders {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
}
