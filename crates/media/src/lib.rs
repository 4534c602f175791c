//! Media formats: MP4 files, their samples as RTP payloads, session descriptions (SDP), RTSP messages, and segments for
//! browsers (HLS).
//!
//! The two main types are [`mp4::Index`], which describes a film, and [`packetiser::Packetiser`], which says which
//! bytes to read next and turns them into packets. Neither opens a file, knows a socket or asks for the time.
//!
//! [`hls`] makes a film's playlist and segments from its index.

#![forbid(unsafe_code)]

pub mod hls;
pub mod mp4;
pub mod packetiser;
pub mod rtp;
pub mod rtsp;
pub mod sdp;
