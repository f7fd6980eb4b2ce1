//! Registers that callers on the other end of a pipe add to, read and swap.

use std::io::BufRead as _;

use serde::{Deserialize, Serialize};
use steadfast_core::{Handle, Object, Objects, Result, Turn};
use tokio::sync::mpsc;

use crate::say;

pub(crate) struct Register;

#[derive(Serialize, Deserialize)]
pub(crate) struct Add(i64);
#[derive(Serialize, Deserialize)]
pub(crate) struct Read;
#[derive(Serialize, Deserialize)]
pub(crate) struct Cas(i64, i64);

impl Object for Register {
    const CLASS: &'static str = "register";
    type Calls = (Add, Read, Cas);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE value (n INTEGER NOT NULL) STRICT; INSERT INTO value VALUES (0)"];
}

impl Handle<Add> for Register {
    const NAME: &'static str = "add";
    type Reply = i64;
    fn handle(&self, turn: &Turn<Self>, Add(by): Add) -> Result<i64> {
        let mut add = turn.sql().prepare_cached("UPDATE value SET n = n + ?1 RETURNING n")?;
        Ok(add.query_row([by], |row| row.get(0))?)
    }
}

impl Handle<Read> for Register {
    const NAME: &'static str = "read";
    type Reply = i64;
    fn handle(&self, turn: &Turn<Self>, _: Read) -> Result<i64> {
        let mut read = turn.sql().prepare_cached("SELECT n FROM value")?;
        Ok(read.query_row((), |row| row.get(0))?)
    }
}

impl Handle<Cas> for Register {
    const NAME: &'static str = "cas";
    /// Whether it was the expected value.
    type Reply = bool;
    fn handle(&self, turn: &Turn<Self>, Cas(expected, new): Cas) -> Result<bool> {
        let mut swap = turn.sql().prepare_cached("UPDATE value SET n = ?2 WHERE n = ?1")?;
        Ok(swap.execute([expected, new])? == 1)
    }
}

/// Makes every incoming call, all concurrently: a line is `CALL REGISTER KEY MESSAGE BODY`, a key
/// of `-` is none. The answer is `CALL REPLY`.
pub(crate) async fn serve(objects: &Objects) {
    let (sender, mut lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let stdin = std::io::stdin().lock().lines();
        stdin.map_while(Result::ok).all(|line| sender.send(line).is_ok())
    });
    while let Some(line) = lines.recv().await {
        let objects = objects.clone();
        tokio::spawn(async move {
            let words: Vec<&str> = line.splitn(5, ' ').collect();
            let [call, register, key, message, body] = words[..] else { panic!("line {line}") };
            let key = (key != "-").then_some(key);
            match objects.call_json(Register::CLASS, register, message, body, key).await {
                Ok(reply) => say(&format!("{call} {reply}")),
                Err(error) => say(&format!("failed {call} {}: {error}", error.code())),
            }
        });
    }
}
