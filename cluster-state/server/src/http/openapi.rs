//! The OpenAPI document. Paths come from the table of routes; schemas from samples with every field filled in.

use super::routes::{Operation, Route};
use super::samples;
use serde_json::{Map, Value, json};

/// The document for `routes`.
pub(super) fn document<'r>(routes: impl Iterator<Item = &'r Route>) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let operations = route.operations.iter();
        let operations = operations.map(|operation| (operation.method.to_string(), describe(route.path, operation)));
        paths.insert(route.path.to_string(), Value::Object(operations.collect()));
    }
    let schemas = samples::all().into_iter().map(|(name, sample)| (name.to_string(), schema(&sample)));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ohm",
            "version": "v1",
            "description": "The public API of an Ohm cell. Amounts are Kubernetes quantities as text; times are \
                            milliseconds since 1970, 0 for not yet; fields that would be empty may be left out. Every \
                            answer names the log entry it has seen in the header Ohm-Index.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.collect::<Map<_, _>>(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn describe(path: &str, operation: &Operation) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    if path.contains("{name}") {
        parameters.push(json!({"name": "name", "in": "path", "required": true, "schema": {"type": "string"}}));
    }
    if operation.method != "get" {
        parameters.push(json!({"name": "Ohm-Owner", "in": "header", "description": "On whose behalf",
                               "schema": {"type": "string"}}));
    }
    for (name, kind, meaning) in operation.query {
        parameters.push(json!({"name": name, "in": "query", "description": meaning, "schema": {"type": kind}}));
    }
    let mut described = json!({
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {"default": answer("An error", "ErrorAnswer")},
    });
    let good = match operation.answer {
        "" => json!({"description": "Done"}),
        name => answer("Done", name),
    };
    described["responses"]["2XX"] = good;
    if operation.answer == "SubmitAnswer" {
        described["responses"]["422"] = answer("At least one document was refused", "SubmitAnswer");
        let document = json!({"schema": {"description": "Documents with `apiVersion: ohm/v1` and a `kind`"}});
        described["requestBody"] = json!({"required": true, "content": {
            "application/yaml": document, "application/json": document, "application/x-ndjson": document,
        }});
    }
    if operation.answer == "RolloutView" && operation.method == "post" {
        let actions = json!({"type": "string", "enum": ["pause", "resume", "promote", "undo"]});
        let properties = json!({"action": actions, "revision": {"type": "integer"}});
        let schema = json!({"type": "object", "required": ["action"], "properties": properties});
        described["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    described
}

fn answer(description: &str, schema: &str) -> Value {
    let reference = format!("#/components/schemas/{schema}");
    json!({"description": description, "content": {"application/json": {"schema": {"$ref": reference}}}})
}

/// The schema that `sample` shows.
fn schema(sample: &Value) -> Value {
    match sample {
        Value::Null => json!({}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(_) => json!({"type": "integer"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Array(items) => json!({"type": "array", "items": items.first().map_or(json!({}), schema)}),
        Value::Object(fields) => match fields.get(samples::ANY_KEY) {
            Some(value) => json!({"type": "object", "additionalProperties": schema(value)}),
            None => {
                let properties = fields.iter().map(|(name, value)| (name.clone(), schema(value)));
                json!({"type": "object", "properties": properties.collect::<Map<_, _>>()})
            }
        },
    }
}
