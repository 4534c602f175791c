//! The HTTP client: requests, connections, the response reader, TLS, cookies, and causes of failures.

pub(crate) mod cause;
pub(crate) mod connection;
pub(crate) mod cookie_date;
pub mod cookie_jar;
pub(crate) mod http2;
pub(crate) mod reference;
pub(crate) mod request;
pub mod response_reader;
pub(crate) mod server_timing;
pub(crate) mod target;
pub(crate) mod tls;
pub(crate) mod tls_stream;

pub use cause::Cause;
pub use request::{Form, FormError, Persistence, Version};
pub use target::{Target, TargetError};
pub use tls::{Tls, TlsError, Trust, client_config};
