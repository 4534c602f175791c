//! A run of HTTP clients: the event loop, the table of clients and connections, and their behaviour.

mod client;
mod connection;
mod event_loop;
mod http2;
mod measurement;
mod progress;
mod run;
mod table;
mod users;
mod wakeups;

pub use progress::Progress;
pub use run::run;
