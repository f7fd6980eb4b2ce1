//! The fields of a message, derived from its `Deserialize` implementation. A console can make a
//! form of them, and a class need not declare a schema.
//!
//! A derived `Deserialize` asks its deserializer for a struct and names the fields; each field then
//! asks for its type. A deserializer that answers every such request with an error that carries the
//! request learns the shape and needs no value.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::{
    Deserializer,
    de::{self, DeserializeSeed, EnumAccess, MapAccess, VariantAccess, Visitor, value},
    forward_to_deserialize_any,
};

use crate::Body;

/// A public message of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageView {
    /// Its name within the class.
    pub name: &'static str,
    /// Its fields in the order of their declaration; `None` if it is no struct or has a custom
    /// `Deserialize`. Then it must be written as JSON.
    pub fields: Option<Vec<MessageField>>,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageField {
    /// Its name in JSON.
    pub name: &'static str,
    /// Whether it is an `Option`: it may be left out.
    pub optional: bool,
    /// The values that it takes.
    pub kind: FieldKind,
}

/// The values that a field takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// One of these names.
    Choice(Vec<&'static str>),
    /// Everything else: a list, a map, a struct, or a type with a custom `Deserialize`.
    Json,
}

/// The fields of a message, in the order of their declaration.
pub(super) fn fields_of<M: Body>() -> Option<Vec<MessageField>> {
    // A custom `Deserialize` may panic on this error.
    catch_unwind(AssertUnwindSafe(find_fields::<M>)).unwrap_or_default()
}

fn find_fields<M: Body>() -> Option<Vec<MessageField>> {
    let Err(Request::Struct(names)) = M::deserialize(MessageProbe { field: None }) else {
        return None;
    };
    Some(names.iter().map(|name| field_of::<M>(name)).collect())
}

fn field_of<M: Body>(name: &'static str) -> MessageField {
    let request = |variant| {
        let field = FieldProbe { variant, optional: false };
        M::deserialize(MessageProbe { field: Some((name, field)) }).err()
    };
    let (kind, optional) = match request(None) {
        Some(Request::Value(kind, optional)) => (kind, optional),
        Some(Request::Variants(names, optional)) => {
            let is_plain = |it: &&'static str| request(Some(*it)) == Some(Request::UnitVariant);
            let is_choice = !names.is_empty() && names.iter().all(is_plain);
            let choice = FieldKind::Choice(names.to_vec());
            (if is_choice { choice } else { FieldKind::Json }, optional)
        }
        Some(Request::Struct(_) | Request::UnitVariant | Request::Other) | None => {
            (FieldKind::Json, false)
        }
    };
    MessageField { name, optional, kind }
}

/// The request of a `Deserialize` implementation, returned to it as an error.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Struct(&'static [&'static str]),
    Value(FieldKind, bool),
    Variants(&'static [&'static str], bool),
    UnitVariant,
    Other,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("only the shape was asked for")
    }
}

impl std::error::Error for Request {}

impl de::Error for Request {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Request::Other
    }
}

