//! Films as streams: what is in an MP4 file and where, its samples as RTP payloads, its description for players (SDP),
//! its segments for browsers (HLS), and the server that sends them by RTSP.
//!
//! The seam between the media and those who send them: [`mp4::Index::read`] says what a film holds, and
//! [`packetiser::Packetiser`] what is to be read of it at once and the packetiser that this becomes. Neither opens a file,
//! knows a socket or asks for the time.
//!
//! [`hls::Films`] is an origin over another: below the name of a film it has the film's playlist and segments, which any
//! HTTP server of ours serves as it serves files.

pub mod hls;
pub mod mp4;
pub mod packetiser;
pub mod rtp;
pub mod rtsp;
pub mod sdp;
