//! Requests to S3-compatible object stores: signatures, addresses, and the texts in which credentials are found.
//!
//! Pure: no sockets, no files, no clock. The caller gives the time, the environment and the contents of files, and sends
//! what comes out. `rusty-s3`, the signer without sockets, was not used: it writes presigned URLs, which change with
//! every request, and it does not sign the fields of a request, which is what the published test vectors check.

#![forbid(unsafe_code)]

pub mod credentials;
mod location;
mod settings;
mod signature;
pub mod xml;

pub use credentials::Credentials;
pub use location::{Location, LocationError, is_bucket};
pub use settings::{Addressing, Profiles, Settings, SettingsError, Source};
pub use signature::{EMPTY_BODY, Scope, Signed, amz_date, authorization, sign};
