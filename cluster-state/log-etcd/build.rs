//! Tells the tests whether there is an etcd to run against.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(etcd_installed)");
    println!("cargo::rerun-if-env-changed=PATH");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = false;
    for folder in std::env::split_paths(&path) {
        let program = folder.join("etcd");
        println!("cargo::rerun-if-changed={}", program.display());
        found = found || program.is_file();
    }
    if found {
        println!("cargo::rustc-cfg=etcd_installed");
    }
}
