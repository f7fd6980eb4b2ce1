//! An auction house: an end that late bids extend, settlement, mail, photos, a nightly report.
//!
//!     cargo run -p steadfast-examples --bin auction -- --data data/auction
//!     curl localhost:8787/auctions/7 --json '{"title": "Clock", "seller": "sue", "minutes": 1}'
//!     curl localhost:8787/auctions/7/bids --json '{"bidder": "ann", "cents": 900}'
//!     printf tick > clock.jpg
//!     curl -T clock.jpg localhost:8787/v1/buckets/photos/objects/7/front.jpg
//!
//! After two minutes the auction has ended, and its settlement waits for the payment:
//!
//!     curl localhost:8787/v1/workflows/settlement/runs/7/events/payment -d '"R-1"'

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, time::Duration};

use axum::{Json, extract};
use serde::{Deserialize, Serialize};
use steadfast::{prelude::*, store::Timestamp};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

const MAIL: Queue<Mail> = Queue::named("mail");
const DEAD_MAIL: Queue<Mail> = Queue::named("mail-dead");
const OUTBOX: Bucket = Bucket::named("outbox");
const PHOTOS: Bucket = Bucket::named("photos");
const PHOTO_CHANGES: Queue<BlobEvent> = Queue::named("photo-changes");
const PAYMENT: Event<String> = Event::named("payment");
const PAYMENT_TIME: Duration = Duration::from_hours(3 * 24);
/// A bid this shortly before the end extends the auction, so that others have time to react.
const EXTENSION: Duration = Duration::from_mins(2);
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app() -> Result<App> {
    Ok(App::new("auctions")
        .object(Auction)
        .workflow(Settlement)
        .queue(MAIL.retries(10).dead_letters(DEAD_MAIL))
        .queue(DEAD_MAIL)
        .consume(MAIL, Postman)
        .bucket(OUTBOX)
        .bucket(PHOTOS.notify("", PHOTO_CHANGES))
        .queue(PHOTO_CHANGES)
        .consume(PHOTO_CHANGES, Photographer)
        .object(Report)
        .routes("/auctions", routes))
}

struct Auction;
#[derive(Clone, Debug, Serialize, Deserialize)]
struct View {
    title: String,
    seller: String,
    ends_at: i64,
    best: Option<Bid>,
    state: String,
    photos: BTreeSet<String>,
}
#[derive(Serialize, Deserialize, ToSchema)]
struct Open {
    title: String,
    seller: String,
    minutes: u64,
}
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
struct Bid {
    bidder: String,
    cents: u64,
}
#[derive(Serialize, Deserialize)]
struct Close;
#[derive(Serialize, Deserialize)]
struct Look;

impl Object for Auction {
    const CLASS: &'static str = "auction";
    type Calls = (Open, Bid, Close, Look, RunEnded<Settlement>, BlobEvent);
}

fn refuse<T>(code: &str, text: &str) -> Result<T> {
    Err(Error::terminal(text).with_code(code))
}

impl Handle<Open> for Auction {
    const NAME: &'static str = "open";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, Open { title, seller, minutes }: Open) -> Result<()> {
        if self.handle(turn, Look).is_ok() {
            return refuse("auction_exists", "there is an auction with this id");
        }
        let end = turn.now().after(Duration::from_mins(minutes));
        turn.set_alarm_at("end", end, Close);
        let (best, state, photos) = (None, "open".into(), BTreeSet::new());
        turn.kv().put("view", &View { title, seller, ends_at: end.0, best, state, photos })
    }
}

impl Handle<Look> for Auction {
    const NAME: &'static str = "look";
    type Reply = View;
    fn handle(&self, turn: &Turn<Self>, _: Look) -> Result<View> {
        let view = turn.kv().get("view")?;
        view.map_or_else(|| refuse("unknown_auction", "there is no auction with this id"), Ok)
    }
}

impl Handle<Bid> for Auction {
    const NAME: &'static str = "bid";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, bid: Bid) -> Result<()> {
        let mut view = self.handle(turn, Look)?;
        if view.state != "open" {
            return refuse("auction_over", "the auction is over");
        }
        if view.best.as_ref().is_some_and(|it| bid.cents <= it.cents) {
            return refuse("bid_too_low", "there is a higher bid");
        }
        if let Some(Bid { bidder, .. }) = view.best.replace(bid) {
            turn.send(MAIL, Mail { to: bidder, text: format!("outbid on {}", view.title) });
        }
        let end = turn.now().after(EXTENSION);
        if view.ends_at < end.0 {
            view.ends_at = end.0;
            turn.set_alarm_at("end", end, Close);
        }
        turn.kv().put("view", &view)
    }
}

impl Handle<Close> for Auction {
    const NAME: &'static str = "close";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Close) -> Result<()> {
        let mut view = self.handle(turn, Look)?;
        view.state = if view.best.is_some() { "settling".into() } else { "unsold".into() };
        if let Some(best) = view.best.clone() {
            turn.start(Settlement::at(turn.name()), (view.clone(), best)).on_end(turn.address());
        }
        turn.kv().put("view", &view)
    }
}

