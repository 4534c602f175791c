//! Films as streams: what is in an MP4 file and where, its samples as RTP payloads, its description for players (SDP),
//! its segments for browsers (HLS), and the server that sends them by RTSP.
