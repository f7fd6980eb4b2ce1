//! Random statements. Many of them fail, on purpose; the same ones on every database.

use crate::chance::Chance;

const TABLES: [&str; 4] = ["t0", "t1", "t2", "t3"];
const COLUMNS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The tables of most statements.
pub(crate) fn schema(chance: &mut Chance) -> Vec<String> {
    let mut all: Vec<String> = TABLES.iter().map(|table| create_table(chance, table)).collect();
    all.push("CREATE VIRTUAL TABLE f USING fts5(body)".into());
    all
}

pub(crate) fn statement(chance: &mut Chance) -> String {
    let table = chance.pick(&TABLES);
    match chance.below(26) {
        0 => create_table(chance, table),
        1 if chance.one_in(4) => format!("DROP TABLE {table}"),
        1..=3 => alter(chance, table),
        4 => index(chance, table),
        5 | 6 => trigger(chance, table),
        7..=12 => insert(chance, table),
        13 | 14 => update(chance, table),
        15 | 16 => delete(chance, table),
        17 => half_failing_insert(chance, table),
        18 | 19 => full_text(chance),
        20 => json(chance, table),
        21 => sort(chance, table),
        22 => upsert(chance, table),
        23 => format!("PRAGMA user_version = {}", chance.below(1000)),
        24 => "PRAGMA defer_foreign_keys = ON".into(),
        _ => blob(chance, table),
    }
}

/// An expression for the value in row `x`: nothing, short, longer than a page, or zeros.
fn value(chance: &mut Chance) -> String {
    let size = chance.below(400);
    match chance.below(9) {
        0 => "NULL".into(),
        1 => format!("x * {}", chance.below(100)),
        2..=5 => format!("'{}' || x", chance.pick(&["alpha beta", "gamma", "δ ε ζ", ""])),
        6 => format!("zeroblob({})", size * 30),
        7 => format!("replace(hex(zeroblob({size})), '00', char(65 + x % 26) || x)"),
        _ => format!("CAST(printf('%.{}c', char(97 + x % 26)) AS BLOB)", size * 20),
    }
}

fn create_table(chance: &mut Chance, table: &str) -> String {
    let parent = chance.pick(&TABLES);
    let rest = match chance.below(10) {
        0 => "UNIQUE (a)".into(),
        1 => "CHECK (a < 290)".into(),
        2 => format!("FOREIGN KEY (a) REFERENCES {parent} (id) ON DELETE CASCADE"),
        3 => format!("FOREIGN KEY (a) REFERENCES {parent} (id) DEFERRABLE INITIALLY DEFERRED"),
        _ => "CHECK (true)".into(),
    };
    let options = chance.pick(&["", "", "", "STRICT", "WITHOUT ROWID"]);
    format!(
        "DROP TABLE IF EXISTS {table}; CREATE TABLE {table} \
         (id INTEGER PRIMARY KEY, a INT, b ANY, c ANY, {rest}) {options}"
    )
}

fn alter(chance: &mut Chance, table: &str) -> String {
    let (from, to) = (chance.pick(&["d", "e"]), chance.pick(&["d", "e"]));
    match chance.below(5) {
        0 => format!("ALTER TABLE {table} RENAME COLUMN {from} TO {to}"),
        1 => format!("ALTER TABLE {table} DROP COLUMN {from}"),
        2 => format!("ALTER TABLE {table} RENAME TO u; ALTER TABLE u RENAME TO {table}"),
        _ => format!("ALTER TABLE {table} ADD COLUMN {to} ANY DEFAULT 'none'"),
    }
}

fn index(chance: &mut Chance, table: &str) -> String {
    let (name, column) = (chance.below(4), chance.pick(&COLUMNS));
    match chance.below(5) {
        0 => format!("DROP INDEX i{name}"),
        1 => format!("CREATE UNIQUE INDEX i{name} ON {table} ({column})"),
        2 => format!("CREATE INDEX i{name} ON {table} (length({column})) WHERE a > 10"),
        3 => format!("REINDEX {table}"),
        _ => format!("CREATE INDEX i{name} ON {table} ({column}, id)"),
    }
}

fn trigger(chance: &mut Chance, table: &str) -> String {
    let (name, other) = (chance.below(3), chance.pick(&TABLES));
    if chance.one_in(2) {
        return format!("DROP TRIGGER r{name}");
    }
    let body = match chance.below(5) {
        0 => "SELECT RAISE(ABORT, 'no') WHERE new.id % 11 = 5",
        1 => "SELECT RAISE(ROLLBACK, 'no') WHERE new.id % 13 = 7",
        2 => "SELECT RAISE(FAIL, 'no') WHERE new.id % 9 = 5",
        3 => "SELECT RAISE(IGNORE) WHERE new.id % 5 = 2",
        _ => &format!("INSERT OR IGNORE INTO {other} (id, a) VALUES (new.id + 1000, new.a)"),
    };
    let event = chance.pick(&["BEFORE INSERT", "AFTER INSERT", "AFTER UPDATE"]);
    format!("CREATE TRIGGER r{name} {event} ON {table} BEGIN {body}; END")
}

/// Rows `x` from 1 to a number.
fn counting(rows: usize) -> String {
    format!("WITH n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows})")
}

