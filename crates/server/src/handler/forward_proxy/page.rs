//! The page for a request that a forward proxy refuses: why, for people and for programs.

use sojourn_http::request::Request;
use sojourn_http::{Status, head};

use super::Refusal;
use crate::access_log::Outcome;
use crate::connection::{Response, Step};
use crate::handler::reverse_proxy::ReverseProxy;

impl ReverseProxy {
    /// Answers `request`, which goes no further because of `refusal`.
    pub(in crate::handler) fn refuse(
        &self,
        request: &Request<'_>,
        refusal: Refusal,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let status = refusal.status();
        response.shared.served.count(refusal.counter());
        if status == Status::Forbidden {
            response.note_outcome(Outcome::Denied);
        }
        response.begin(status, request);
        let page = format!("{}<p>{}\n", head::error_page(status), refusal.explanation());
        let pseudonym = &self.exchanges.proxy().pseudonym;
        // RFC 9209: which proxy, and what is wrong.
        let proxy_status = format!("{pseudonym}; error={}", refusal.error());
        head::field(response.fields(), "Proxy-Status", &proxy_status);
        response.send_rest(request, status, "text/html; charset=utf-8", page.as_bytes())
    }
}
