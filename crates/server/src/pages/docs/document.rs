//! Reads the OpenAPI document.

use std::collections::BTreeSet;

use serde_json::Value;
use steadfast_api::Code;

use super::schema::{Document, Field};
use crate::operation::ERROR_CODES;

/// Methods in the order of the page.
const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];

/// One operation.
pub(super) struct Endpoint<'a> {
    /// In upper case.
    pub(super) method: String,
    pub(super) path: &'a str,
    pub(super) operation: &'a Value,
}

/// A successful response of an operation.
pub(super) struct Answer<'a> {
    pub(super) status: &'a str,
    pub(super) about: Option<&'a str>,
    /// The content type and the schema.
    pub(super) content: Option<(&'a str, &'a Value)>,
}

impl Document {
    fn all(&self) -> impl Iterator<Item = Endpoint<'_>> {
        let paths = self.0["paths"].as_object().into_iter().flatten();
        paths.flat_map(|(path, item)| {
            METHODS.iter().filter_map(move |method| {
                let operation = item.get(method)?;
                Some(Endpoint { method: method.to_uppercase(), path, operation })
            })
        })
    }

    /// The nouns, in the order of their names.
    pub(super) fn nouns(&self) -> BTreeSet<&str> {
        self.all().map(|it| it.noun()).collect()
    }

    /// The operations of a noun, in the order of their paths.
    pub(super) fn endpoints(&self, noun: &str) -> Vec<Endpoint<'_>> {
        self.all().filter(|it| it.noun() == noun).collect()
    }
}

impl<'a> Endpoint<'a> {
    fn noun(&self) -> &'a str {
        self.operation["tags"][0].as_str().unwrap_or("other")
    }

    /// The anchor of its section.
    pub(super) fn anchor(&self) -> String {
        let path = self.path.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
        format!("{}{path}", self.method.to_lowercase())
    }

    pub(super) fn summary(&self) -> &'a str {
        self.operation["summary"].as_str().unwrap_or_default()
    }

    /// The paragraphs below the summary.
    pub(super) fn description(&self) -> impl Iterator<Item = &'a str> {
        let text = self.operation["description"].as_str().unwrap_or_default();
        text.split("\n\n").filter(|it| !it.is_empty())
    }

    /// The required role.
    pub(super) fn needs(&self) -> &'a str {
        self.operation["x-needs-role"].as_str().unwrap_or("not declared")
    }

    /// The parameters of path, query and headers.
    pub(super) fn parameters(&self, document: &'a Document) -> Vec<Field<'a>> {
        let parameters = self.operation["parameters"].as_array().into_iter().flatten();
        let field = |it: &'a Value| Field {
            name: it["name"].as_str().unwrap_or_default().to_owned(),
            location: it["in"].as_str(),
            kind: document.kind(&it["schema"]),
            is_required: it["required"] == true,
            about: about(it).or(about(&it["schema"])).unwrap_or_default(),
        };
        parameters.map(field).collect()
    }

    /// The content type and the schema of the body.
    pub(super) fn body(&self) -> Option<(&'a str, &'a Value)> {
        content(&self.operation["requestBody"])
    }

    /// The successful responses.
    pub(super) fn answers(&self) -> Vec<Answer<'a>> {
        let answers = self.operation["responses"].as_object().into_iter().flatten();
        let good = answers.filter(|(status, _)| status.starts_with(['1', '2']));
        good.map(|(status, it)| {
            let about = about(it).filter(|it| !it.is_empty() && *it != "Success");
            Answer { status, about, content: content(it) }
        })
        .collect()
    }

    /// The codes of its errors, if it declares them. Every operation may also fail with
    /// [`Code::GENERAL`].
    pub(super) fn codes(&self) -> Option<Vec<Code>> {
        let tags = self.operation[ERROR_CODES].as_array()?.iter().filter_map(Value::as_str);
        Some(tags.filter_map(Code::of_tag).collect())
    }

    fn takes_key(&self) -> bool {
        let parameters = self.operation["parameters"].as_array();
        parameters.into_iter().flatten().any(|it| it["name"] == "Idempotency-Key")
    }

    /// A command that sends the request.
    pub(super) fn curl(&self, document: &Document, base: &str) -> String {
        let path = self.path.split('/').map(|part| {
            match part.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
                Some(name) => name.to_uppercase(),
                None => part.to_owned(),
            }
        });
        let path = path.collect::<Vec<_>>().join("/");
        let mut lines = vec![match &*self.method {
            "GET" => format!("curl {base}{path}"),
            "HEAD" => format!("curl --head {base}{path}"),
            method => format!("curl -X {method} {base}{path}"),
        }];
        if self.takes_key() {
            lines.push("-H 'Idempotency-Key: KEY'".into());
        }
        match self.body() {
            Some(("application/json", schema)) => {
                lines.push("-H 'Content-Type: application/json'".into());
                lines.push(format!("-d '{}'", document.sample(schema)));
            }
            Some(_) => lines.push("--data-binary @FILE".into()),
            None => {}
        }
        lines.join(" \\\n  ")
    }
}

