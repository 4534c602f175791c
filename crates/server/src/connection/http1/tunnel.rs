//! CONNECT: a request that becomes a tunnel to the origin that it names.
//!
//! Until the origin is reached the request stays in the input buffer, as it does while an upstream is asked, and is read
//! once more then. What the client has sent behind it passes first.

use sojourn_http::Status;
use sojourn_http::request::{Body, Request};
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::forward::is_loop;

use super::answer::Step;
use super::body::Content;
use super::relay::exchanges;
use super::{After, Http1, State};
use crate::access_log::OpenLine;
use crate::connection::tunnel::Receiver;
use crate::connection::{Context, Want};
use crate::handler::reverse_proxy::{End, Forward, Outcome, Stage, TunnelId, Way};

/// The answer to a request for a tunnel that is there. It has no body, whatever it could say of one (RFC 9110, 9.3.6).
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// A connection that is, or is to be, one end of a tunnel.
#[derive(Debug)]
pub(super) enum Tunnelling {
    /// The origin is not reached; the request is at the start of the input.
    Opening(TunnelId),
    /// Bytes pass. The line is logged at the end.
    Open { receiver: Receiver, line: Option<OpenLine> },
}

impl Http1 {
    /// Opens the tunnel that `request` asks for, or answers once that is done.
    pub(super) fn connect(
        &mut self,
        request: &Request<'_>,
        forward: &Forward,
        context: &mut Context<'_>,
    ) -> Step {
        if let Some(id) = self.tunnel_opening() {
            self.state = State::Requests;
            return self.connected(request, id, context);
        }
        if request.body != Body::Length(0) {
            // What a tunnel begins with has no framing.
            self.content = Content::Left;
            return self.page(request, Status::BadRequest, context);
        }
        let origin = match forward.tunnel_origin(request, self.peer, self.is_secure) {
            Ok(origin) => origin,
            Err(obstacle) => return self.obstructed(request, obstacle, context),
        };
        if is_loop(Section(request.fields), &exchanges(context).proxy().pseudonym) {
            return self.page(request, Status::LoopDetected, context);
        }
        if !self.output.is_empty() {
            // Earlier answers do not wait for the origin; then the request is read again.
            return Step::Flush;
        }
        let exchanges = context.exchanges.as_mut().expect("a proxy has exchanges");
        match exchanges.open_tunnel(origin, self.peer, context.served) {
            Ok(id) => Step::Tunnel(id),
            Err(obstacle) => self.obstructed(request, obstacle, context),
        }
    }

    /// The tunnel that `request` asked for is there, or cannot be.
    fn connected(&mut self, request: &Request<'_>, id: TunnelId, context: &mut Context<'_>) -> Step {
        let stage = exchanges(context).tunnel(id).stage();
        if stage != Stage::Open {
            exchanges(context).break_tunnel(id);
            exchanges(context).release_tunnel(id);
            return match stage {
                Stage::Closed(End::Obstructed(obstacle)) => self.obstructed(request, obstacle, context),
                Stage::Closed(End::Failed(status)) => self.page(request, status, context),
                // The origin was there for a moment.
                _ => self.page(request, Status::BadGateway, context),
            };
        }
        if self.output.capacity() == 0 {
            self.output = context.pool.take();
        }
        self.head_start = self.output.len() as u32;
        self.output.extend_from_slice(ESTABLISHED);
        self.count_response(Status::Ok.code(), context);
        (self.dealings().outcome, self.dealings().upstream) = (Outcome::Tunnel, Some(0));
        let line = self.open_line(Some(request), Status::Ok.code(), context);
        self.take_leave(request);
        let tunnelling = Tunnelling::Open { receiver: Receiver::new(id, Way::Out), line };
        Step::Tunnelled { consumed: request.head_len, tunnelling: Box::new(tunnelling) }
    }

    /// Waits for the origin, unless it is there.
    pub(super) fn open_on(&mut self, id: TunnelId, context: &mut Context<'_>) -> Want {
        self.state = State::Tunnelling(Box::new(Tunnelling::Opening(id)));
        if exchanges(context).tunnel(id).stage() == Stage::Opening {
            Want::Wait
        } else {
            self.proceed(context)
        }
    }

    /// Says that the tunnel is there; what has come for it already goes into it.
    pub(super) fn establish(&mut self, tunnelling: Box<Tunnelling>, context: &mut Context<'_>) -> Want {
        if let Tunnelling::Open { receiver, .. } = &*tunnelling {
            let exchanges = context.exchanges.as_mut().expect("a proxy has exchanges");
            exchanges.push(receiver.tunnel(), Way::Out, self.input.unread(), context.served);
        }
        context.pool.put_buffer(std::mem::take(&mut self.input));
        self.state = State::Tunnelling(tunnelling);
        self.after = After::Keep;
        self.send(None)
    }

    /// That was said: from now on bytes pass.
    pub(super) fn established(&mut self, context: &mut Context<'_>) -> Option<Want> {
        let State::Tunnelling(tunnelling) = &mut self.state else { return None };
        let Tunnelling::Open { receiver, .. } = &mut **tunnelling else { return None };
        let exchanges = exchanges(context);
        exchanges.receive_for(receiver.tunnel(), Way::Out);
        exchanges.launch_sender(receiver.tunnel(), Way::Back);
        Some(receiver.go_on(context))
    }

    /// What the client sends goes into the tunnel.
    pub(super) fn tunnel_receiver(&mut self) -> Option<&mut Receiver> {
        match &mut self.state {
            State::Tunnelling(tunnelling) if !self.is_sending => match &mut **tunnelling {
                Tunnelling::Open { receiver, .. } => Some(receiver),
                Tunnelling::Opening(_) => None,
            },
            _ => None,
        }
    }

    /// The tunnel that is being opened.
    pub(super) fn tunnel_opening(&self) -> Option<TunnelId> {
        match &self.state {
            State::Tunnelling(tunnelling) => match **tunnelling {
                Tunnelling::Opening(id) => Some(id),
                Tunnelling::Open { .. } => None,
            },
            _ => None,
        }
    }

    /// The connection is about to be forgotten, and with it the tunnel.
    pub(super) fn leave_tunnel(&mut self, context: &mut Context<'_>) {
        let State::Tunnelling(tunnelling) = &mut self.state else { return };
        match &mut **tunnelling {
            Tunnelling::Opening(id) => {
                exchanges(context).break_tunnel(*id);
                exchanges(context).release_tunnel(*id);
            }
            Tunnelling::Open { receiver, line } => {
                let bytes = exchanges(context).tunnel(receiver.tunnel()).moved_bytes(Way::Back);
                if let (Some(log), Some(line)) = (context.log, line) {
                    log.finish(line, bytes);
                }
                receiver.finish(context);
            }
        }
        self.state = State::Requests;
    }
}
