//! A cell that encrypts what it says: its roles and people get in with a certificate, and nobody else.

use ohm_runtime::ports::free_addresses;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const OHM: &str = env!("CARGO_BIN_EXE_ohm");
const SOON: Duration = Duration::from_secs(60);

/// A folder with certificates, and the processes started in it.
struct World {
    folder: tempfile::TempDir,
    server: String,
    roles: Vec<Child>,
}

impl Drop for World {
    fn drop(&mut self) {
        for role in &mut self.roles {
            let _ = role.kill();
            let _ = role.wait();
        }
    }
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_addresses(1).unwrap()[0].port();
        World { folder, server: format!("localhost:{port}"), roles: Vec::new() }
    }

    fn ohm(&self, words: &str) -> Command {
        let mut command = Command::new(OHM);
        command.current_dir(self.folder.path()).args(words.split_whitespace()).stdin(Stdio::null());
        for variable in ["OHM_TLS_CA", "OHM_TLS_CERT", "OHM_TLS_KEY", "OHM_TOKEN", "OHM_SERVER", "OHM_DATA_DIR"] {
            command.env_remove(variable);
        }
        command
    }

    /// The exit code, and everything that was said.
    fn ask(&self, words: &str) -> (i32, String) {
        let output = self.ohm(words).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
    }

    fn good(&self, words: &str) -> String {
        let (code, said) = self.ask(words);
        assert_eq!(code, 0, "{words}: {said}");
        said
    }

    /// Runs a role with the certificate of `name`.
    fn role(&mut self, words: &str, name: &str) {
        let words = format!("{words} {}", certificate(name));
        let log = std::fs::File::create(self.path(&format!("{}.log", self.roles.len()))).unwrap();
        let role = self.ohm(&words).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.roles.push(role);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn until(&self, words: &str, wanted: impl Fn(i32, &str) -> bool) {
        let started = Instant::now();
        loop {
            let (code, said) = self.ask(words);
            if wanted(code, &said) {
                return;
            }
            assert!(started.elapsed() < SOON, "{words}: {said}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn certificate(name: &str) -> String {
    format!("--tls-ca ohm-tls/ca.pem --tls-cert ohm-tls/{name}.pem --tls-key ohm-tls/{name}-key.pem")
}

#[test]
fn who_shows_a_certificate_gets_in_and_nobody_else() {
    let mut world = World::new();
    world.good("tls create server-1 --host localhost,127.0.0.1");
    world.good("tls create agents");
    world.good("tls create stranger --dir elsewhere");
    let (listen, url) = (world.server.replace("localhost", "127.0.0.1"), format!("https://{}", world.server));
    world.role(&format!("server --listen {listen} --advertise {url} --tls-client-auth"), "server-1");
    for role in ["scheduler --class batch", "health", "agent --sim 2"] {
        world.role(&format!("{role} --server {url}"), "agents");
    }
    let friend = certificate("agents");
    world.until(&format!("nodes --server {url} {friend} -o json"), |code, said| {
        code == 0 && said.matches("\"health\": \"ready\"").count() == 2
    });

    let (code, said) = world.ask(&format!("nodes --server {url} --tls-ca ohm-tls/ca.pem"));
    assert!(code == 3 && said.contains("lets nobody in who shows no certificate"), "{said}");
    let (code, said) =
        world.ask(&format!("nodes --server {url} {}", friend.replace("ohm-tls/agents", "elsewhere/stranger")));
    assert!(code == 3, "{said}");
    let (code, said) = world.ask(&format!("nodes --server {url}"));
    assert!(code == 3 && said.contains("--tls-ca"), "{said}");
    let (code, said) = world.ask(&format!("nodes --server http://{}", world.server));
    assert!(code == 3 && said.contains("https://"), "{said}");
    let (code, said) =
        world.ask(&format!("nodes --server {url} --tls-ca ohm-tls/ca.pem --tls-key ohm-tls/agents-key.pem"));
    assert!(code == 2 && said.contains("--tls-key was given without --tls-cert"), "{said}");

    // Another CA takes over while all is running: the servers' side is seen without a restart.
    std::fs::rename(world.path("ohm-tls"), world.path("old")).unwrap();
    world.good("tls create server-1 --host localhost,127.0.0.1");
    world.good("tls create agents");
    world.until(&format!("nodes --server {url} {friend} -o json"), |code, _| code == 0);
    let (code, said) = world.ask(&format!("nodes --server {url} {}", friend.replace("ohm-tls", "old")));
    assert!(code == 3, "{said}");
}

#[test]
fn an_address_that_others_reach_needs_a_certificate() {
    let world = World::new();
    let (code, said) = world.ask("server --listen 0.0.0.0:0");
    assert!(code == 1 && said.contains("ohm tls create"), "{said}");
    world.good("tls create server-1 --host localhost");
    let (code, said) = world.ask("tls create server-1 --host localhost");
    assert!(code == 1 && said.contains("--renew"), "{said}");
    world.good("tls create server-1 --host localhost --renew");
    let mixed = "--tls-cert ohm-tls/server-1.pem --tls-key ohm-tls/ca-key.pem";
    let (code, said) = world.ask(&format!("server --listen 0.0.0.0:0 {mixed}"));
    assert!(code == 1 && said.contains("can't be used"), "{said}");
}
