//! Receives an upstream's response: decides by its head what to do, then passes its body to the flow.

use std::sync::Arc;

use sojourn_cgi::fastcgi::Ending;
use sojourn_http::Status;
use sojourn_http::upstream::{Body::Length, Head};

use super::body::{Body, Progress};
use super::failure::fail;
use super::switch::open_tunnel;
use super::{Stage, UpstreamClient, UpstreamConnection, UpstreamProtocol};
use crate::clock::Clock;
use crate::connection::{Buffer, RESPONSE_BUFFER_BYTES, Reason, Shared, Want};
use crate::counters::Counter;
use crate::handler::reverse_proxy::bucket::StoreError;
use crate::handler::reverse_proxy::{End, FlowId, ResponseAction};

/// The most interim responses (1xx) before a response; an upstream that sends more has failed.
const INTERIM_RESPONSES_MAX: u32 = 16;

impl UpstreamConnection {
    pub(super) fn receive(&mut self) -> Want {
        self.is_receiving = true;
        // Bytes already received must not be lost when receiving is cancelled; FastCGI records are not response bytes.
        let is_response = self.is_sent && !matches!(self.protocol, UpstreamProtocol::FastCgi(_));
        // A response may come to the receive of an idle connection.
        let is_head = matches!(self.stage, Stage::Head | Stage::Idle);
        let empty = if is_head { Buffer::for_response(self.is_long) } else { Buffer::default() };
        Want::Receive(if is_response && self.input.is_allocated() {
            std::mem::take(&mut self.input)
        } else {
            empty
        })
    }

    /// Receives more of the response.
    pub(super) fn receive_response(&mut self, shared: &mut Shared<'_>) -> Want {
        if matches!(self.stage, Stage::Head) {
            return self.receive();
        }
        self.is_receiving = true;
        if !self.is_sent {
            // Receiving is cancelled when there is more to send.
            return Want::Receive(Buffer::for_body());
        }
        let mut buffer = std::mem::take(&mut self.input);
        if !buffer.is_allocated() {
            buffer = shared.pool.fill(Buffer::for_response(true));
        }
        buffer.reserve_for_body();
        Want::Receive(buffer)
    }

    /// Receives nothing until the clients have read more.
    pub(super) fn hold_back(&mut self, shared: &mut Shared<'_>) -> Want {
        if self.input.unread().is_empty() {
            // It may take long until there is room.
            shared.pool.put_buffer(std::mem::take(&mut self.input));
        }
        Want::Wait
    }

    pub(super) fn received(
        &mut self,
        mut buffer: Buffer,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        self.response_bytes = self.response_bytes.saturating_add(buffer.unread().len());
        if let UpstreamProtocol::FastCgi(fastcgi) = &mut self.protocol {
            let makes_sense = fastcgi.unframe(&mut buffer);
            upstream_client.log_errors(self.upstream, &fastcgi.take_errors());
            if !makes_sense && !matches!(self.stage, Stage::Idle) {
                shared.pool.put_buffer(buffer);
                return self.fail_upstream(Status::BadGateway, upstream_client, shared);
            }
        }
        if self.input.unread().is_empty() {
            shared.pool.put_buffer(std::mem::replace(&mut self.input, buffer));
        } else {
            self.input.append(&buffer);
            shared.pool.put_buffer(buffer);
        }
        match self.stage {
            Stage::Head => self.read_head(upstream_client, shared),
            Stage::Body(_) => self.read_body(upstream_client, shared),
            // Nothing was requested: the request that this would answer must never be guessed.
            Stage::New | Stage::Connecting | Stage::Sending | Stage::Idle | Stage::Tunnel(_) => {
                self.end_idle(upstream_client, shared)
            }
        }
    }

    fn read_head(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        let id = self.flow.expect("there is a request");
        let is_records = matches!(self.protocol, UpstreamProtocol::FastCgi(_));
        let is_bucket = matches!(self.protocol, UpstreamProtocol::Http(Some(_)));
        loop {
            let asked = self.flow(upstream_client).asked;
            let (ending, parsed) = match &mut self.protocol {
                UpstreamProtocol::Http(_) => {
                    (None, self.parser.parse(self.input.unread(), asked).map_err(drop))
                }
                UpstreamProtocol::Cgi(fields, _) => (None, fields.parse(self.input.unread(), asked, false)),
                UpstreamProtocol::FastCgi(fastcgi) => {
                    (fastcgi.ending, fastcgi.parse(self.input.unread(), asked))
                }
            };
            let head = match (parsed, ending) {
                (Ok(Some(head)), _) => head,
                (Ok(None), None) => return self.advance(upstream_client, shared),
                (Ok(None), Some(Ending::Overloaded)) => {
                    self.flow = None;
                    fail(id, Status::ServiceUnavailable, true, upstream_client, shared);
                    return Want::Close(Reason::Finished);
                }
                (Ok(None), Some(_)) | (Err(()), _) => {
                    return self.fail_upstream(Status::BadGateway, upstream_client, shared);
                }
            };
            let head_len = head.head_len;
            if !(100..200).contains(&head.status) {
                let body = if is_records { Body::by_records(head.body) } else { Body::new(head.body) };
                self.keeps = head.keep_alive;
                upstream_client.succeed_at(self.upstream);
                if std::mem::take(&mut self.is_unanswered) {
                    upstream_client.answered(self.upstream);
                }
                let began = upstream_client.flow(id).began;
                let withheld = if is_bucket { StoreError::of(&head) } else { None };
                let is_again = match withheld {
                    None => handle_head(id, &head, shared.clock, upstream_client),
                    Some((error, own)) => {
                        let length = own.text.len() as u64;
                        let (fields, content_length) = (&own.fields[..], Some(length));
                        let own_head = Head { fields, body: Length(length), content_length, ..head };
                        let is_again = handle_head(id, &own_head, shared.clock, upstream_client);
                        if !is_again {
                            let text: Arc<[u8]> = own.text.as_bytes().into();
                            upstream_client.flow(id).append(text.into());
                            self.withheld = Some(error);
                        }
                        is_again
                    }
                };
                self.head_received_at = shared.clock.now;
                let waited = self.head_received_at.saturating_sub(began);
                shared.served.add(Counter::UpstreamHeadWait, waited.as_nanos() as u64);
                self.input.consume(head_len);
                if is_again {
                    return self.retry_unconditionally(upstream_client, shared);
                }
                self.stage = Stage::Body(body);
                return self.read_body(upstream_client, shared);
            }
            if head.status == 101 {
                let tunnel = open_tunnel(id, &head, upstream_client, shared);
                self.input.consume(head_len);
                return self.switch(tunnel, upstream_client, shared);
            }
            self.interim_responses += 1;
            if self.interim_responses > INTERIM_RESPONSES_MAX {
                return self.fail_upstream(Status::BadGateway, upstream_client, shared);
            }
            if head.status == 100 {
                if let Some(upload) = &mut upstream_client.flow(id).upload {
                    upload.is_asked_for = true;
                }
            } else {
                // RFC 9110, 15.2: a proxy forwards interim responses that it did not request itself.
                upstream_client.pass_interim(id, &head);
            }
            upstream_client.wake_readers(id);
            self.input.consume(head_len);
        }
    }

