//! From a request to its answer, as far as the caches and what has arrived from the disk allow.

use sojourn_content::{FileRange, Opening, Place};
use sojourn_http::request::{Body, Method, Parsed, Request, Scheme};
use sojourn_http::{SitePath, Status, head};

use super::body::Content;
use super::pipeline::is_head;
use super::relay::Relay;
use super::resolve::{Resolved, resolve};
use super::response::ALLOWED;
use super::stream::Stream;
use super::tunnel::Tunnelling;
use super::{After, Http1};
use crate::connection::{Context, Piece};
use crate::handler::reverse_proxy::TunnelId;

/// How far the request at the start of the input came.
pub(super) enum Step {
    /// Its head is not whole.
    Partial,
    /// Its body comes next.
    Body,
    /// The answer is in the output.
    Answered { consumed: usize },
    /// The head is in the output, this body follows.
    AnsweredWith { consumed: usize, body: Piece },
    /// The head is in the output, the document follows, turn by turn.
    Stream { consumed: usize, stream: Box<Stream> },
    /// What is in the output goes first, then it is read again.
    Flush,
    /// The disk of the proxy's cache has yet to tell, then it is read again.
    Search,
    /// An upstream is asked.
    Relay(Box<Relay>),
    /// The head of an upstream's answer is in the output, its body follows as it comes.
    Follow { consumed: usize, relay: Box<Relay> },
    /// A tunnel is being opened.
    Tunnel(TunnelId),
    /// It is there, and that is in the output.
    Tunnelled { consumed: usize, tunnelling: Box<Tunnelling> },
    /// It needs a document opened.
    Open(Opening),
    /// It needs a small body.
    Load(FileRange),
}

impl Http1 {
    /// Reads the request at the start of `bytes` and goes as far as possible.
    pub(super) fn step(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Step {
        match self.parser.parse(bytes) {
            Ok(Parsed::Partial) => Step::Partial,
            Ok(Parsed::Complete(request)) if context.exchanges.is_some() => self.relay(&request, context),
            Ok(Parsed::Complete(request)) => {
                let is_new = matches!(self.content, Content::None) && request.body != Body::Length(0);
                if is_new && self.begin_body(&request, bytes.len(), context) {
                    return Step::Body;
                }
                self.answer(&request, context)
            }
            Err(error) => {
                self.refuse(is_head(bytes), error.status(), context);
                Step::Answered { consumed: bytes.len() }
            }
        }
    }

    /// The answer to what is no request, or not a whole one; the connection ends with it.
    pub(super) fn refuse(&mut self, is_head: bool, status: Status, context: &mut Context<'_>) {
        self.after = After::Linger;
        let page = head::error_page(status);
        self.begin(status, None, context);
        head::content_length(&mut self.output, page.len() as u64);
        head::field(&mut self.output, "Content-Type", "text/html");
        head::end(&mut self.output);
        if is_head {
            return self.log(None, status.code(), 0, context);
        }
        self.output.extend_from_slice(page.as_bytes());
        self.log(None, status.code(), page.len(), context);
    }

    fn answer(&mut self, request: &Request<'_>, context: &mut Context<'_>) -> Step {
        if matches!(self.content, Content::Malformed) {
            return self.page(request, Status::BadRequest, context);
        }
        if request.scheme == Some(Scheme::Https) && !self.is_secure {
            // RFC 9110, 7.4: such a resource is not to be had over a connection that is not secured.
            return self.page(request, Status::MisdirectedRequest, context);
        }
        let path = match (request.method, SitePath::decode(request.target)) {
            (Method::Options, Ok(_)) => return self.options(request, context),
            (Method::Options, _) if request.target == b"*" => return self.options(request, context),
            (Method::NotAllowed | Method::Connect, _) => {
                return self.page(request, Status::MethodNotAllowed, context);
            }
            (Method::Unknown, _) => return self.page(request, Status::NotImplemented, context),
            (_, Err(_)) => return self.page(request, Status::BadRequest, context),
            (_, Ok(path)) => path,
        };
        let Some(host) = context.hosts.find(request.host) else {
            return self.page(request, Status::MisdirectedRequest, context);
        };
        let arrived = self.arrived.take();
        if let Some(status) = self.instead.take() {
            return self.answer_instead(request, host, status, arrived, context);
        }
        let place = Place { host, path };
        match resolve(&place, arrived, context) {
            Resolved::Document(document, body) => {
                self.document(request, Status::Ok, &document, body, context)
            }
            Resolved::Directory => self.redirect(request, &place.path, context),
            Resolved::Failed(status) => self.fail(request, host, status, context),
            Resolved::Unknown(opening) => Step::Open(opening),
        }
    }

    pub(super) fn options(&mut self, request: &Request<'_>, context: &mut Context<'_>) -> Step {
        self.begin(Status::NoContent, Some(request), context);
        head::field(&mut self.output, "Allow", ALLOWED);
        head::end(&mut self.output);
        self.answered(request, Status::NoContent, 0, context)
    }

    fn redirect(&mut self, request: &Request<'_>, path: &SitePath<'_>, context: &mut Context<'_>) -> Step {
        let mut location = path.directory_location();
        if let Some(query) = request.target.iter().position(|byte| *byte == b'?') {
            // A request target is visible ASCII, so it has its place in a field.
            location.push_str(std::str::from_utf8(&request.target[query..]).unwrap_or_default());
        }
        self.begin(Status::MovedPermanently, Some(request), context);
        head::field(&mut self.output, "Location", &location);
        self.end_page(request, Status::MovedPermanently, context)
    }
}
