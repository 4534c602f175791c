//! The properties that the fuzz targets check: what must hold for any bytes given to our parsers.
//!
//! A fuzz target (`fuzz/fuzz_targets/`) calls one function of this crate with the fuzzer's bytes. The tests of this crate
//! call the same functions with the committed corpora (`fuzz/corpus/`), on a stable compiler. To add a target, write its
//! function, its row in [`TARGETS`], its file in `fuzz_targets/` and its `[[bin]]` in `fuzz/Cargo.toml`.

pub mod cgi;
pub mod connection;
pub mod films;
pub mod http;
pub mod http_cache;
pub mod load;
pub mod measure;
pub mod nfs;
pub mod origins;
pub mod queueing;
pub mod rtsp;
pub mod s3;
pub mod viewer;
pub mod workload;

/// A property: it panics if the bytes break it.
pub type Check = fn(&[u8]);

/// Every fuzz target, by the name of its program and of its folder in the corpus.
pub const TARGETS: &[(&str, Check)] = &[
    ("cgi_environment", cgi::environment),
    ("cgi_response", cgi::response),
    ("connection", connection::connection),
    ("fastcgi_records", cgi::records),
    ("fastcgi_requests", cgi::requests),
    ("http2_fields", http::http2_fields),
    ("http2_frames", http::http2_frames),
    ("http_chunked", http::chunked),
    ("http_conditions", http::conditions),
    ("http_date", http::date),
    ("http_path", http::path),
    ("http_range", http::range),
    ("http_request", http::request),
    ("http_response", http::response),
    ("http_stream", http::stream),
    ("http_upstream", http::upstream),
    ("interval_log", measure::interval_log),
    ("load_plan", load::plan_file),
    ("load_response", load::reception),
    ("load_scenario", load::scenario),
    ("load_viewer", viewer::client),
    ("log_format", workload::log_format),
    ("log_line", workload::log_line),
    ("mp4_film", films::film),
    ("nfs_record", nfs::record),
    ("parsed_piece", workload::parsed_piece),
    ("proxy_metadata", http_cache::metadata),
    ("proxy_network", origins::network),
    ("proxy_origin", origins::origin),
    ("proxy_request", http_cache::request),
    ("proxy_response", http_cache::response),
    ("rtp_datagram", rtsp::datagram),
    ("rtsp_stream", rtsp::stream),
    ("s3_texts", s3::texts),
    ("system_file", queueing::system_file),
    ("system_settings", queueing::settings),
    ("trace_file", workload::trace_file),
];
