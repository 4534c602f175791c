//! A measured value, or the reason why there is none.

use std::fmt::Display;

use serde::{Serialize, Serializer};

/// A measured value, or why it could not be measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading<T> {
    Value(T),
    Unavailable(String),
}

impl<T> Reading<T> {
    pub fn unavailable(why: impl Display) -> Self {
        Reading::Unavailable(why.to_string())
    }

    pub fn value(&self) -> Option<&T> {
        match self {
            Reading::Value(value) => Some(value),
            Reading::Unavailable(_) => None,
        }
    }

    /// Converts the value, keeps the reason.
    pub fn map<U>(self, compute: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Reading::Value(value) => Reading::Value(compute(value)),
            Reading::Unavailable(why) => Reading::Unavailable(why),
        }
    }

    /// Converts the value by a function that may fail.
    pub fn and_then<U, E: Display>(self, compute: impl FnOnce(T) -> Result<U, E>) -> Reading<U> {
        match self {
            Reading::Value(value) => compute(value).into(),
            Reading::Unavailable(why) => Reading::Unavailable(why),
        }
    }

    /// Combines two readings; if both are missing, the first reason is kept.
    pub fn zip<U>(self, other: Reading<U>) -> Reading<(T, U)> {
        match (self, other) {
            (Reading::Value(left), Reading::Value(right)) => Reading::Value((left, right)),
            (Reading::Unavailable(why), _) | (_, Reading::Unavailable(why)) => Reading::Unavailable(why),
        }
    }
}

impl<T, E: Display> From<Result<T, E>> for Reading<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Reading::Value(value),
            Err(why) => Reading::unavailable(why),
        }
    }
}

#[cfg(debug_assertions)]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Reading<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Reading_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let (value, missing) = (generator.subschema_for::<T>(), generator.subschema_for::<Unavailable>());
        schemars::json_schema!({ "anyOf": [value, missing] })
    }
}

#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
struct Unavailable {
    unavailable: String,
}

/// A value is serialised as itself, a missing one as `{"unavailable": "why"}`.
impl<T: Serialize> Serialize for Reading<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Reading::Value(value) => value.serialize(serializer),
            Reading::Unavailable(why) => Unavailable { unavailable: why.clone() }.serialize(serializer),
        }
    }
}
