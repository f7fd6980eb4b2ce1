//! Enums whose variants have texts, which are stored or shown.

use thiserror::Error;

/// A text that no variant of an enum has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no such name")]
pub struct UnknownText;

/// Gives each variant of an enum its text, in both directions, and the enum a list of them all.
#[macro_export]
macro_rules! texts {
    ($of:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl $of {
            /// All of them, in their order.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];
        }

        impl From<$of> for &'static str {
            fn from(it: $of) -> Self {
                match it {
                    $($of::$variant => $text),+
                }
            }
        }

        impl std::str::FromStr for $of {
            type Err = $crate::UnknownText;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownText),
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::EntityKind;

    #[test]
    fn a_text_that_no_variant_has_is_refused() {
        assert_eq!("queue".parse(), Ok(EntityKind::Queue));
        for text in ["Queue", "queue ", "", "queues"] {
            assert_eq!(text.parse::<EntityKind>(), Err(super::UnknownText), "{text:?}");
        }
    }
}
