//! Values of SQLite as JSON, and back.
//!
//! NULL, integers, finite reals and text have a form in JSON. Other values are an object with one
//! field: `{"blob": "<hex>"}`, `{"real": "Inf"}` or `{"real": "-Inf"}`, and `{"text": "<hex>"}` for
//! text that is not UTF-8.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use rusqlite::types::{Value as Sql, ValueRef};
use serde_json::{Number, Value, json};

pub(super) fn to_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => match Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None => json!({ "real": if number < 0.0 { "-Inf" } else { "Inf" } }),
        },
        ValueRef::Text(bytes) => match str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => json!({ "text": HEXLOWER.encode(bytes) }),
        },
        ValueRef::Blob(bytes) => json!({ "blob": HEXLOWER.encode(bytes) }),
    }
}

/// Approximate bytes as JSON.
pub(super) fn size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) => bytes.len() + 3,
        ValueRef::Blob(bytes) => 2 * bytes.len() + 12,
    }
}

/// Reads a parameter; the error describes the expected form.
pub(super) fn from_json(value: &Value) -> Result<Sql, &'static str> {
    match value {
        Value::Null => Ok(Sql::Null),
        Value::Bool(it) => Ok(Sql::Integer((*it).into())),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Ok(Sql::Integer(integer)),
            (None, Some(real)) if !number.is_u64() => Ok(Sql::Real(real)),
            (None, _) => Err("a number of 64 bits with a sign"),
        },
        Value::String(text) => Ok(Sql::Text(text.clone())),
        Value::Object(fields) => {
            let digits = fields.get("blob").filter(|_| fields.len() == 1).and_then(Value::as_str);
            let bytes = digits.and_then(|it| HEXLOWER_PERMISSIVE.decode(it.as_bytes()).ok());
            let bytes = bytes.ok_or("{\"blob\": \"<hexadecimal digits>\"}")?;
            Ok(Sql::Blob(bytes))
        }
        Value::Array(_) => Err("null, a number, a text, a boolean or {\"blob\": \"<hex>\"}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_form_in_json() {
        let cases = [
            (ValueRef::Null, json!(null)),
            (ValueRef::Integer(i64::MIN), json!(i64::MIN)),
            (ValueRef::Real(0.5), json!(0.5)),
            (ValueRef::Real(f64::INFINITY), json!({"real": "Inf"})),
            (ValueRef::Real(f64::NEG_INFINITY), json!({"real": "-Inf"})),
            (ValueRef::Text("ü\0".as_bytes()), json!("ü\0")),
            (ValueRef::Text(b"\xff"), json!({"text": "ff"})),
            (ValueRef::Blob(b""), json!({"blob": ""})),
            (ValueRef::Blob(b"\x00\xab"), json!({"blob": "00ab"})),
        ];
        for (value, expected) in cases {
            assert_eq!(to_json(value), expected);
        }
    }

    #[test]
    fn a_parameter_is_what_it_says_or_is_refused() {
        for value in [json!(null), json!(i64::MAX), json!(1.5), json!("x"), json!({"blob": "00AB"})]
        {
            let back = to_json(ValueRef::from(&from_json(&value).unwrap()));
            assert_eq!(back.to_string().to_lowercase(), value.to_string().to_lowercase());
        }
        assert_eq!(from_json(&json!(true)), Ok(Sql::Integer(1)));
        for bad in [json!(u64::MAX), json!([]), json!({}), json!({"blob": "a"}), json!({"blob": 1})]
        {
            assert!(from_json(&bad).is_err(), "{bad}");
        }
        assert!(from_json(&json!({"blob": "zz"})).is_err());
        assert!(from_json(&json!({"blob": "", "x": 1})).is_err());
    }
}