    fn read_body(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        let id = self.flow.expect("there is a request");
        let Stage::Body(body) = &mut self.stage else { unreachable!("a body is being read") };
        let mut is_enough = false;
        let has_ended =
            matches!(&self.protocol, UpstreamProtocol::FastCgi(fastcgi) if fastcgi.ending.is_some());
        let sharing = upstream_client.flow(id).sharing(has_ended);
        let progress = body.read(&mut self.input, sharing, |part| match &mut self.withheld {
            None => upstream_client.flow(id).append(part),
            Some(error) => is_enough = !error.append(part.as_ref()),
        });
        upstream_client.limit_shared(id);
        upstream_client.wake_readers(id);
        let may_end = body.may_end();
        match progress {
            Progress::More if is_enough => {
                self.keeps = false;
                self.complete(upstream_client, shared)
            }
            Progress::More if has_ended && may_end => self.complete(upstream_client, shared),
            Progress::More if has_ended => self.fail_upstream(Status::BadGateway, upstream_client, shared),
            Progress::More => self.advance(upstream_client, shared),
            Progress::Malformed => self.fail_upstream(Status::BadGateway, upstream_client, shared),
            Progress::Complete => self.complete(upstream_client, shared),
        }
    }

    pub(super) fn complete(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        let took = shared.clock.now.saturating_sub(self.head_received_at);
        shared.served.add(Counter::UpstreamBodyWait, took.as_nanos() as u64);
        if let (Some(error), UpstreamProtocol::Http(Some(bucket))) = (self.withheld.take(), &self.protocol) {
            error.report(bucket);
        }
        let flow = self.flow.take().expect("there was a request");
        upstream_client.finish(flow, End::Complete);
        self.rest(upstream_client, shared)
    }

    /// The response matches nothing stored: repeats the request.
    fn retry_unconditionally(
        &mut self,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        let flow = self.flow.take().expect("there was a request");
        let want = self.rest(upstream_client, shared);
        upstream_client.begin_again(flow, shared.served);
        want
    }

    /// The connection becomes idle.
    fn rest(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        self.answered += 1;
        self.is_long = self.response_bytes > RESPONSE_BUFFER_BYTES;
        // After unexpected bytes, or a request that the upstream has not read completely, the next response would be in
        // doubt.
        let is_at_rest = match &self.protocol {
            UpstreamProtocol::FastCgi(fastcgi) => fastcgi.can_reuse(),
            UpstreamProtocol::Http(_) | UpstreamProtocol::Cgi(..) => true,
        };
        let is_whole = self.is_sent && !self.is_cut && self.unsent.take().is_none();
        let may_stay =
            self.keeps && is_whole && is_at_rest && self.input.unread().is_empty() && !shared.is_draining;
        self.stage = Stage::Idle;
        shared.pool.put_buffer(std::mem::take(&mut self.input));
        if may_stay && upstream_client.keep(self.upstream) {
            self.receive()
        } else {
            Want::Close(Reason::Finished)
        }
    }
}

/// Acts on the response's head for the flow; returns true if the request must be repeated.
fn handle_head(id: FlowId, head: &Head<'_>, clock: &Clock, upstream_client: &mut UpstreamClient) -> bool {
    match upstream_client.classify(id, head, clock.second.seconds() as i64) {
        ResponseAction::Again => return true,
        ResponseAction::Stored(revalidation) => {
            upstream_client.set_shared(id, revalidation.is_for_all);
            upstream_client.flow(id).revalidation = Some(revalidation);
        }
        ResponseAction::Answer(fill) => upstream_client.begin_response(id, head, clock, fill),
        ResponseAction::Part(part) => {
            upstream_client.begin_response(id, head, clock, None);
            upstream_client.flow(id).keep_part(part);
        }
        ResponseAction::Combination(joined) => {
            upstream_client.set_shared(id, joined.fill.is_some());
            upstream_client.flow(id).begin_joined(*joined);
        }
    }
    false
}
