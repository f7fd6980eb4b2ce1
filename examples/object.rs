//! An object: an account with its own SQLite database. Each call is one transaction.
//!
//!     cargo run -p steadfast-examples --bin object -- --data data/object
//!     curl localhost:8787/v1/objects/account/ada/calls/deposit -d '{"cents": 500}'
//!     curl localhost:8787/v1/objects/account/ada/calls/withdraw -d '{"cents": 200}'

use serde::{Deserialize, Serialize};
use steadfast::prelude::*;

struct Account;

#[derive(Serialize, Deserialize)]
struct Deposit {
    cents: u32,
}

#[derive(Serialize, Deserialize)]
struct Withdraw {
    cents: u32,
}

impl Object for Account {
    const CLASS: &'static str = "account";
    type Calls = (Deposit, Withdraw);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE account (cents INTEGER NOT NULL); INSERT INTO account VALUES (0)"];
}

impl Handle<Deposit> for Account {
    const NAME: &'static str = "deposit";
    const PUBLIC: bool = true;
    type Reply = i64;
    fn handle(&self, turn: &Turn<Self>, msg: Deposit) -> Result<i64> {
        let add = "UPDATE account SET cents = cents + ?1 RETURNING cents";
        Ok(turn.sql().query_row(add, [msg.cents], |row| row.get(0))?)
    }
}

impl Handle<Withdraw> for Account {
    const NAME: &'static str = "withdraw";
    const PUBLIC: bool = true;
    type Reply = i64;
    fn handle(&self, turn: &Turn<Self>, msg: Withdraw) -> Result<i64> {
        let take = "UPDATE account SET cents = cents - ?1 RETURNING cents";
        let balance = turn.sql().query_row(take, [msg.cents], |row| row.get(0))?;
        if balance < 0 {
            // An error rolls the update back.
            return Err(Error::terminal("the balance is too low").with_code("balance_too_low"));
        }
        Ok(balance)
    }
}

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app() -> Result<App> {
    Ok(App::new("bank").object(Account))
}
