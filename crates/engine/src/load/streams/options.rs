//! Options of `load` for viewers of films, and the plan they describe.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use sojourn_load::{
    duration,
    viewers::{Film, HlsPlan, Quality, StreamLimits, StreamPlan, Transport, Variant},
};
use sojourn_measure::Nanos;

use crate::load::arrivals::positive_rate;
use crate::load::generator::{Format, bit_rate, interval, share};
use crate::text_file;

/// Load a streaming server: viewers of films, by RTSP or HLS, judged as a player would judge them.
///
/// `sojourn load` does this for URLs that begin with rtsp://, for http:// URLs whose path ends in .m3u8, and with --hls.
/// The generator is one thread; give it a core of its own (--core).
#[derive(Args)]
#[command(
    override_usage = "sojourn load [OPTIONS] --clients N URL...",
    after_help = "\
Example: 500 viewers of one film by UDP for a minute
  sojourn load rtsp://127.0.0.1:8554/film.mp4 --clients 500 --duration 60s",
    after_long_help = "\
Examples

  500 viewers of one film by UDP, 50 more each second, for a minute once all play
    sojourn load rtsp://127.0.0.1:8554/film.mp4 --clients 500 --duration 60s

  many films, from a file with one per line; each viewer starts somewhere in its film
    sojourn load rtsp://127.0.0.1:8554/ --media films.txt --clients 500 --random-start

  over TCP, some viewers too slow and some that vanish: do the others still see their film?
    sojourn load rtsp://127.0.0.1:8554/film.mp4 --transport tcp --clients 200 --slow 5% --vanish 5%

  500 viewers by HLS, each of the variant with the lowest rate, with a buffer of 12 s
    sojourn load http://127.0.0.1:8080/film/index.m3u8 --clients 500 --variant lowest --buffer 12s

  how many streams the server carries, and what it uses meanwhile
    sojourn load rtsp://127.0.0.1:8554/film.mp4 --clients 100 --search 'conforming>=99%' --probe

Results

A stream conforms if it was neither refused nor cut off, its player never starved, at most 1 % of its packets were late \
or lost, and its media arrived at 95 % of its pace or faster. An RTSP player starts --prebuffer after the first packet and \
never pauses; a packet that arrives after its playing time is late. An HLS player starts with --prebuffer of media and \
pauses while its buffer is empty; a segment that it paused for is late. Slow and vanishing viewers are not judged. Where \
`generator.limited` is true, the generator was the limit and not the server. docs/load-streaming.md defines every figure.

Exit code: 0 complete, 1 not complete, 2 could not run."
)]
pub struct Options {
    /// Films: rtsp://[NAME:PASSWORD@]HOST[:PORT]/PATH, or http://HOST[:PORT]/PATH of playlists; several are assigned to
    /// the viewers in turn.
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
    /// A file with more films: a URL, or a path below the first URL, per line.
    #[arg(long, value_name = "FILE", help_heading = VIEWERS)]
    media: Option<PathBuf>,
    /// Concurrent viewers; a viewer whose film ends starts the next.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = VIEWERS)]
    clients: u32,
    /// Viewers that start per second, until all play.
    #[arg(long, value_name = "RATE", default_value = "50/s", value_parser = positive_rate, help_heading = VIEWERS)]
    ramp: f64,
    /// How long to run once all viewers have started.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse, help_heading = VIEWERS)]
    duration: Nanos,
    /// Transport of RTP packets: UDP, or interleaved in the RTSP connection (tcp) [default: udp].
    #[arg(long, value_name = "udp|tcp", help_heading = VIEWERS)]
    transport: Option<TransportName>,
    /// Use HLS whatever the URLs end in.
    #[arg(long, help_heading = VIEWERS)]
    hls: bool,
    /// Which HLS variant to play: the one with the lowest or highest bandwidth, or a position from 1.
    #[arg(long, value_name = "lowest|highest|N", default_value = "highest", value_parser = variant, help_heading = VIEWERS)]
    variant: Variant,
    /// The most media that an HLS player buffers.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse, help_heading = VIEWERS)]
    buffer: Nanos,
    /// Start anywhere in the first nine tenths of the film, if its length is known.
    #[arg(long, help_heading = VIEWERS)]
    random_start: bool,
    /// The share of viewers that read too slowly; only with --transport tcp or HLS.
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share, help_heading = VIEWERS)]
    slow: f64,
    /// The read rate of slow viewers.
    #[arg(long, value_name = "RATE", default_value = "100kbit/s", value_parser = bit_rate, help_heading = VIEWERS)]
    slow_rate: f64,
    /// The share of viewers that vanish while playing: they stop reading and sending without closing anything.
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share, help_heading = VIEWERS)]
    vanish: f64,
    /// Start-up delay: time from a track's first packet until the player shows it; with HLS, the media buffered first.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse, help_heading = QUALITY)]
    prebuffer: Nanos,
    /// The share of a stream's packets or segments that may be late or lost.
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share, help_heading = QUALITY)]
    tolerance: f64,
    /// Judge a stream by its bit rate instead of its media time: at least 95 % of this rate must arrive.
    #[arg(long, value_name = "RATE", value_parser = bit_rate, help_heading = QUALITY)]
    nominal: Option<f64>,
    /// Timeout for connecting, and for each reply.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse, help_heading = QUALITY)]
    timeout: Nanos,
    /// Timeout for the first packet, or the first byte of a segment.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse, help_heading = QUALITY)]
    first_packet_timeout: Nanos,
    /// Timeout between packets, or between parts of a response.
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = duration::parse, help_heading = QUALITY)]
    silence_timeout: Nanos,
    /// Packets that the generator reads this much later than they arrived, and segments that it requests this late, are
    /// void samples; with more than 1 % of them the generator was the limit.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = duration::parse, help_heading = MACHINE)]
    lag_limit: Nanos,
    /// The receive buffer of each UDP socket, in bytes [default: the system's].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(2_304..=67_108_864), help_heading = MACHINE)]
    receive_buffer: Option<u32>,
    /// Seed of all random draws.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = MACHINE)]
    pub seed: u64,
    /// Pin the generator to this core.
    #[arg(long, value_name = "N", help_heading = MACHINE)]
    pub core: Option<usize>,
    /// What to print.
    #[arg(long, default_value = "text", help_heading = OUTPUT)]
    pub format: Format,
    /// Write the times of all streams to this file, as an HDR interval log.
    #[arg(long, value_name = "FILE.hlog", help_heading = OUTPUT)]
    pub histograms: Option<PathBuf>,
    /// Write a timeline to this file, with a row per interval: streams, rates, losses.
    #[arg(long, value_name = "FILE.json", help_heading = OUTPUT)]
    pub timeline: Option<PathBuf>,
    /// Length of an interval.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval, help_heading = OUTPUT)]
    interval: Nanos,
    /// Include the timeline and the times in the JSON object.
    #[arg(long, help_heading = OUTPUT)]
    pub embed: bool,
    /// Print progress on stderr once per interval, a JSON object per line.
    #[arg(long, help_heading = OUTPUT)]
    pub progress: bool,
    /// Print `ready` on stderr, and start when standard input says `go TIME`.
    #[arg(long, help_heading = OUTPUT)]
    pub start_on_stdin: bool,
}

