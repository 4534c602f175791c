//! Invariants for any bytes that a client sends on a connection, with HTTP/1 and HTTP/2.

use sojourn_cgi::Ends;
use sojourn_http::http2::HeadCache;
use sojourn_server::connection::{Connection, Context, Event, Pool, SendPath, Shared, Want};
use sojourn_server::handler::echo::Echo;
use sojourn_server::{Clock, Limits, Served};

/// The most bytes of one send.
const OUTPUT_BYTES_MAX: usize = 512 << 10;

/// The start of HTTP/2: the preface, and an empty SETTINGS frame.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Whatever a client sends in whatever pieces, the connection goes on or closes, and each send is bounded. The first
/// byte of the input selects the pieces, whether they follow the HTTP/2 preface, and what the client does at their end.
pub fn connection(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let step = [1, 7, 100, 1 << 16][usize::from(choice & 3)];
    let input = if choice & 4 > 0 { [HTTP2, bytes].concat() } else { bytes.to_vec() };
    let end = match choice >> 3 & 3 {
        0 => Event::Ended,
        1 => Event::Expired,
        _ => Event::Failed,
    };
    let mut driver = Driver::default();
    let mut connection = Connection::new([127, 0, 0, 1].into(), None);
    let mut want = driver.settle(&mut connection, None);
    for piece in input.chunks(step) {
        let Want::Receive(buffer) = want else { break };
        let mut buffer = driver.pool.fill(buffer);
        buffer.space().extend_from_slice(piece);
        want = driver.settle(&mut connection, Some(Event::Received(buffer)));
    }
    if matches!(want, Want::Receive(_)) {
        driver.settle(&mut connection, Some(end));
    }
    connection.finish(&mut driver.context());
}

struct Driver {
    handler: Echo,
    pool: Pool,
    heads: HeadCache,
    served: Served,
    clock: Clock,
    send_path: SendPath,
    limits: Limits,
}

impl Default for Driver {
    fn default() -> Driver {
        Driver {
            handler: Echo,
            pool: Pool::default(),
            heads: HeadCache::default(),
            served: Served::default(),
            clock: Clock::new(),
            send_path: SendPath::default(),
            limits: Limits::default(),
        }
    }
}

impl Driver {
    fn context(&mut self) -> Context<'_> {
        Context {
            handler: &mut self.handler,
            shared: Shared {
                pool: &mut self.pool,
                heads: &mut self.heads,
                served: &mut self.served,
                clock: &self.clock,
                send_path: &self.send_path,
                log: None,
                limits: &self.limits,
                is_draining: false,
                stops_receiving: false,
                token: 0,
                ends: Ends::default(),
            },
        }
    }

    /// Performs the connection's wants until it waits for the client.
    fn settle(&mut self, connection: &mut Connection, event: Option<Event>) -> Want {
        let mut want = match event {
            None => connection.start(),
            Some(event) => connection.handle(event, &mut self.context()),
        };
        for _ in 0..100_000 {
            let event = match want {
                Want::Receive(_) | Want::Close(_) | Want::Wait => return want,
                Want::Look(_) | Want::CancelReceive => Event::NothingReceived,
                Want::Send(mut output) => {
                    assert!(
                        output.total_bytes() <= OUTPUT_BYTES_MAX,
                        "{} bytes at once",
                        output.total_bytes()
                    );
                    output.sent = output.total_bytes();
                    Event::Sent(output)
                }
                Want::Open(_) | Want::Load(_) | Want::Delegate(..) => {
                    panic!("nothing here needs a disk: {want:?}")
                }
            };
            want = connection.handle(event, &mut self.context());
        }
        panic!("it never waits for its client");
    }
}
