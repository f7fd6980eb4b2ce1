//! Fields and types of the schemas of an OpenAPI document.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Maximum depth of nested schemas. Deeper ones are shown by name only.
const DEPTH_MAX: usize = 4;

/// The OpenAPI document.
pub(super) struct Document(pub(super) Value);

/// A field or a parameter.
pub(super) struct Field<'a> {
    /// Name with the enclosing fields: `items[].name`.
    pub(super) name: String,
    /// `path`, `query` or `header`; `None` for the body.
    pub(super) location: Option<&'a str>,
    pub(super) kind: Kind<'a>,
    pub(super) is_required: bool,
    pub(super) about: &'a str,
}

/// A type for people: `array of Message or null`.
pub(super) struct Kind<'a> {
    pub(super) before: String,
    /// A named type, which has its own section.
    pub(super) reference: Option<&'a str>,
    pub(super) after: &'static str,
}

impl Kind<'_> {
    fn plain(text: impl Into<String>) -> Self {
        Self { before: text.into(), reference: None, after: "" }
    }

    /// The type without links.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        format!("{}{}{}", self.before, self.reference.unwrap_or_default(), self.after)
    }
}

impl Document {
    /// The schema of this name.
    pub(super) fn schema(&self, name: &str) -> &Value {
        &self.0["components"]["schemas"][name]
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        reference(schema).map_or(schema, |name| self.schema(name))
    }

    /// The type of a schema.
    pub(super) fn kind<'a>(&'a self, schema: &'a Value) -> Kind<'a> {
        if let Some(name) = reference(schema) {
            return Kind { before: String::new(), reference: Some(name), after: "" };
        }
        let of = |it: &'a Value| self.kind(it);
        for several in ["oneOf", "anyOf", "allOf"] {
            let Some(all) = schema[several].as_array() else { continue };
            let is_null = |it: &&Value| it["type"] == "null";
            let others: Vec<&Value> = all.iter().filter(|it| !is_null(it)).collect();
            let [one] = others[..] else { return Kind::plain("one of several types") };
            let after = if others.len() < all.len() { " or null" } else { "" };
            return Kind { after, ..of(one) };
        }
        let (name, is_nullable) = match &schema["type"] {
            Value::String(name) => (name.as_str(), false),
            Value::Array(names) => {
                let name = names.iter().filter_map(Value::as_str).find(|it| *it != "null");
                (name.unwrap_or("any JSON"), names.iter().any(|it| it == "null"))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                ("any JSON", false)
            }
        };
        let after = if is_nullable { " or null" } else { "" };
        match name {
            "array" => {
                let item = of(&schema["items"]);
                Kind { before: format!("array of {}", item.before), after, ..item }
            }
            name => Kind { after, ..Kind::plain(name) },
        }
    }

    /// The fields of an object, including those of unnamed objects within it.
    pub(super) fn fields<'a>(&'a self, schema: &'a Value) -> Vec<Field<'a>> {
        let mut found = Vec::new();
        self.add_fields(schema, "", 0, &mut found);
        found
    }

    fn add_fields<'a>(
        &'a self,
        schema: &'a Value,
        within: &str,
        depth: usize,
        found: &mut Vec<Field<'a>>,
    ) {
        if DEPTH_MAX < depth {
            return;
        }
        let schema = self.resolved(schema);
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.add_fields(part, within, depth + 1, found);
        }
        let required = schema["required"].as_array();
        let is_required = |name: &str| required.is_some_and(|it| it.iter().any(|it| it == name));
        for (name, it) in schema["properties"].as_object().into_iter().flatten() {
            found.push(Field {
                name: format!("{within}{name}"),
                location: None,
                kind: self.kind(it),
                is_required: is_required(name),
                about: it["description"].as_str().unwrap_or_default(),
            });
            if it["items"]["properties"].is_object() {
                self.add_fields(&it["items"], &format!("{within}{name}[]."), depth + 1, found);
            } else if it["properties"].is_object() {
                self.add_fields(it, &format!("{within}{name}."), depth + 1, found);
            }
        }
    }

    /// The values of an enumeration.
    pub(super) fn values<'a>(&self, schema: &'a Value) -> Option<Vec<&'a str>> {
        let values = schema["enum"].as_array()?;
        Some(values.iter().filter_map(Value::as_str).collect())
    }

    /// The names of the types that these schemas refer to, directly or indirectly.
    pub(super) fn referenced<'a>(
        &'a self,
        values: impl Iterator<Item = &'a Value>,
    ) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&'a Value> = values.collect();
        while let Some(value) = open.pop() {
            if let Some(name) = reference(value)
                && found.insert(name)
            {
                open.push(self.schema(name));
            }
            match value {
                Value::Object(fields) => open.extend(fields.values()),
                Value::Array(items) => open.extend(items),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        found
    }

    /// The smallest value of a type: only required fields.
    pub(super) fn sample(&self, schema: &Value) -> Value {
        self.sample_within(schema, 0)
    }

    fn sample_within(&self, schema: &Value, depth: usize) -> Value {
        let schema = self.resolved(schema);
        if DEPTH_MAX < depth {
            return Value::Null;
        }
        if let Some(value) = ["example", "default"].iter().find_map(|it| schema.get(it)) {
            return value.clone();
        }
        if let Some(value) = schema["enum"].as_array().and_then(|it| it.first()) {
            return value.clone();
        }
        for several in ["oneOf", "anyOf"] {
            if let Some(first) = schema[several].as_array().and_then(|it| it.first()) {
                return self.sample_within(first, depth + 1);
            }
        }
        let several = schema["type"].as_array();
        let is = |name: &str| {
            schema["type"] == name || several.is_some_and(|it| it.iter().any(|it| it == name))
        };
        if is("object") || schema["allOf"].is_array() {
            return Value::Object(self.sample_fields(schema, depth));
        }
        match ["string", "integer", "number", "boolean", "array"].into_iter().find(|it| is(it)) {
            Some("string") => json!("text"),
            Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
            Some("boolean") => json!(true),
            Some("array") => json!([self.sample_within(&schema["items"], depth + 1)]),
            Some(_) | None => json!({}),
        }
    }

    fn sample_fields(&self, schema: &Value, depth: usize) -> Map<String, Value> {
        let mut fields = Map::new();
        for part in schema["allOf"].as_array().into_iter().flatten() {
            if let Value::Object(part) = self.sample_within(part, depth + 1) {
                fields.extend(part);
            }
        }
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            let value = self.sample_within(&schema["properties"][name], depth + 1);
            fields.insert(name.to_owned(), value);
        }
        fields
    }
}

/// The name of the type that a schema refers to.
fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}