const VIEWERS: &str = "Viewers";
const QUALITY: &str = "Quality limits";
const MACHINE: &str = "Machine";
const OUTPUT: &str = "Output";
/// The most films; there cannot be more viewers.
const FILMS_MAX: usize = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportName {
    Udp,
    Tcp,
}

impl Options {
    pub fn plan(&self) -> anyhow::Result<StreamPlan> {
        let films = self.films()?;
        let transport = self.transport(&films)?;
        ensure!(
            self.slow == 0.0 || transport != Transport::Udp,
            "--slow needs --transport tcp: over UDP a server cannot notice a slow reader"
        );
        ensure!(self.duration > Nanos::ZERO, "the duration must be above 0 s");
        ensure!(
            self.buffer >= self.prebuffer,
            "a player cannot start with more media than fits its buffer: raise --buffer"
        );
        Ok(StreamPlan {
            films,
            clients: self.clients,
            clients_per_second: self.ramp,
            duration: self.duration,
            transport,
            hls: HlsPlan { variant: self.variant, buffer: self.buffer },
            random_start: self.random_start,
            slow_share: self.slow,
            slow_bytes_per_second: self.slow_rate / 8.0,
            vanishing_share: self.vanish,
            quality: Quality {
                prebuffer: self.prebuffer,
                late_or_lost_max: self.tolerance,
                nominal_bits_per_second: self.nominal,
                ..Quality::default()
            },
            limits: StreamLimits {
                reply_timeout: self.timeout,
                first_packet_timeout: self.first_packet_timeout,
                silence_timeout: self.silence_timeout,
                receive_lag: self.lag_limit,
            },
            receive_buffer_bytes: self.receive_buffer.map(|bytes| bytes as usize),
            interval: self.interval,
            seed: self.seed,
            core: self.core,
        })
    }

    fn transport(&self, films: &[Film]) -> anyhow::Result<Transport> {
        let by_hls = films.iter().filter(|film| film.is_hls()).count();
        ensure!(by_hls == 0 || by_hls == films.len(), "a run plays films by RTSP or by HLS, not both");
        ensure!(!self.hls || by_hls > 0, "--hls plays http:// URLs");
        ensure!(
            by_hls == 0 || self.transport.is_none(),
            "--transport applies to RTSP only: leave it out for HLS"
        );
        Ok(match self.transport {
            _ if by_hls > 0 => Transport::Http,
            None | Some(TransportName::Udp) => Transport::Udp,
            Some(TransportName::Tcp) => Transport::Interleaved,
        })
    }

    /// The films of the URLs and of the file.
    fn films(&self) -> anyhow::Result<Vec<Film>> {
        let Some(path) = &self.media else {
            return Ok(self.urls.iter().map(|url| Film::resolve(url)).collect::<Result<_, _>>()?);
        };
        let text = text_file::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let base = self.urls[0].trim_end_matches('/');
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let url = |line: &str| {
            if line.contains("://") {
                line.to_owned()
            } else {
                format!("{base}/{}", line.trim_start_matches('/'))
            }
        };
        let films: Vec<Film> =
            lines.take(FILMS_MAX).map(|line| Film::resolve(&url(line))).collect::<Result<_, _>>()?;
        if films.is_empty() {
            bail!("{} contains no films: write one URL or path per line", path.display());
        }
        Ok(films)
    }
}

/// Parses the choice of a variant.
fn variant(text: &str) -> Result<Variant, String> {
    match text {
        "lowest" => Ok(Variant::Lowest),
        "highest" => Ok(Variant::Highest),
        number => match number.parse() {
            Ok(number) if number > 0 => Ok(Variant::Number(number)),
            _ => Err(format!("{text:?} is not lowest, highest or a number from 1 on")),
        },
    }
}
