//! Routes in the words of OpenAPI, for the document of whoever serves them.

use serde_json::{Map, Value, json};

/// Path, method, what it does, and what it answers when all is well.
pub type Route = (&'static str, &'static str, &'static str, &'static str);

/// The `paths` of an OpenAPI document.
pub fn describe(tag: &str, routes: &[Route]) -> Map<String, Value> {
    let mut paths = Map::new();
    for (path, method, summary, status) in routes {
        let names = path.split('{').skip(1).filter_map(|it| it.split_once('}')).map(|it| it.0);
        let text = json!({ "type": "string" });
        let parameter = |it| json!({ "name": it, "in": "path", "required": true, "schema": text });
        let parameters: Vec<Value> = names.map(parameter).collect();
        let entry = paths.entry(*path).or_insert_with(|| json!({}));
        entry[*method] = json!({
            "tags": [tag],
            "summary": summary,
            "parameters": parameters,
            "responses": { *status: { "description": "It is done" } },
        });
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_one_path_stand_together_and_its_parts_are_parameters() {
        let routes = [("/a/{b}/{c}", "get", "Shows", "200"), ("/a/{b}/{c}", "put", "Sets", "204")];
        let paths = describe("tag", &routes);
        assert_eq!(paths.len(), 1);
        let both = &paths["/a/{b}/{c}"];
        assert_eq!(both["get"]["parameters"][1]["name"], "c");
        assert_eq!(both["put"]["responses"]["204"]["description"], "It is done");
    }
}