/// A deserializer of a whole message: without a field it finds the fields, else the type of that
/// field.
struct MessageProbe {
    field: Option<(&'static str, FieldProbe)>,
}

impl<'de> Deserializer<'de> for MessageProbe {
    type Error = Request;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Request> {
        Err(Request::Other)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Request> {
        match self.field {
            None => Err(Request::Struct(fields)),
            Some(_) => visitor.visit_map(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Request> {
        Err(Request::Struct(&[]))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: V,
    ) -> Result<V::Value, Request> {
        Err(Request::Struct(&[]))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Request> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A map with one entry.
impl<'de> MapAccess<'de> for MessageProbe {
    type Error = Request;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Request> {
        let name = self.field.as_ref().map_or("", |it| it.0);
        seed.deserialize(value::StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Request> {
        let (_, field) = self.field.take().ok_or(Request::Other)?;
        seed.deserialize(field)
    }
}

/// A deserializer of the value of a field, or of one variant of an enum.
struct FieldProbe {
    variant: Option<&'static str>,
    optional: bool,
}

impl FieldProbe {
    fn found<T>(self, kind: FieldKind) -> Result<T, Request> {
        Err(Request::Value(kind, self.optional))
    }
}

macro_rules! found {
    ($kind:ident: $($method:ident)*) => {
        $(
            fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Request> {
                self.found(FieldKind::$kind)
            }
        )*
    };
}

impl<'de> Deserializer<'de> for FieldProbe {
    type Error = Request;

    found!(Json: deserialize_any);
    found!(Boolean: deserialize_bool);
    found!(Number: deserialize_f32 deserialize_f64);
    found!(Text: deserialize_char deserialize_str deserialize_string);
    found!(Integer:
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    );

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Request> {
        visitor.visit_some(Self { optional: true, ..self })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Request> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Request> {
        match self.variant {
            None => Err(Request::Variants(variants, self.optional)),
            Some(_) => visitor.visit_enum(self),
        }
    }

    forward_to_deserialize_any! {
        bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for FieldProbe {
    type Error = Request;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Request> {
        let name = self.variant.unwrap_or_default();
        Ok((seed.deserialize(value::StrDeserializer::new(name))?, self))
    }
}

impl<'de> VariantAccess<'de> for FieldProbe {
    type Error = Request;

    fn unit_variant(self) -> Result<(), Request> {
        Err(Request::UnitVariant)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Request> {
        Err(Request::Other)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Request> {
        Err(Request::Other)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Request> {
        Err(Request::Other)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
        Green,
    }

    #[derive(Serialize, Deserialize)]
    enum Shape {
        Point,
        Circle { radius: u32 },
    }

    #[derive(Serialize, Deserialize)]
    struct Cents(u64);

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Bid {
        bidder_name: String,
        cents: Cents,
        weight: Option<f32>,
        #[serde(default)]
        hidden: bool,
        color: Color,
        other: Option<Color>,
        shape: Shape,
        tags: Vec<String>,
        more: BTreeMap<String, u8>,
        next: Option<Box<Bid>>,
        any: serde_json::Value,
    }

    #[test]
    fn the_fields_of_a_derived_message_have_names_and_kinds() {
        use FieldKind::{Boolean, Choice, Integer, Json, Number, Text};
        let colors = || Choice(vec!["red", "green"]);
        let expected = [
            ("bidderName", false, Text),
            ("cents", false, Integer),
            ("weight", true, Number),
            ("hidden", false, Boolean),
            ("color", false, colors()),
            ("other", true, colors()),
            ("shape", false, Json),
            ("tags", false, Json),
            ("more", false, Json),
            ("next", true, Json),
            ("any", false, Json),
        ];
        let expected = expected.map(|(name, optional, kind)| MessageField { name, optional, kind });
        assert_eq!(fields_of::<Bid>().as_deref(), Some(&expected[..]));
    }

    #[derive(Serialize, Deserialize)]
    struct Wrapped(Bid);
    #[derive(Serialize, Deserialize)]
    struct Read;
    #[derive(Serialize, Deserialize)]
    struct Note(String);
    #[derive(Serialize, Deserialize)]
    struct Flat {
        #[serde(flatten)]
        all: BTreeMap<String, u8>,
    }

    #[test]
    fn a_message_that_is_no_struct_has_no_form() {
        assert_eq!(fields_of::<Wrapped>().map(|it| it.len()), Some(11));
        assert_eq!((fields_of::<Read>(), fields_of::<()>()), (Some(vec![]), Some(vec![])));
        assert_eq!((fields_of::<Note>(), fields_of::<Flat>()), (None, None));
        assert_eq!((fields_of::<Shape>(), fields_of::<Vec<u8>>()), (None, None));
    }

    #[derive(Serialize)]
    struct Fragile;

    impl<'de> Deserialize<'de> for Fragile {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            assert!(u64::deserialize(from).is_ok(), "it is always a number");
            Ok(Self)
        }
    }

    #[test]
    fn a_type_that_panics_when_it_is_refused_has_no_form() {
        assert_eq!(fields_of::<Fragile>(), None);
    }
}
