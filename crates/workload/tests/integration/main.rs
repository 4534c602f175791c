//! Tests of access logs and traces through the public interface, from text to statistics and back.

mod arrivals;
mod coverage;
mod formats;
mod import;
mod proxy_formats;
mod real_logs;
mod request_times;
mod several_logs;
mod synthesis;
mod trace_file;