fn insert(chance: &mut Chance, table: &str) -> String {
    let rows = if chance.one_in(6) { 1 + chance.below(150) } else { 1 + chance.below(8) };
    let first = chance.below(400);
    let verb = chance.pick(&["INSERT", "INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"]);
    let a = chance.pick(&["x * 7 % 301", "x * 7 % 301", "NULL", "1 + x % 20"]);
    let (b, c) = (value(chance), value(chance));
    let columns = chance.pick(&["(id, a, b, c)", "(id, a, b, c)", "(id, a, c, b)"]);
    let columns = if chance.one_in(8) { "(id, a, d, b)" } else { columns };
    let numbers = counting(rows);
    format!("{verb} INTO {table} {columns} {numbers} SELECT x + {first}, {a}, {b}, {c} FROM n")
}

/// The last row of the statement violates a constraint, after the others have been written.
fn half_failing_insert(chance: &mut Chance, table: &str) -> String {
    let (rows, first) = (2 + chance.below(60), 2000 + chance.below(400));
    let verb = chance.pick(&["INSERT", "INSERT OR FAIL", "INSERT OR ROLLBACK", "INSERT OR ABORT"]);
    let id = format!("CASE x WHEN {rows} THEN {first} + 1 ELSE x + {first} END");
    let (b, numbers) = (value(chance), counting(rows));
    format!("{verb} INTO {table} (id, a, b) {numbers} SELECT {id}, x, {b} FROM n")
}

fn update(chance: &mut Chance, table: &str) -> String {
    let (column, divisor) = (chance.pick(&COLUMNS), 1 + chance.below(20));
    let value = value(chance).replace('x', "id").replace("heid", "hex");
    let verb = chance.pick(&["UPDATE", "UPDATE", "UPDATE OR IGNORE", "UPDATE OR REPLACE"]);
    match chance.below(4) {
        0 => format!("{verb} {table} SET id = id + {divisor} WHERE id % 3 = 0"),
        1 => format!("{verb} {table} SET a = a + 1"),
        _ => format!("{verb} {table} SET {column} = {value} WHERE id % {divisor} = 0"),
    }
}

fn delete(chance: &mut Chance, table: &str) -> String {
    match chance.below(12) {
        0 => format!("DELETE FROM {table}"),
        1 => format!("DELETE FROM {table} WHERE id > {}", chance.below(500)),
        _ => format!("DELETE FROM {table} WHERE id % {} = 1", 2 + chance.below(6)),
    }
}

fn full_text(chance: &mut Chance) -> String {
    let first = chance.below(100);
    match chance.below(8) {
        0 => "CREATE VIRTUAL TABLE f USING fts5(body)".into(),
        1 if chance.one_in(3) => "DROP TABLE f".into(),
        2 => "INSERT INTO f (f) VALUES ('optimize')".into(),
        3 => format!("DELETE FROM f WHERE rowid % 3 = {}", first % 3),
        4 => "DELETE FROM f WHERE f MATCH 'gamma'".into(),
        5 => format!("UPDATE f SET body = body || ' omega' WHERE rowid > {first}"),
        _ => {
            let (value, numbers) = (value(chance), counting(12));
            format!(
                "INSERT OR REPLACE INTO f (rowid, body) {numbers} \
                 SELECT x + {first}, {value} FROM n"
            )
        }
    }
}

fn json(chance: &mut Chance, table: &str) -> String {
    let size = chance.below(300);
    match chance.below(3) {
        0 => format!(
            "UPDATE {table} SET c = json_object('id', id, 'list', json_array(a, b IS NULL))"
        ),
        1 => format!("UPDATE {table} SET c = json_set(c, '$.at', {size}) WHERE json_valid(c)"),
        _ => format!(
            "INSERT OR REPLACE INTO {table} (id, b) SELECT key + 700, value || '{size}' \
             FROM json_each(printf('[1,2,%.*c1]', {size}, ' '))"
        ),
    }
}

/// More than the cache, so that SQLite sorts in temporary files.
fn sort(chance: &mut Chance, table: &str) -> String {
    let numbers = counting(4_000 + chance.below(2_000));
    format!(
        "INSERT OR REPLACE INTO {table} (id, b) SELECT 5000 + min(x), max(y) FROM \
         ({numbers} SELECT DISTINCT x, \
         printf('%.100c', char(65 + x % 26)) || (x * 7919 % 1009) AS y \
         FROM n ORDER BY y) GROUP BY x % 5"
    )
}

fn upsert(chance: &mut Chance, table: &str) -> String {
    let (numbers, first) = (counting(10), chance.below(300));
    format!(
        "INSERT INTO {table} (id, a) {numbers} SELECT x + {first}, x FROM n WHERE true \
         ON CONFLICT (id) DO UPDATE SET a = excluded.a + 1, b = NULL"
    )
}

fn blob(chance: &mut Chance, table: &str) -> String {
    let (id, size) = (chance.below(600), chance.below(60_000));
    match chance.below(3) {
        0 => format!("UPDATE {table} SET b = substr(b, 1, 100) WHERE length(b) > 4096"),
        1 => format!("UPDATE {table} SET b = b || b WHERE id % 50 = 0 AND length(b) < 5000"),
        _ => format!("INSERT OR REPLACE INTO {table} (id, b) VALUES ({id}, zeroblob({size}))"),
    }
}