fn about(value: &Value) -> Option<&str> {
    value["description"].as_str()
}

/// The first content type and its schema.
fn content(value: &Value) -> Option<(&str, &Value)> {
    let (kind, content) = value["content"].as_object()?.iter().next()?;
    Some((kind, &content["schema"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Document {
        Document(json!({
            "paths": { "/v1/queues/{queue}/messages": { "post": {
                "tags": ["queues"],
                "summary": "Send messages",
                "x-needs-role": "member",
                "x-error-codes": ["queue_not_found", "key_reused"],
                "parameters": [
                    { "name": "queue", "in": "path", "required": true, "schema": {
                        "type": "string" } },
                    { "name": "Idempotency-Key", "in": "header", "schema": { "type": "string" } },
                ],
                "requestBody": { "content": { "application/json": { "schema": {
                    "$ref": "#/components/schemas/Send" } } } },
                "responses": {
                    "201": { "description": "Success", "content": { "application/json": {
                        "schema": { "$ref": "#/components/schemas/Sent" } } } },
                    "default": { "description": "An error" },
                },
            } } },
            "components": { "schemas": {
                "Send": { "type": "object", "required": ["body"], "properties": {
                    "body": { "type": "string", "description": "Message text" },
                    "more": { "type": "array", "items": { "$ref": "#/components/schemas/Sent" } },
                    "rows": { "type": "array", "items": { "type": "object", "properties": {
                        "id": { "type": ["integer", "null"] } } } },
                } },
                "Sent": { "type": "object", "properties": {
                    "state": { "$ref": "#/components/schemas/State" } } },
                "State": { "type": "string", "enum": ["waiting", "done"] },
            } },
        }))
    }

    #[test]
    fn an_operation_has_its_fields_its_errors_and_a_command() {
        let document = document();
        assert_eq!(document.nouns(), BTreeSet::from(["queues"]));
        let endpoints = document.endpoints("queues");
        let [it] = &endpoints[..] else { panic!("one operation") };
        let fields = document.fields(it.body().unwrap().1);
        let shown: Vec<String> = fields
            .iter()
            .map(|it| format!("{} {} {}", it.name, it.kind.text(), it.is_required))
            .collect();
        assert_eq!(
            shown,
            [
                "body string true",
                "more array of Sent false",
                "rows array of object false",
                "rows[].id integer or null false",
            ]
        );
        assert_eq!(it.codes(), Some(vec![Code::QueueNotFound, Code::KeyReused]));
        let curl = it.curl(&document, "http://h");
        assert!(curl.starts_with("curl -X POST http://h/v1/queues/QUEUE/messages \\\n"), "{curl}");
        assert!(curl.ends_with("-d '{\"body\":\"text\"}'"), "{curl}");
        assert_eq!(it.answers()[0].status, "201");
    }

    #[test]
    fn types_are_found_through_other_types() {
        let document = document();
        let endpoints = document.endpoints("queues");
        let names = document.referenced(endpoints.iter().map(|it| it.operation));
        assert_eq!(names, BTreeSet::from(["Send", "Sent", "State"]));
        let values = document.values(document.schema("State"));
        assert_eq!(values, Some(vec!["waiting", "done"]));
    }
}