impl Handle<RunEnded<Settlement>> for Auction {
    const NAME: &'static str = "settled";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, ended: RunEnded<Settlement>) -> Result<()> {
        let mut view = self.handle(turn, Look)?;
        view.state = if ended.result.is_ok() { "sold".into() } else { "unpaid".into() };
        if let Ok(cents) = ended.result {
            turn.send(Report::at("house"), Sold(cents));
        }
        turn.kv().put("view", &view)
    }
}

impl Handle<BlobEvent> for Auction {
    const NAME: &'static str = "add-photo";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, event: BlobEvent) -> Result<()> {
        let mut view = self.handle(turn, Look)?;
        if !event.action.is_deletion() {
            view.photos.insert(event.key().into());
        }
        turn.kv().put("view", &view)
    }
}

/// Sends an auction its new photos: their keys begin with its id.
struct Photographer;
impl Consumer for Photographer {
    type Message = BlobEvent;
    async fn deliver(&self, delivery: Delivery<BlobEvent>) -> Result<Settled> {
        let event = delivery.message.clone();
        let Some((id, _)) = event.key().split_once('/') else { return Ok(delivery.done()) };
        delivery.settle_with(Auction::at(id), event).await
    }
}

/// The settlement of a sale: an invoice, and three days to pay it.
struct Settlement;
impl Workflow for Settlement {
    const NAME: &'static str = "settlement";
    type Input = (View, Bid);
    type Output = u64;
    async fn run(&self, ctx: &Ctx, (View { title, seller, .. }, won): (View, Bid)) -> Result<u64> {
        let invoice = ctx.step("invoice", async || Ok(format!("invoice-{}", ctx.id()))).await?;
        let text = format!("{title} is yours, please pay {invoice}");
        ctx.send(MAIL, Mail { to: won.bidder, text }).await?;
        let paid = ctx.timeout("payment", PAYMENT_TIME, ctx.wait_for(PAYMENT)).await?;
        let how = paid.as_ref().map_or("is not paid".into(), |it| format!("is paid with {it}"));
        ctx.send(MAIL, Mail { to: seller, text: format!("{title} {how}") }).await?;
        paid.map_or_else(|| refuse("unpaid", "the invoice was not paid"), |_| Ok(won.cents))
    }
}

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
    text: String,
}

/// Writes mail to files for a mail server. A repeated delivery writes the same file again.
struct Postman;
impl Consumer for Postman {
    type Message = Mail;
    async fn deliver(&self, delivery: Delivery<Mail>) -> Result<Settled> {
        let file = format!("{}/{:0>12}", delivery.message.to, delivery.id());
        delivery.bucket(OUTBOX).put(&file, &delivery.message.text).await?;
        Ok(delivery.done())
    }
}

/// Mails the sales of a day at midnight. A day without sales has no report.
struct Report;
#[derive(Serialize, Deserialize)]
struct Sold(u64);
#[derive(Serialize, Deserialize)]
struct Midnight;

impl Object for Report {
    const CLASS: &'static str = "report";
    type Calls = (Sold, Midnight);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE sale (cents INTEGER NOT NULL)"];
}

impl Handle<Sold> for Report {
    const NAME: &'static str = "sold";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, Sold(cents): Sold) -> Result<()> {
        turn.sql().execute("INSERT INTO sale VALUES (?1)", [cents])?;
        turn.set_alarm_at("midnight", Timestamp((turn.now().0 / DAY_MS + 1) * DAY_MS), Midnight);
        Ok(())
    }
}

impl Handle<Midnight> for Report {
    const NAME: &'static str = "midnight";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Midnight) -> Result<()> {
        let sum = "SELECT format('%d sold, %d cents', count(*), sum(cents)) FROM sale";
        let text = turn.sql().query_row(sum, (), |row| row.get(0))?;
        turn.send(MAIL, Mail { to: turn.name().into(), text });
        turn.sql().execute("DELETE FROM sale", ())?;
        Ok(())
    }
}

fn routes() -> OpenApiRouter {
    let members = OpenApiRouter::new().routes(routes!(open)).routes(routes!(bid));
    needs(Role::Member, members).routes(needs(Role::Viewer, routes!(look)))
}

type Id = extract::Path<String>;
type Answer<T> = Result<Json<T>, Problem>;

#[utoipa::path(post, path = "/{id}", params(("id" = String, Path)), responses((status = 200)))]
async fn open(caller: Caller, id: Id, Json(open): Json<Open>) -> Answer<()> {
    Ok(Json(caller.call(Auction::at(id.as_str()), open).await?))
}

#[utoipa::path(get, path = "/{id}", params(("id" = String, Path)), responses((status = 200)))]
async fn look(caller: Caller, id: Id) -> Answer<View> {
    Ok(Json(caller.call(Auction::at(id.as_str()), Look).await?))
}

#[utoipa::path(post, path = "/{id}/bids", params(("id" = String, Path)), responses((status = 200)))]
async fn bid(caller: Caller, id: Id, Json(bid): Json<Bid>) -> Answer<()> {
    Ok(Json(caller.call(Auction::at(id.as_str()), bid).await?))
}
