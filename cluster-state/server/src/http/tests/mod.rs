//! The router over a real handle, whose questions are answered by a loop around a real cell.

mod control;
mod documents;
mod endpoints;
mod hostile;
mod questions;
mod queues;
mod rollout;
mod streams;
mod world;

use axum::http::StatusCode;
use world::World;

#[tokio::test]
async fn every_route_of_the_table_is_in_the_openapi_document_and_answered() {
    let world = World::new();
    let (status, document) = world.get("/v1/openapi.json").await;
    assert_eq!(status, StatusCode::OK);
    for (route, _) in super::routes::table() {
        for operation in route.operations {
            let described = &document["paths"][route.path][operation.method];
            assert_eq!(described["summary"], operation.summary, "{} {}", operation.method, route.path);
            if !operation.answer.is_empty() {
                assert!(document["components"]["schemas"][operation.answer].is_object(), "{}", operation.answer);
            }
            let path = route.path.replace("{name}", "nobody");
            let path = if path.ends_with("/logs") { format!("{path}?task=0") } else { path };
            let (_, answer) = world.send(&operation.method.to_uppercase(), &path, "application/json", b"").await;
            let code = answer["error"]["code"].as_str().unwrap_or_default();
            assert!(!["no_such_path", "no_such_method"].contains(&code), "{} {path}: {answer}", operation.method);
        }
    }
}

#[tokio::test]
async fn it_lives_beside_another_router() {
    let world = World::new();
    let beside = axum::Router::new().route("/ohm.v1.Cell/Append", axum::routing::post(|| async { "rpc" }));
    let app = beside.merge(world.router.clone());
    let request = axum::http::Request::post("/ohm.v1.Cell/Append").body(axum::body::Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(app, request).await.unwrap();
    // The guard is for people's routes only; other roles have their own.
    assert_eq!(response.status(), StatusCode::OK);
}
