//! How long a file takes to read: `cargo run --release -p ohm-manifest --example load -- FILE`.

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("a readable file");
        let start = std::time::Instant::now();
        let verdicts = ohm_manifest::parse(&path, &bytes);
        let bad = verdicts.iter().filter(|verdict| verdict.is_err()).count();
        println!("{path}: {} documents, {bad} broken, {} bytes, {:?}", verdicts.len(), bytes.len(), start.elapsed());
    }
}
