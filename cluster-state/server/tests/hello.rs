//! A server with its port and its disk, and somebody who says where other servers listen.

use crate::duty::World;
use ohm_wire::{IdentifyRequest, ServerHello, ServerWord, server_word};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

/// Says hello on a stream of its own, which is open as long as what this gives.
async fn say(world: &World, cell: u64, server: u64, address: &str) -> mpsc::Sender<ServerWord> {
    let (words, stream) = mpsc::channel(4);
    let hello = ServerHello { cell, server, address: address.into() };
    words.send(ServerWord { kind: Some(server_word::Kind::Hello(hello)) }).await.unwrap();
    let mut client = world.client.clone();
    tokio::spawn(async move { client.between(ReceiverStream::new(stream)).await });
    words
}

fn book(world: &World) -> String {
    std::fs::read_to_string(world.folder.path().join("servers")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_believed_once_its_server_has_answered_there() {
    let mut world = World::new().await;
    let found = world.client.identify(IdentifyRequest {}).await.unwrap().into_inner();
    let (cell, here) = (found.cell, world.address.clone());
    let alias = here.replace("127.0.0.1", "localhost");
    let mut said = Vec::new();
    for (server, address) in [
        (2, "http://127.0.0.1:1"),
        (3, here.as_str()),
        (found.server, "http://127.0.0.1:1"),
        (4, "http://127.0.0.1:6460/\u{1b}[2J"),
    ] {
        said.push(say(&world, cell, server, address).await);
    }
    // Long enough for any of them to be noted; what is said last is true and shows that words are heard.
    tokio::time::sleep(Duration::from_secs(1)).await;
    said.push(say(&world, cell, found.server, &alias).await);
    for _ in 0..600 {
        if book(&world).contains(&alias) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(book(&world), format!("{} {alias}\n", found.server));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_joins_with_an_address_that_is_none() {
    let mut world = World::new().await;
    for address in ["", "three:6460", "http://", "http://three:6460\n", "http://\u{1b}[2J"] {
        let request = ohm_wire::JoinRequest { address: address.into(), key: 9, ..Default::default() };
        let refused = world.client.join(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{address:?}: {refused}");
    }
}
