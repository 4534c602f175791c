//! The rules of a shared cache (RFC 9111): what may be stored, when it may be reused, and which fields are forwarded
//! each way.
//!
//! Pure: time is an argument, in whole seconds since 1970; fields are the received lines. [`storable()`] turns a
//! response into [`Metadata`]. [`lookup()`] decides whether it answers a later request. [`forward`] writes requests to
//! the origin, and [`validation`] handles its 304 (revalidation).

#![forbid(unsafe_code)]

mod answer;
mod cache_status;
pub mod control;
pub mod directives;
pub mod fields;
pub mod forward;
pub mod freshness;
mod invalidation;
pub mod key;
mod lookup;
mod metadata;
pub mod partial;
mod policy;
mod request;
mod storable;
pub mod upgrade;
pub mod validation;
pub mod vary;

pub use answer::{Answer, append_not_modified};
pub use cache_status::{CacheStatus, Forwarded};
pub use freshness::Moments;
pub use invalidation::{invalidated, is_own_content};
pub use key::{Spelling, Target};
pub use lookup::{Allowance, Failure, Need, Use, lookup, may_answer_after};
pub use metadata::{FORMAT_VERSION, Metadata, MetadataError};
pub use policy::Policy;
pub use request::RequestDirectives;
pub use storable::{NotStorable, Request, Response, entity_tag, storable};
