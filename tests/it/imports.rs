//! Files of a crate import each other in one direction, so that each can be understood with those
//! below it. So do the folders of a crate.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::tidy::{root, texts};

/// Crates in which a module and the modules inside of it still import each other.
const NESTED: &[&str] = &["drift", "generations", "server", "store", "uploads", "web"];

/// The path of a module in its crate.
type Module = Vec<String>;

#[derive(Default)]
struct Imports {
    files: BTreeSet<Module>,
    /// Paths as they are written, by file.
    paths: Vec<(Module, Vec<String>)>,
    /// Names that a module re-exports, and their origins; empty for another crate.
    exports: BTreeMap<(Module, String), Vec<String>>,
}

impl Imports {
    fn of(source: &Path) -> Self {
        let (mut found, mut imports) = (Vec::new(), Self::default());
        texts(source, &mut found);
        let code = |(path, text): (std::path::PathBuf, String)| {
            let path = path.strip_prefix(source).ok()?.with_extension("");
            let mut module: Module = path.iter().map(|it| it.to_string_lossy().into()).collect();
            module.pop_if(|it| ["lib", "main", "mod"].contains(&&**it));
            let is_test = module.iter().any(|it| ["tests", "model"].contains(&&**it));
            (!is_test).then(|| (module, without_tests(&text)))
        };
        let files: Vec<(Module, String)> = found.into_iter().filter_map(code).collect();
        imports.files = files.iter().map(|it| it.0.clone()).collect();
        for (module, text) in &files {
            imports.read(module, text);
        }
        imports
    }

    fn read(&mut self, module: &Module, text: &str) {
        let mut at = 0;
        while let Some(begin) = next_use(text, at) {
            let end = text[begin..].find(';').map_or(text.len(), |it| begin + it);
            let line = text[..begin].rfind('\n').map_or(0, |it| it + 1);
            let is_export = text[line..begin].contains("pub");
            let tree = &text[begin + 4..end];
            let mut paths = Vec::new();
            flatten(tree, &[], &mut paths);
            for path in paths {
                let name = path.last().cloned();
                let path = self.absolute(module, path);
                if let (true, Some(name)) = (is_export, name) {
                    self.exports.insert((module.clone(), name), path.clone());
                }
                self.paths.push((module.clone(), path));
            }
            at = end;
        }
        // Paths in the middle of code.
        let is_part = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
        for word in text.split(|it| !is_part(it)) {
            let begins = |it: &&str| word.starts_with(it) && !word.ends_with("::");
            if ["crate::", "super::", "self::"].iter().any(begins) {
                let path = word.split("::").map(str::to_owned).collect();
                let path = self.absolute(module, path);
                self.paths.push((module.clone(), path));
            }
        }
    }

    /// A path from the root of the crate; empty if it leads out of it.
    fn absolute(&self, module: &Module, path: Vec<String>) -> Vec<String> {
        let mut base = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => module.clone(),
            Some(child) if self.files.contains(&[&**module, &[child.to_owned()]].concat()) => {
                return [&**module, &path].concat();
            }
            Some(_) | None => return Vec::new(),
        };
        for part in path {
            match &*part {
                "super" => _ = base.pop(),
                "crate" | "self" => {}
                _ => base.push(part),
            }
        }
        base
    }

    /// The file that a path leads to, through re-exports as well; `None` for another crate.
    fn file(&self, path: &[String], depth: usize) -> Option<Module> {
        let is_file = |length: &usize| self.files.contains(&path[..*length]);
        let length = (0..=path.len()).take_while(is_file).last().unwrap_or_default();
        let module = path[..length].to_vec();
        let name = path.get(length).map(|it| (module.clone(), it.clone()));
        match name.and_then(|it| self.exports.get(&it)) {
            Some(from) if from.is_empty() => None,
            Some(from) if depth < 8 => {
                self.file(&[&**from, &path[length + 1..]].concat(), depth + 1)
            }
            Some(_) | None => Some(module),
        }
    }

    /// Files from which imports lead back to themselves.
    fn in_cycles(&self, may_nest: bool) -> BTreeSet<String> {
        let is_nested = |one: &Module, other: &Module| {
            may_nest && (one.starts_with(other) || other.starts_with(one))
        };
        self.cycles(|module, file| (!is_nested(&module, &file)).then_some((module, file)))
    }

    /// Folders from which imports lead back to themselves.
    fn folders_in_cycles(&self) -> BTreeSet<String> {
        self.cycles(|mut module, mut file| {
            module.truncate(1);
            file.truncate(1);
            (!module.is_empty() && !file.is_empty()).then_some((module, file))
        })
    }

    /// Finds the cycles of the arrows that `arrow` makes of a file and an imported one.
    fn cycles(
        &self,
        arrow: impl Fn(Module, Module) -> Option<(Module, Module)>,
    ) -> BTreeSet<String> {
        let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (module, path) in self.paths.iter().filter(|it| !it.1.is_empty()) {
            let arrow = self.file(path, 0).and_then(|file| arrow(module.clone(), file));
            if let Some((from, to)) = arrow.filter(|(from, to)| from != to) {
                edges.entry(from).or_default().insert(to);
            }
        }
        let leads_back = |from: &&Module| {
            let mut open: Vec<&Module> = edges[*from].iter().collect();
            let mut seen: BTreeSet<&Module> = open.iter().copied().collect();
            while let Some(module) = open.pop() {
                let next = edges.get(module).into_iter().flatten();
                open.extend(next.filter(|it| seen.insert(it)));
            }
            seen.contains(*from)
        };
        edges.keys().filter(leads_back).map(|it| it.join("/")).collect()
    }
}

