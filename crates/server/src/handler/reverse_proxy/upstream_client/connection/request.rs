//! Sends a request to an upstream, and its body as the client sends it.

use sojourn_cgi::fastcgi::end_input;
use sojourn_http::Status;

use super::failure::fail;
use super::fastcgi::append_upload;
use super::{Stage, UpstreamClient, UpstreamConnection, UpstreamProtocol};
use crate::connection::{Buffer, Output, Reason, Shared, Want};
use crate::counters::Counter;

impl UpstreamConnection {
    /// Starts with the current flow.
    pub(super) fn begin(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        let id = self.flow.expect("it has something to do");
        upstream_client.fill(id);
        if self.is_abandoned(upstream_client) {
            return Want::Close(Reason::Finished);
        }
        (self.is_sent, self.is_cut) = (false, false);
        (self.interim_responses, self.response_bytes) = (0, 0);
        let mut bytes = shared.pool.take();
        let flow = upstream_client.flow(id);
        match &mut self.protocol {
            UpstreamProtocol::Http(Some(bucket)) => {
                // Objects are only read, so a body has no place to go.
                let appended = match flow.upload {
                    None => bucket.append_request(flow.request.text(), &mut bytes),
                    Some(_) => Err(Status::MethodNotAllowed),
                };
                if let Err(status) = appended {
                    shared.pool.put(bytes);
                    self.flow = None;
                    fail(id, status, false, upstream_client, shared);
                    return Want::Close(Reason::Finished);
                }
            }
            UpstreamProtocol::Http(None) => {
                bytes.extend_from_slice(flow.request.text());
                if let Some(upload) = &mut flow.upload {
                    // Not moved by `append`, which keeps the memory, and a buffered body may be large.
                    bytes.extend_from_slice(&std::mem::take(&mut upload.bytes));
                }
            }
            UpstreamProtocol::FastCgi(fastcgi) => {
                let client = flow.client.expect("a client has asked");
                if let Err(status) = fastcgi.begin(&flow.request, client, &mut bytes) {
                    shared.pool.put(bytes);
                    self.flow = None;
                    fail(id, status, false, upstream_client, shared);
                    return Want::Close(Reason::Finished);
                }
                match &mut flow.upload {
                    None => end_input(&mut bytes),
                    Some(upload) => {
                        // The application reads the body as it arrives.
                        upload.is_asked_for = true;
                        append_upload(upload, &mut bytes);
                    }
                }
            }
            // The spawner has the head.
            UpstreamProtocol::Cgi(..) => {
                shared.pool.put(bytes);
                self.stage = Stage::Head;
                match &mut flow.upload {
                    None => self.is_sent = true,
                    Some(upload) => upload.is_asked_for = true,
                }
                upstream_client.wake_readers(id);
                return self.send_on(upstream_client, shared);
            }
        }
        let has_upload = flow.upload.is_some();
        self.is_sent = flow.upload.as_ref().is_none_or(|upload| upload.is_complete);
        let is_new = matches!(self.stage, Stage::New);
        self.stage = if is_new { Stage::Connecting } else { Stage::Sending };
        if has_upload {
            // There is room for more.
            upstream_client.wake_readers(id);
        }
        Want::Send(Output { yields: !self.is_sent && !is_new, ..plain(bytes) })
    }

    /// Something was sent: the head with what had arrived of the body, or a later part of that, perhaps not all of it.
    pub(super) fn sent(
        &mut self,
        output: Output,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        if matches!(self.stage, Stage::New) {
            let waited = shared.clock.now.saturating_sub(self.flow(upstream_client).began);
            shared.served.add(Counter::UpstreamConnectWait, waited.as_nanos() as u64);
        }
        if matches!(self.stage, Stage::Connecting | Stage::Sending) {
            self.stage = Stage::Head;
        }
        self.is_sending = false;
        if output.is_sent() {
            output.recycle(shared.pool);
            if self.is_sent
                && let Some(upload) = &mut self.flow(upstream_client).upload
            {
                upload.gathered = None;
            }
        } else {
            self.unsent = Some(output);
        }
        if (self.is_sent && self.unsent.is_none()) || self.is_abandoned(upstream_client) {
            return self.advance(upstream_client, shared);
        }
        self.is_receiving = true;
        Want::Look(Buffer::default())
    }

    /// Sends available bytes of the request's body; otherwise waits for the response, which may arrive early.
    pub(super) fn send_on(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        if let Some(unsent) = self.unsent.take() {
            self.is_sending = true;
            return Want::Send(unsent);
        }
        let id = self.flow.expect("there is a request");
        let Some(upload) = upstream_client.flow(id).upload.as_mut().filter(|_| !self.is_sent) else {
            return self.receive_response(shared);
        };
        self.is_sent = upload.is_complete;
        let bytes = match &self.protocol {
            UpstreamProtocol::Http(_) | UpstreamProtocol::Cgi(..) => std::mem::take(&mut upload.bytes),
            UpstreamProtocol::FastCgi(_) => {
                let mut records = Vec::new();
                append_upload(upload, &mut records);
                records
            }
        };
        // A script may read until the end of its input, whatever CONTENT_LENGTH says.
        let is_last = self.is_sent && matches!(self.protocol, UpstreamProtocol::Cgi(..));
        if bytes.is_empty() && !is_last {
            return self.receive_response(shared);
        }
        self.is_sending = true;
        upstream_client.wake_readers(id);
        Want::Send(Output { is_last, yields: true, ..plain(bytes) })
    }

    /// The upstream takes no more of the request's body. It may have answered all the same.
    pub(super) fn cut_upload(
        &mut self,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        (self.is_sending, self.unsent) = (false, None);
        (self.is_sent, self.is_cut) = (true, true);
        let id = self.flow.expect("there is a request");
        upstream_client.flow(id).upload = None;
        upstream_client.wake_readers(id);
        self.advance(upstream_client, shared)
    }
}

fn plain(bytes: Vec<u8>) -> Output {
    Output { bytes, ..Output::default() }
}
