//! Pairs and their comparisons, with servers on this machine.

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
                    let moody = crate::stage::Moody::default();
                    let world =
                        steadfast_world::World::$world(move || crate::stage::program(&moody));
                    world.on(super::$law);
                }
            )*
        }
    };
    ($($laws:tt)*) => {
        laws!(@on sqlite, on_sqlite: $($laws)*);
    };
}

mod again;
mod crashes;
mod holes;
mod later;
mod stage;
mod zoo;
