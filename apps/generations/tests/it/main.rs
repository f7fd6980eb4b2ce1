//! The application on a store in memory, with a provider that does what the prompt says.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

/// Makes a test of each law, on SQLite or on the named stores. The tests of the store prove that
/// all stores do the same; a law that depends on ownership, restarts, concurrency, retention or the
/// text of SQL runs on PostgreSQL as well.
macro_rules! laws {
    (on sqlite, postgres: $($laws:tt)*) => {
        laws!(@on sqlite, on_sqlite: $($laws)*);
        laws!(@on postgres, on_postgres: $($laws)*);
    };
    (also on postgres: $($laws:tt)*) => {
        laws!(@on postgres, on_postgres: $($laws)*);
    };
    (@on $store:ident, $world:ident: $($law:ident),* $(,)?) => {
        mod $store {
            $(
                #[test]
                fn $law() {
                    let fake = crate::stage::Fake::new();
                    let its = fake.clone();
                    let world =
                        steadfast_world::World::$world(move || crate::stage::program(&its));
                    world.on(async |app| super::$law(app, &fake).await);
                }
            )*
        }
    };
    ($($laws:tt)*) => {
        laws!(@on sqlite, on_sqlite: $($laws)*);
    };
}

mod confirm;
mod crashes;
mod fetching;
mod full;
mod holes;
mod holes_runware;
mod interleavings;
mod late;
mod late_asked;
mod library;
mod line;
mod money;
mod orphans;
mod places;
mod reconcile;
mod runware;
mod stage;
mod upgrade;
mod waits;