/// The code in front of the tests of a file, without comments and the scopes of names.
fn without_tests(text: &str) -> String {
    let code = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        match code.split_once("pub(in ") {
            Some((before, rest)) => {
                format!("{before}{}", rest.split_once(')').map_or("", |it| it.1))
            }
            None => code.to_owned(),
        }
    };
    let lines: Vec<String> = text.lines().map(code).collect();
    let is_tests = |it: &[String]| it[0].trim() == "#[cfg(test)]" && it[1].ends_with('{');
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    lines[..end].join("\n")
}

/// Where the next `use` begins.
fn next_use(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let found = at + text[at..].find("use ")?;
        let line = text[..found].rfind('\n').map_or(0, |it| it + 1);
        let before = text[line..found].trim();
        if before.is_empty() || before == "pub" || before.starts_with("pub(") {
            return Some(found);
        }
        at = found + 4;
    }
}

/// The paths of a tree of names.
fn flatten(tree: &str, prefix: &[String], paths: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let (head, inside) = match tree.split_once('{') {
        Some((head, rest)) => (head, Some(rest.strip_suffix('}').unwrap_or(rest))),
        None => (tree.split_whitespace().next().unwrap_or_default(), None),
    };
    let names = head.split("::").map(str::trim).filter(|it| !it.is_empty());
    let path: Vec<String> = prefix.iter().cloned().chain(names.map(str::to_owned)).collect();
    let Some(inside) = inside else {
        if !tree.is_empty() {
            paths.push(path);
        }
        return;
    };
    let (mut depth, mut begin) = (0, 0);
    for (at, character) in inside.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                flatten(&inside[begin..at], &path, paths);
                begin = at + 1;
            }
            _ => {}
        }
    }
    flatten(&inside[begin..], &path, paths);
}

#[test]
fn files_of_a_crate_import_each_other_in_one_direction() {
    let mut complaints = Vec::new();
    let mut crates = Vec::new();
    for folder in ["crates", "apps"] {
        let all = fs::read_dir(root().join(folder)).expect("folder is readable");
        crates.extend(all.map(|it| it.expect("entry is readable").path()));
    }
    crates.sort();
    for path in crates {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (imports, may_nest) = (Imports::of(&path.join("src")), NESTED.contains(&&*name));
        let mut found = imports.in_cycles(may_nest);
        if !may_nest {
            found.extend(imports.folders_in_cycles());
        }
        complaints.extend(found.iter().map(|it| format!("{name}: {it}")));
    }
    assert!(complaints.is_empty(), "import cycles:\n{}", complaints.join("\n"));
}

#[test]
fn a_cycle_is_found_through_names_that_are_given_on_and_between_folders() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        fs::write(path, text).expect("it is written");
    };
    write("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use self::b::inner::Thing;\n");
    write("a.rs", "use crate::{\n    Thing as It,\n    c::{Other, More},\n};\n");
    write("b.rs", "pub(crate) mod inner;\nuse self::inner::Thing;\n");
    write("b/inner.rs", "use super::Outer;\nfn f() { crate::a::g() }\n");
    write("c.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::g;\n}\n");
    write("d.rs", "pub(in crate::d) mod one;\npub use rusqlite::Row;\n");
    write("d/one.rs", "use super::Row;\nuse crate::e::two::Two;\n");
    write("e.rs", "mod two;\nmod three;\n");
    write("e/two.rs", "struct Two;\n");
    write("e/three.rs", "use crate::d::one::One;\n");
    let imports = Imports::of(folder.path());
    assert_eq!(Vec::from_iter(imports.in_cycles(true)), ["a", "b/inner"]);
    assert_eq!(Vec::from_iter(imports.in_cycles(false)), ["a", "b", "b/inner"]);
    assert_eq!(Vec::from_iter(imports.folders_in_cycles()), ["a", "b", "d", "e"]);
}
